"""A slot in a sandbox, for candidates written as a few lines of Python."""

import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fml_hydra.sandbox import Completed, Limits, Mount, Sandbox, SandboxPolicy


@dataclass(frozen=True)
class Bench:
    """A sandbox with a writable slot."""

    sandbox: Sandbox
    slot: Path
    preload: tuple[str, ...] = ()
    """Packages to start Python scripts with."""

    @property
    def mount(self) -> Mount:
        return Mount(self.slot, "/slot", writable=True)

    def run(
        self,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        python: Path = Path(sys.executable),
        hidden: Sequence[Path] = (),
        seconds: float = 60,
        **limits: int,
    ) -> Completed:
        """Run `argv` in the slot."""
        cwd = self.sandbox.inside(self.mount)
        bounds = replace(Limits(seconds), **limits)
        every = [self.mount, *mounts]
        return self.sandbox.run(argv, every, env or {}, cwd, bounds, python, hidden, self.preload)

    def python(self, code: str, *args: str, **options: Any) -> Completed:
        """Run lines of Python in the slot; `args` are its sys.argv[1:]."""
        script = textwrap.dedent(code)
        interpreter = str(options.get("python", sys.executable))
        if self.preload:
            folder = self.slot.parent / "script"
            folder.mkdir(exist_ok=True)
            (folder / "script.py").write_text(script)
            mounts = [*options.pop("mounts", ()), Mount(folder, "/script")]
            return self.run([interpreter, "/script/script.py", *args], mounts=mounts, **options)
        return self.run([interpreter, "-c", script, *args], **options)


def policy(level: str, require: str = "process", **knobs: Any) -> SandboxPolicy:
    """A policy with generous limits."""
    limits: dict[str, Any] = {
        "memory_mb": 8192,
        "processes": 256,
        "disk_mb": 2048,
        "open_files": 4096,
        "output_kb": 256,
    }
    return SandboxPolicy(level=level, require=require, **{**limits, **knobs})
