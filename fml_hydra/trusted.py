"""The child process in which a task's own trusted file runs: `trusted.py grade|prepare FILE MB`.

It loads the file (grade.py or prepare.py) at once, then waits for a JSON job on stdin and writes a
JSON answer to stdout. A fresh isolated interpreter that never imports agent code; whatever the file
prints goes to stderr. MB limits its memory (0: no limit), for outputs made to unpack without end.
"""

import importlib.util
import json
import os
import resource
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    """Do the job named on the command line."""
    verb, script, memory_mb = sys.argv[1:4]
    if int(memory_mb):
        resource.setrlimit(resource.RLIMIT_DATA, (int(memory_mb) << 20,) * 2)
    answers = os.dup(1)
    os.dup2(2, 1)  # below Python too: a C library may print
    module = _load(script)
    job = json.loads(sys.stdin.read() or "null")
    if job is None:  # the candidate never got as far as outputs
        return
    answer = {"prepare": _prepare, "grade": _grade}[verb](module, job)
    with os.fdopen(answers, "w") as file:
        file.write(json.dumps(answer))


def _prepare(module: ModuleType, job: dict[str, Any]) -> dict[str, Any]:
    sources = {name: Path(path) for name, path in job["sources"].items()}
    module.prepare(sources, Path(job["out"]))
    return {}


def _grade(module: ModuleType, job: dict[str, Any]) -> dict[str, Any]:
    from fml_hydra.errors import InvalidOutput, MissingOutput

    try:
        metrics = module.grade(Path(job["outputs"]), Path(job["answers"]))
    except MissingOutput as error:
        return {"missing": str(error)}
    except InvalidOutput as error:
        return {"invalid": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001  # who is to blame is judged outside
        return {"broken": f"grade() raised {_told(error)}"}
    if not isinstance(metrics, dict) or not metrics:
        what = "an empty dict" if metrics == {} else type(metrics).__name__
        return {"broken": f"grade() returned {what}, not a dict of metrics"}
    numbers = {str(name): _number(value) for name, value in metrics.items()}
    if wrong := [name for name, number in numbers.items() if number is None]:
        return {"broken": f"grade() returned no number for {', '.join(wrong)}"}
    return {"metrics": numbers}


def _number(value: object) -> str | None:
    """A number as text that keeps NaN, infinities and every digit; None if it is none."""
    if isinstance(value, (bool, str, bytes)) or type(value).__name__ == "bool":  # numpy's too
        return None
    try:
        return repr(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _told(error: BaseException) -> str:
    """One line: type, message, and where it was raised."""
    message = (str(error).strip().splitlines() or [""])[0]
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    return f"{type(error).__name__}{f': {message}' if message else ''} ({place})"


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
