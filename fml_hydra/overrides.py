"""The command line before Hydra sees it: `all`, presets, and a check of every cell before any runs.

Hydra resolves plain overrides before any sweeper exists, so `task=all` has to be rewritten here.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fml_hydra.errors import ConfigError, NotPrepared
from fml_hydra.resources import conf_dir, config_file

GROUPS = ("task", "agent", "llm", "prompt", "budget", "sandbox", "tracking")
PROGRAM = "fml_hydra.agents.external.ExternalAgent"
"""Agents that are programs of somebody else: `all` leaves them out."""


@dataclass(frozen=True)
class CommandLine:
    """Arguments sorted into what Hydra calls flags and overrides."""

    flags: tuple[str, ...]
    """Everything that begins with a dash, with its value."""
    overrides: tuple[str, ...]
    """`key=value` words."""
    config_dir: Path | None
    """The user's own `--config-dir`."""

    @property
    def multirun(self) -> bool:
        """Whether a sweep was asked for."""
        return bool({"-m", "--multirun"} & set(self.flags))

    def argv(self) -> list[str]:
        """What is handed to Hydra."""
        return [*self.flags, *self.overrides]

    def searched(self) -> list[str]:
        """What makes `compose`, which knows no flags, look into the user's own folder too."""
        return [f"hydra.searchpath=[file://{self.config_dir}]"] if self.config_dir else []


@dataclass(frozen=True)
class Plan:
    """What a command line is going to run."""

    cells: int
    """How many runs."""
    config: DictConfig
    """The first cell's configuration."""


def parse(argv: Sequence[str]) -> CommandLine:
    """Sort the arguments and write out `all` and `experiment=`; raises ConfigError."""
    flags, overrides, config_dir = _sorted(argv)
    written = []
    for word in overrides:
        key, _, value = word.partition("=")
        if key == "experiment":
            word = f"+{word}"
        elif key.lstrip("+") in GROUPS and re.search(r"(^|[,/])all(,|$)", value):
            word = f"{key}={','.join(_all(key.lstrip('+'), value, config_dir))}"
        written.append(word)
    return CommandLine(tuple(flags), tuple(written), config_dir)


def options(group: str, folder: str = "", config_dir: Path | None = None) -> list[str]:
    """Options of a group in one folder, not those in sub-folders; the user's own come with them."""
    found = set()
    for base in (conf_dir(), config_dir):
        if base is not None:
            found |= {p.stem for p in (base / group / folder).glob("*.yaml")}
    return sorted(f"{folder}/{name}" if folder else name for name in found)


def preflight(line: CommandLine) -> Plan:
    """Compose and check the configuration of every option that takes part, before anything runs.

    Raises ConfigError in one line. Every value of every sweep is tried once, not every combination.
    """
    from fml_hydra.config import load_experiment

    unready: list[NotPrepared] = []
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        choices = _swept(line)
        first = {key: values[0] for key, values in choices.items()}
        base: DictConfig | None = None
        for key, value in [("", ""), *((k, v) for k, vs in choices.items() for v in vs[1:])]:
            words = ({**first, key: value} if key else first).values()
            cfg, picked = _composed([*line.searched(), *words])
            try:
                load_experiment(cfg, picked)
            except NotPrepared as error:
                unready.append(error)
            base = base or cfg
    assert base is not None
    if unready:
        raise not_prepared(unready)
    cells = 1
    for values in choices.values():
        cells *= len(values)
    return Plan(cells, base)


def not_prepared(errors: Sequence[NotPrepared]) -> ConfigError:
    """One message for all tasks; a single one's says what is missing."""
    names = list(dict.fromkeys(error.task for error in errors))
    if len(names) == 1:
        return errors[0]
    return ConfigError(
        f"{len(names)} tasks are not prepared; run `python -m fml_hydra tasks prepare "
        f"{' '.join(names)}`"
    )


def compose_config(overrides: Sequence[str], primary: str = "config") -> DictConfig:
    """The configuration for sub-commands, conf/`primary`.yaml; raises ConfigError in one line."""
    line = parse(overrides)
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return _composed([*line.searched(), *line.overrides], primary)[0]


def _composed(words: Sequence[str], primary: str = "config") -> tuple[DictConfig, dict[str, str]]:
    try:
        cfg = compose(primary, list(words), return_hydra_config=True)
        picked = {str(k): str(v) for k, v in cfg.hydra.runtime.choices.items()}
        OmegaConf.set_struct(cfg, False)
        cfg.pop("hydra")
        OmegaConf.resolve(cfg)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explained(str(error), words, primary)) from error
    return cfg, picked


