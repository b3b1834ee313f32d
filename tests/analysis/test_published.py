"""Published values stand where they belong, and nowhere else."""

import pandas as pd
from across import row, table

from fml_hydra.analysis.published import beside_published, published
from fml_hydra.analysis.tables import best_of_n, cost, reliability


def test_beside_our_means():
    runs = table(
        row("aide", llm="gpt-5", step_completion_rate=0.5, tokens=1.0),
        row("aide", llm="offline"),
        row("mine", llm="gpt-5"),
    )
    found = beside_published(reliability(runs)).set_index(["agent", "llm", "metric"])
    assert found.loc[("aide", "gpt-5", "step_completion_rate"), "published"] == 0.54
    assert found.loc[("aide", "gpt-5", "step_success_rate"), "published_std"] == 0.30
    assert found["published"].notna().sum() == 2
    tokens = beside_published(cost(runs)).set_index(["agent", "llm", "metric"])["published"]
    assert tokens[("aide", "offline", "tokens")] == 5.45e6  # published over all LLMs
    assert pd.isna(tokens[("mine", "gpt-5", "tokens")])


def test_beside_our_best():
    runs = table(
        row("ai_scientist", llm="gemini-2.5-pro", task="continual"),
        row("ai_scientist", llm="gemini-2.5-pro", task="fairness"),
    )
    found = beside_published(best_of_n(runs), metric="test").set_index("task")["published"]
    assert found["continual"] == 0.7808
    assert pd.isna(found["fairness"])


def test_each_cell_is_there_once():
    assert not published().duplicated(["agent", "llm", "task", "metric"]).any()
