"""Results of other benchmarks as runs of ours, and ours as theirs.

FML-bench's layout (`summary.json`, `step_snapshots/`, `*final_test/`) is read by `layout` and
`reading`, written by `writing`; `tasks` knows what its script knows of each task. The formats are
read and written as its `compute_agent_metrics.py` (github.com/qrzou/FML-bench) does.
"""