def _swept(line: CommandLine) -> dict[str, list[str]]:
    """For each override its values as overrides of their own; presets' sweeps included."""
    parser = OverridesParser.create()
    try:
        given = parser.parse_overrides(list(line.overrides))
    except HydraException as error:
        raise ConfigError(" ".join(str(error).split())) from error
    found: dict[str, list[str]] = {}
    for override in given:
        values = _values(override)
        if len(values) > 1 and not line.multirun:
            raise ConfigError(f"{override.input_line} asks for several runs; add -m to sweep")
        found[override.key_or_group + str(override.type)] = values
    if line.multirun:
        _add_preset_sweeps(found, line.searched(), parser)
    return found


def _add_preset_sweeps(
    found: dict[str, list[str]], searched: list[str], parser: OverridesParser
) -> None:
    words = [*searched, *(values[0] for values in found.values())]
    try:
        params = compose("config", words, return_hydra_config=True).hydra.sweeper.params
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explained(str(error), words)) from error
    given = {key.partition("OverrideType")[0] for key in found}
    for key, value in (params or {}).items():
        if key not in given:
            found[key] = _values(parser.parse_overrides([f"{key}={value}"])[0])


def _values(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [str(override.input_line)]
    key = override.get_key_element()
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def _sorted(argv: Sequence[str]) -> tuple[list[str], list[str], Path | None]:
    flags, overrides = [], []
    config_dir = None
    words = iter(argv)
    for word in words:
        name, _, value = word.partition("=")
        if name in {"--config-dir", "-cd"}:
            config_dir = Path(value or next(words, "")).absolute()
            if not config_dir.is_dir():
                raise ConfigError(f"--config-dir: {config_dir} is not a folder")
            flags += ["--config-dir", str(config_dir)]
        elif word in {
            "--cfg",
            "-c",
            "--package",
            "-p",
            "--config-name",
            "-cn",
            "--config-path",
            "-cp",
        }:
            flags += [word, next(words, "")]
        elif word.startswith("-"):
            flags.append(word)
        else:
            overrides.append(word)
    return flags, overrides, config_dir


def _all(group: str, value: str, config_dir: Path | None) -> list[str]:
    names: list[str] = []
    for part in value.split(","):
        folder, _, last = part.rpartition("/")
        found = _menu(group, folder, config_dir) if last == "all" else [part]
        if not found:
            raise ConfigError(f"{group}={part}: there is no folder conf/{group}/{folder}")
        names += found
    return list(dict.fromkeys(names))


def _menu(group: str, folder: str, config_dir: Path | None) -> list[str]:
    """What `all` stands for: every option but programs to be installed and paid for, by name.

    What cannot run without a value from the user (`recording: ???`) is left out as well.
    """
    shipped = conf_dir() / group

    def runs(path: Path) -> bool:
        text = path.read_text() if path.exists() else ""
        return PROGRAM not in text and ": ???" not in text

    return [n for n in options(group, folder, config_dir) if runs(shipped / f"{n}.yaml")]


def _explained(text: str, words: Sequence[str], primary: str = "config") -> str:
    """Hydra's message in one line, with what is allowed and the nearest name."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    flat = " ".join(lines)
    if match := re.search(r"Could not find '([\w/]+)/([^/']+)'", flat):
        group, _, folder = match[1].partition("/")
        name = f"{folder}/{match[2]}" if folder else match[2]
        known = options(group, folder)
        return f"{group}={name}: no such file in conf/{match[1]}; {_allowed(name, known)}"
    if match := re.search(r"Could not override '([^']+)'", flat):
        return _unknown_key(match[1], words, primary)
    return flat


def _unknown_key(key: str, words: Sequence[str], primary: str) -> str:
    """What to say of a key that is not there: its neighbours, and the file they stand in."""
    others = [w for w in words if w.lstrip("+").partition("=")[0] != key]
    parent, _, name = key.rpartition(".")
    try:
        cfg = compose(primary, others, return_hydra_config=True)
        node = OmegaConf.select(cfg, parent) if parent else cfg
        choices = {str(k): str(v) for k, v in cfg.hydra.runtime.choices.items()}
    except (HydraException, OmegaConfBaseException):
        return f"{key}: unknown key"
    known = sorted(k for k in map(str, node or {}) if not k.startswith("_"))
    file = config_file(key, choices, primary)
    return f"{key} ({file}): unknown key; {_allowed(name, known)}"


def _allowed(name: str, known: Sequence[str]) -> str:
    guess = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {guess[0]}? " if guess else ""
    return f"{hint}allowed: {', '.join(known)}"
