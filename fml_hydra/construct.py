"""From a composed configuration to its objects; a bad one is turned into one clear line here.

Not here: composing it (overrides), and what the objects are.
"""

import difflib
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from fml_hydra.errors import ConfigError
from fml_hydra.resources import config_file

File = Callable[[str], str]
"""The file that a key stands in."""


def construct(
    cfg: DictConfig, choices: Mapping[str, str] | None = None, primary: str = "config"
) -> Any:
    """The object that `cfg`, all of a configuration or one node of it, stands for.

    `choices` says which option each group has, `primary` where the rest stands. Raises ConfigError
    in one line that names key, file and what is allowed.
    """
    try:
        return instantiate(cfg, _convert_="all")
    except InstantiationException as error:
        file = partial(config_file, choices=choices or {}, primary=primary)
        raise ConfigError(_explained(error, cfg, file)) from error
    except OmegaConfBaseException as error:
        raise ConfigError(str(error).splitlines()[0]) from error


def _explained(error: InstantiationException, cfg: DictConfig, file: File) -> str:
    text = str(error)
    key = text.rpartition("full_key: ")[2].strip() if "full_key: " in text else ""
    key = key.replace("agent.prompts", "prompt", 1)  # where `prompts: ${prompt}` has it from
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        return "; ".join(_one(dict(e), key, cfg, file) for e in cause.errors())
    first = (str(cause) if cause else text).splitlines()[0]
    return f"{key or 'configuration'} ({file(key)}): {first}"


def _one(problem: dict[str, Any], key: str, cfg: DictConfig, file: File) -> str:
    where = ".".join(str(x) for x in (key, *problem["loc"]) if x != "")
    kind, name = problem["type"], str(problem["loc"][-1]) if problem["loc"] else ""
    if kind == "unexpected_keyword_argument":
        target = OmegaConf.select(cfg, f"{key}._target_" if key else "_target_", default="")
        known = _fields(str(target))
        guess = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {guess[0]}? " if guess else ""
        what = f"unknown key; {hint}allowed: {', '.join(known)}"
    elif kind in {"missing", "missing_argument"}:
        what = "is missing; give it a value there or on the command line"
    else:
        what = f"{problem['msg']}, got {textwrap.shorten(repr(problem['input']), 80)}"
    return f"{where} ({file(where)}): {what}"


def _fields(target: str) -> list[str]:
    return sorted(getattr(get_class(target), "__dataclass_fields__", {})) if target else []
