"""The command line before Hydra: `all`, presets, and one clear line for all that is wrong."""

import pytest

from fml_hydra.errors import ConfigError
from fml_hydra.overrides import options, parse, preflight


def test_all_means_the_options_of_the_folder_and_not_of_its_sub_folders():
    line = parse(["-m", "agent=all", "task=all"])
    agents, tasks = line.overrides
    names = agents.removeprefix("agent=").split(",")
    assert names == sorted(names)
    assert set(names) >= {"ai_scientist", "aide"}
    assert not any("/" in name for name in names)
    assert tasks == f"task={','.join(options('task'))}"
    assert set(options("task")) >= {"causality", "fairness", "generalization"}


def test_all_of_a_sub_folder_and_mixed_with_names():
    (given,) = parse(["agent=upstream/all,aide"]).overrides
    assert given == f"agent={','.join(options('agent', 'upstream'))},aide"
    assert "upstream/aide" in given


def test_programs_of_others_are_named_one_by_one(tmp_path):
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "mine.yaml").write_text("name: mine\n")
    (given,) = parse(["--config-dir", str(tmp_path), "agent=all"]).overrides
    names = set(given.removeprefix("agent=").split(","))
    programs = {"external", "claude_code", "codex", "gemini"}
    assert names == {*options("agent"), "mine"} - programs
    assert "agent=external,aide" in parse(["agent=external,aide"]).overrides


def test_users_own_options_belong_to_all(words):
    assert "toy" in parse(["-m", "task=all", *words()[:2]]).overrides[0]


def test_all_of_a_folder_that_is_not_there():
    with pytest.raises(ConfigError, match="task=nope/all: there is no folder conf/task/nope"):
        parse(["task=nope/all"])


def test_values_that_only_contain_all_are_left_alone():
    words = ["+note=all", "task=allsorts", "sweep=all"]
    assert parse(words).overrides == tuple(words)


def test_presets_may_be_named_with_or_without_a_plus():
    for word in ("experiment=smoke", "+experiment=smoke"):
        assert parse([word]).overrides == ("+experiment=smoke",)


def test_preflight_counts_cells_and_presets_sweep_seeds(words):
    assert preflight(parse(["-m", *words("agent=aide,ai_scientist", "seed=0,1,2")])).cells == 6
    assert preflight(parse(["-m", *words("+experiment=paper", "agent=aide,linear")])).cells == 6
    given = preflight(parse(["-m", *words("+experiment=paper", "seed=7")]))
    assert given.cells == 1
    assert given.config.budget.steps == 100
    assert preflight(parse(words("experiment=smoke"))).config.budget.steps == 2
    assert preflight(parse(words())).config.budget.steps == 10


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("task=fairnes", ["task=fairnes", "conf/task", "did you mean fairness?", "causality"]),
        ("agent=aid", ["agent=aid", "did you mean aide?", "ai_scientist"]),
        ("llm=gpt", ["llm=gpt", "allowed:", "offline"]),
        ("sed=1", ["sed (conf/config.yaml)", "did you mean seed?", "slots"]),
        ("budget.stepz=3", ["budget.stepz (conf/budget/default.yaml)", "did you mean steps?"]),
        ("+budget.stepz=3", ["budget.stepz", "did you mean steps?", "conf/budget/default.yaml"]),
        ("agent.policy.num_draft=3", ["(conf/agent/aide.yaml)", "did you mean num_drafts?"]),
        ("budget.steps=many", ["budget.steps", "valid integer", "'many'", "default.yaml"]),
        ("budget.steps=0", ["budget.steps", "greater than 0", "default.yaml"]),
        ("slots=0", ["slots", "greater than 0", "conf/config.yaml"]),
        ("seed=two", ["seed", "valid integer", "'two'"]),
        ("resume=maybe", ["resume", "'auto' or 'never'", "'maybe'"]),
        ("sandbox.level=jail", ["sandbox.level", "'auto', 'bubblewrap' or 'process'"]),
        ("task.metric.direction=up", ["task.metric.direction", "'higher' or 'lower'", "toy.yaml"]),
        ("task.targets=[nope.py]", ["targets", "'nope.py' does not exist", "repo"]),
        ("task.targets=[run.py]", ["run.py is both a target and protected"]),
        ("task.protected=[../grade.py]", ["protected", "must lie inside the repository"]),
        ("tasks_dir=/nowhere", ["/nowhere/toy/repo does not exist"]),
        ("agent.policy._target_=nope.Policy", ["agent.policy", "nope"]),
        ("~budget.steps", ["budget.steps", "is missing"]),
        ("prompt.templates.edit='{% if %}'", ["prompt.templates", "edit, line 1"]),
        ("seed=1,2", ["seed=1,2", "add -m"]),
        ("seed==", ["seed"]),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_runs(words, word, parts):
    with pytest.raises(ConfigError) as caught:
        preflight(parse(words(word)))
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    for part in parts:
        assert part in text


def test_an_error_in_any_value_of_a_sweep_is_found_before_anything_runs(words):
    with pytest.raises(ConfigError, match="agent=aidee"):
        preflight(parse(["-m", *words("agent=aide,aidee")]))
    with pytest.raises(ConfigError, match=r"seed.*'x'"):
        preflight(parse(["-m", *words("seed=0,1,x")]))


def test_config_dir_that_is_not_there():
    with pytest.raises(ConfigError, match="--config-dir: .* is not a folder"):
        parse(["--config-dir", "/nowhere"])
