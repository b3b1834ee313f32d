"""What starting a script costs in the sandbox: afresh, and forked from a warm interpreter.

Run with: pytest tests/bench/test_preload_bench.py -n 0 --benchmark-enable -s
"""

import sys
from pathlib import Path

import pytest

from fml_hydra.sandbox import Limits, Mount, open_sandbox
from fml_hydra.sandbox.choose import SandboxPolicy

POLICY = SandboxPolicy("bubblewrap", "bubblewrap", 4096, 256, 2048, 4096, 256)


@pytest.mark.benchmark(group="a script that imports torch")
@pytest.mark.parametrize("preload", [(), ("torch",)], ids=["afresh", "forked"])
def test_start_of_a_script(preload: tuple[str, ...], tmp_path: Path, benchmark) -> None:
    (tmp_path / "script.py").write_text("import torch\nprint(torch.ones(3).sum().item())\n")
    sandbox, mounts = open_sandbox(POLICY), [Mount(tmp_path, "/slot", writable=True)]
    argv = [sys.executable, "script.py"]

    def start() -> str:
        env = {"OMP_NUM_THREADS": "1"}
        return sandbox.run(argv, mounts, env, "/slot", Limits(60), preload=preload).stdout

    assert benchmark.pedantic(start, rounds=5, warmup_rounds=1) == "3.0\n"
