"""Score an export with FML-bench's own script, unchanged, whatever tasks it is about.

    python score.py FML_BENCH AGENT_FOLDER [--output-dir FOLDER]

FML_BENCH is a checkout of FML-bench, AGENT_FOLDER a `<llm>.s<seed>/<agent>` of the export. The
script knows 18 tasks by name; here it is told of those in `tasks.json`, beside which this file
lies, and scores the tasks that AGENT_FOLDER has. Stands alone: exports carry a copy of it.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

SCRIPT = "compute_agent_metrics.py"


def main() -> None:
    """Load the script, tell it of the tasks, and let it work."""
    if len(sys.argv) < 3:
        sys.exit(f"usage: python {sys.argv[0]} FML_BENCH AGENT_FOLDER [--output-dir FOLDER]")
    path, agent = Path(sys.argv[1]) / SCRIPT, Path(sys.argv[2])
    if not path.is_file():
        sys.exit(f"{path} does not exist: name a checkout of FML-bench")
    here = Path(__file__).resolve().parent
    script: Any = _loaded(path)
    told = json.loads((here / "tasks.json").read_text())
    for name, task in told.items():
        if name not in script.TASK_META:
            direction = task["direction"]
            script.TASK_META[name] = (task["dataset"], task["metric"], direction)
            script.RANGE_META[name] = (direction, task["best"], task["worst"])
    script.REPO_ROOT = here
    script.TASKS = [p.name for p in sorted(agent.iterdir()) if any(p.glob("*/summary.json"))]
    sys.argv = [str(path), str(agent), *sys.argv[3:]]
    script.main()


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
