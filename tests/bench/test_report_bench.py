"""A report on 20,000 steps: 200 runs of 100, without the drawing of figures.

Run with: pytest tests/bench/test_report_bench.py -n 0 --benchmark-enable -s
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd

sys.path += [str(Path(__file__).parents[1] / name) for name in ("analysis", "report")]
from studies import run, study_of  # noqa: E402

from fml_hydra.report.build import build, figures_of  # noqa: E402
from fml_hydra.report.html import page  # noqa: E402

RUNS, STEPS = 200, 100


def test_twenty_thousand_steps(benchmark, tmp_path):
    """Under a minute of processor time, and a page below 15 MB."""
    values = [None if k % 5 == 0 else 0.5 + 0.004 * k for k in range(STEPS)]
    run(tmp_path / "m", "t", "a", values, test=0.5, steps=STEPS)
    one = study_of(tmp_path / "m", "diversity=false")
    tables: dict[str, list[pd.DataFrame]] = {"runs": [], "steps": []}
    for n in range(RUNS):
        cell = {"run_id": f"{n:032d}", "task": f"t{n % 5}", "agent": "abcdefgh"[n // 5 % 8]}
        tables["runs"].append(one.runs.assign(**cell, seed=n // 40))
        tables["steps"].append(one.steps.assign(**cell, seed=n // 40))
    many = {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}
    study = replace(one, **many)

    def whole() -> str:
        sections = build(study)
        return page(study, sections, {figure.name: "" for figure in figures_of(sections)})

    began = time.process_time()
    html = benchmark.pedantic(whole, rounds=1)
    seconds = time.process_time() - began
    benchmark.extra_info.update(processor_seconds=seconds, megabytes=len(html) / 1e6)
    assert seconds < 60
    assert len(html) < 15e6
    assert html.count("<details") == RUNS
