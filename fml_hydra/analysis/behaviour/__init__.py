"""What agents do with their steps (FML-bench v1: ACR; v2: behaviours and their failure modes).

    table = behaviour(runs)                 # a row per step: category, academic, shallow, changes
    behaviour_shares(table)                 # a row per agent and language model
    best_and_worst(table, runs)             # what the best and the worst run did
    repeated_errors(load_steps(runs))       # which errors repeat
    confusion()                             # the rules against what the tasks' ideas declare

Read `classify`, then `rules`. Everything is a static comparison of code; nothing is run.
"""

from fml_hydra.analysis.behaviour.agreement import (
    agreement,
    confusion,
    declared_and_found,
    side_by_side,
)
from fml_hydra.analysis.behaviour.judge import Judge, LLMJudge, RulesJudge
from fml_hydra.analysis.behaviour.shares import (
    CATEGORIES,
    behaviour_shares,
    best_and_worst,
    repeated_errors,
    run_shares,
)
from fml_hydra.analysis.behaviour.steps import BehaviourRow, behaviour

__all__ = [
    "CATEGORIES",
    "BehaviourRow",
    "Judge",
    "LLMJudge",
    "RulesJudge",
    "agreement",
    "behaviour",
    "behaviour_shares",
    "best_and_worst",
    "confusion",
    "declared_and_found",
    "repeated_errors",
    "run_shares",
    "side_by_side",
]
