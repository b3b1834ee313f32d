"""What FML-bench published (arXiv 2510.10472v2), to be shown beside ours where the cell exists.

Its tasks are larger than the embedded ones, so the numbers are for orientation, not for a test.
"""

from collections.abc import Sequence

import pandas as pd

_AI, _AIDE, _CLAUDE = "ai_scientist", "aide", "claude_code"
_GPT, _GEMINI, ANY = "gpt-5", "gemini-2.5-pro", ""
NAN = float("nan")
COLUMNS = ["agent", "llm", "task", "metric", "published", "published_std"]
_SCR, _SSR = "step_completion_rate", "step_success_rate"
_ROWS = (
    ("baseline", ANY, "generalization", "test", 0.2254, NAN),
    ("baseline", ANY, "data_efficiency", "test", 0.6547, NAN),
    ("baseline", ANY, "representation", "test", 0.7562, NAN),
    ("baseline", ANY, "continual", "test", 0.2710, NAN),
    ("baseline", ANY, "robustness", "test", 0.4848, NAN),
    ("baseline", ANY, "privacy", "test", 0.8114, NAN),  # AUC; the embedded task has AUC - 0.5
    ("baseline", ANY, "fairness", "test", 0.3787, NAN),
    (_AI, _GEMINI, "continual", "test", 0.7808, NAN),
    (_AI, _GEMINI, "privacy", "test", 0.1750, NAN),
    (_AI, ANY, ANY, "diversity", 24.66, NAN),
    (_AIDE, ANY, ANY, "diversity", 23.50, NAN),
    (_CLAUDE, ANY, ANY, "diversity", 8.75, NAN),
    (_AI, _GPT, ANY, _SCR, 1.00, 0.00),
    (_AI, _GEMINI, ANY, _SCR, 1.00, 0.00),
    (_AIDE, _GPT, ANY, _SCR, 0.54, 0.38),
    (_AIDE, _GEMINI, ANY, _SCR, 0.69, 0.24),
    (_CLAUDE, ANY, ANY, _SCR, 0.07, 0.06),
    (_AIDE, _GPT, ANY, _SSR, 0.64, 0.30),
    (_AI, _GPT, ANY, _SSR, 0.83, 0.27),
    (_CLAUDE, ANY, ANY, _SSR, 0.83, 0.32),
    (_CLAUDE, ANY, ANY, "tokens", 9.06e6, 3.64e6),
    (_CLAUDE, ANY, ANY, "tokens_per_step", 3.10e6, 4.34e6),
    (_AI, ANY, ANY, "tokens", 6.04e6, 2.18e6),
    (_AI, ANY, ANY, "tokens_per_step", 0.06e6, 0.02e6),
    (_AIDE, ANY, ANY, "tokens", 5.45e6, 2.51e6),
    (_AIDE, ANY, ANY, "tokens_per_step", 0.05e6, 0.03e6),
)


def published() -> pd.DataFrame:
    """COLUMNS, in our names and units; an empty `llm` or `task` means over all of them."""
    return pd.DataFrame(_ROWS, columns=COLUMNS)


def beside_published(table: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    """A table with the columns `published` and `published_std`; NaN where there is no such cell.

    `table` is one of `mean_and_std`, or of `best_of_n` with `metric="test"`. Without a value for
    the LLM, the one over all LLMs counts.
    """
    tasks = table["task"] if "task" in table else [ANY] * len(table)
    metrics = table["metric"] if metric is None else [metric] * len(table)
    cells = zip(table["agent"], table["llm"], tasks, metrics, strict=True)
    found = [_value(cell) for cell in cells]
    columns = pd.DataFrame(found, columns=COLUMNS[-2:], index=table.index, dtype=float)
    return table.assign(published=columns["published"], published_std=columns["published_std"])


def _value(cell: Sequence[str]) -> tuple[float, float]:
    agent, llm, task, metric = cell
    known = {row[:4]: row[4:] for row in _ROWS}
    anyone = known.get((agent, ANY, task, metric), (NAN, NAN))
    return known.get((agent, llm, task, metric), anyone)
