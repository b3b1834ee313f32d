"""The child process in which a task's own trusted files run: `python -I trusted.py grade|prepare`.

It reads one JSON job from stdin and, for grading, writes one JSON answer to stdout. A fresh
isolated interpreter that never imports agent code; whatever the task's file prints goes to stderr.
"""

import contextlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    """Do the job named on the command line."""
    import numpy  # noqa: F401  # warm it up while the candidate still trains

    job = json.loads(sys.stdin.read() or "null")
    if job is None:  # the candidate never got as far as outputs
        return
    with contextlib.redirect_stdout(sys.stderr):
        answer = {"prepare": _prepare, "grade": _grade}[sys.argv[1]](job)
    sys.stdout.write(json.dumps(answer))


def _prepare(job: dict[str, Any]) -> dict[str, Any]:
    sources = {name: Path(path) for name, path in job["sources"].items()}
    _load(job["script"]).prepare(sources, Path(job["out"]))
    return {}


def _grade(job: dict[str, Any]) -> dict[str, Any]:
    from fml_hydra.errors import InvalidOutput

    try:
        metrics = _load(job["script"]).grade(Path(job["outputs"]), Path(job["answers"]))
    except InvalidOutput as error:
        return {"invalid": str(error)}
    if not isinstance(metrics, dict) or not metrics:
        return {"broken": f"grade() returned {type(metrics).__name__}, not a dict of metrics"}
    wrong = [k for k, v in metrics.items() if isinstance(v, bool) or not hasattr(v, "__float__")]
    if wrong:
        return {"broken": f"grade() returned no number for {', '.join(map(str, wrong))}"}
    return {"metrics": {str(k): repr(float(v)) for k, v in metrics.items()}}


def _load(script: str) -> ModuleType:
    sys.path.insert(0, str(Path(script).parent))  # helpers beside the script, never agent code
    spec = importlib.util.spec_from_file_location(Path(script).stem, script)
    if spec is None or spec.loader is None:
        raise ImportError(script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
