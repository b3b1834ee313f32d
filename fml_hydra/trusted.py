"""The child process in which a task's own trusted file runs: `python -I trusted.py grade FILE`.

It loads the file (grade.py or prepare.py) at once, then waits for a JSON job on stdin and writes a
JSON answer to stdout. A fresh isolated interpreter that never imports agent code; whatever the file
prints goes to stderr.
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
    verb, script = sys.argv[1:3]
    with contextlib.redirect_stdout(sys.stderr):
        module = _load(script)
        job = json.loads(sys.stdin.read() or "null")
        if job is None:  # the candidate never got as far as outputs
            return
        answer = {"prepare": _prepare, "grade": _grade}[verb](module, job)
    sys.stdout.write(json.dumps(answer))


def _prepare(module: ModuleType, job: dict[str, Any]) -> dict[str, Any]:
    sources = {name: Path(path) for name, path in job["sources"].items()}
    module.prepare(sources, Path(job["out"]))
    return {}


def _grade(module: ModuleType, job: dict[str, Any]) -> dict[str, Any]:
    from fml_hydra.errors import InvalidOutput

    try:
        metrics = module.grade(Path(job["outputs"]), Path(job["answers"]))
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
