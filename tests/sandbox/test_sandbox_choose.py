"""Which level is chosen, and what is said when none will do."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from pydantic import ValidationError
from sandbox_bench import Bench, policy

from fml_hydra.errors import SandboxError
from fml_hydra.sandbox import Completed, Level, Limits, Mount, SandboxPolicy, choose, probe
from fml_hydra.sandbox import open_sandbox as open_
from fml_hydra.sandbox.bubblewrap import Bubblewrap
from fml_hydra.sandbox.process import PlainProcess

CONF = Path(__file__).parents[2] / "conf"


def _forget() -> None:
    choose._find.cache_clear()
    choose._announce.cache_clear()


@pytest.fixture(autouse=True)
def _forget_afterwards() -> Iterator[None]:
    _forget()
    yield
    _forget()


def _offer(monkeypatch: pytest.MonkeyPatch, *binaries: Path) -> None:
    """Let these be the bubblewraps of this machine."""
    monkeypatch.setattr(choose, "binaries", lambda: iter(binaries))
    _forget()


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without bubblewrap."""
    _offer(monkeypatch)


def test_auto_takes_the_strongest(strong: Bench) -> None:
    assert strong.sandbox.level == "bubblewrap"
    assert open_(policy("auto")).level == "bubblewrap"


def test_it_is_probed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Level] = []
    real = choose._try
    monkeypatch.setattr(choose, "_try", lambda s: tried.append(s.level) or real(s))
    assert open_(policy("process")) is open_(policy("process"))
    assert tried == ["process"]


@pytest.mark.usefixtures("missing")
def test_without_bubblewrap_auto_falls_back_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert isinstance(open_(policy("auto")), PlainProcess)
        open_(policy("auto"))
    (record,) = caplog.records
    assert "NOT closed" in record.getMessage()
    assert "bubblewrap does not work here (it is not installed)" in record.getMessage()
    assert probe("bubblewrap") == "it is not installed"
    assert probe("process") == ""


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize(
    ("level", "require"),
    [("auto", "bubblewrap"), ("bubblewrap", "bubblewrap"), ("bubblewrap", "process")],
)
def test_without_bubblewrap_what_needs_it_is_refused(level: str, require: str) -> None:
    with pytest.raises(SandboxError) as caught:
        open_(policy(level, require))
    text = str(caught.value)
    assert "\n" not in text
    assert "bubblewrap does not work here (it is not installed)" in text
    assert "sandbox=process" in text


def test_a_level_below_what_is_required_is_refused() -> None:
    with pytest.raises(SandboxError, match="process is below sandbox.require=bubblewrap"):
        open_(policy("process", "bubblewrap"))


@pytest.mark.parametrize("binary", ["/bin/false", "/bin/true", "/no/such/bwrap"])
def test_a_binary_that_does_not_work_is_named_by_its_failure(
    monkeypatch: pytest.MonkeyPatch, binary: str, strong: Bench
) -> None:
    _offer(monkeypatch, Path(binary))
    assert probe("bubblewrap")
    assert "\n" not in probe("bubblewrap")
    with pytest.raises(SandboxError, match="bubblewrap|cannot start"):
        Bubblewrap(Path(binary)).run(["true"], [strong.mount], {}, "/slot", Limits(10))


def test_a_second_binary_is_tried(monkeypatch: pytest.MonkeyPatch, strong: Bench) -> None:
    good = strong.sandbox.binary  # type: ignore[attr-defined]
    _offer(monkeypatch, Path("/bin/false"), good)
    assert probe("bubblewrap") == ""


def test_flags_a_machine_refuses_are_dropped_only_if_allowed(
    monkeypatch: pytest.MonkeyPatch, strong: Bench
) -> None:
    good = strong.sandbox.binary  # type: ignore[attr-defined]
    _offer(monkeypatch, good)
    monkeypatch.setattr(choose, "FLAGS", (*choose.FLAGS, "--no-such-flag"))
    assert "--no-such-flag" in probe("bubblewrap")


class _Leaky:
    """Claims the strong level, and closes nothing."""

    level: Level = "bubblewrap"

    def inside(self, mount: Mount) -> str:
        return str(mount.source)

    def run(self, *args: Any, **kwargs: Any) -> Completed:
        return PlainProcess().run(*args, **kwargs)


def test_the_canary_notices_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_candidates", lambda level, gpus: [_Leaky()])
    assert "secret" in probe("bubblewrap")


@pytest.mark.parametrize("name", ["auto", "bubblewrap", "process"])
def test_the_menu(name: str) -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        made = instantiate(compose(overrides=[f"+sandbox={name}"]).sandbox)
    assert isinstance(made, SandboxPolicy)
    assert made.level == name
    assert made.require == ("bubblewrap" if name == "bubblewrap" else "process")


@pytest.mark.parametrize(
    "knobs", [{"memory": 1}, {"processes": 0}, {"disk_mb": "much"}, {"level": "docker"}]
)
def test_wrong_knobs_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(knobs))):
        policy(**{"level": "auto", **knobs})


def test_a_policy_caps_what_a_task_asks_for() -> None:
    caps = policy("auto", memory_mb=1000, processes=7, disk_mb=8, open_files=9, output_kb=10)
    assert caps.limits(5.0, 4096) == Limits(5.0, 1000, 7, 8, 9, 10)
    assert caps.limits(5.0, 500).memory_mb == 500
