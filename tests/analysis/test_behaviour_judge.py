"""A language model as the judge: asked once, read strictly, named; the rules where it fails."""

from pathlib import Path

import journals
import pandas as pd
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from fml_hydra.analysis.behaviour import (
    LLMJudge,
    RulesJudge,
    agreement,
    behaviour,
    confusion,
    side_by_side,
)
from fml_hydra.analysis.behaviour.judge import KINDS, Question
from fml_hydra.analysis.load import load_folder
from fml_hydra.llm.base import Request
from fml_hydra.overrides import compose_config
from fml_hydra.resources import conf_dir
from fml_hydra.testing import ScriptedLLM, as_json

QUESTION = Question("toy", "a new loss", "-a\n+b\n")


class Asked:
    """Answers one text after the other, the last one again and again."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.requests = list(texts), list[Request]()

    def __call__(self, request: Request) -> str:
        self.requests.append(request)
        return self.texts[min(len(self.requests), len(self.texts)) - 1]


def judge(asked: Asked, cache: Path | None = None, longest: int = 1000) -> LLMJudge:
    prompts = instantiate(OmegaConf.load(conf_dir() / "judge" / "llm.yaml").prompts)
    return LLMJudge(ScriptedLLM(asked, "model"), prompts, cache, longest)


def test_what_it_is_asked_and_what_it_says():
    asked = Asked('It is a loss.\n```json\n{"kind": "objective"}\n```')
    assert judge(asked).kind(QUESTION) == "objective"
    (request,) = asked.requests
    system, question = request.messages
    assert (system.role, question.role, request.purpose) == ("system", "user", "analysis")
    assert "a new loss" in question.content
    assert "-a\n+b" in question.content
    assert all(f"- {kind}: " in question.content for kind in KINDS)


def test_it_is_asked_once(tmp_path: Path):
    asked = Asked(as_json({"kind": "data"}))
    found = [judge(asked, tmp_path).kind(QUESTION) for _ in range(2)]
    assert found == ["data", "data"]
    assert len(asked.requests) == 1
    judge(asked, tmp_path).kind(Question("toy", "another plan", QUESTION.diff))
    assert len(asked.requests) == 2


@pytest.mark.parametrize("bad", ["data", '{"kind": "design"}', '{"kind": 1}', '["data"]', "{}", ""])
def test_one_repair_of_what_cannot_be_read(bad: str):
    asked = Asked(bad, as_json({"kind": "data"}))
    assert judge(asked).kind(QUESTION) == "data"
    first, repair = asked.requests
    assert repair.purpose == "repair"
    assert repair.messages[: len(first.messages)] == first.messages
    assert repair.messages[-2].content == bad


def test_without_a_verdict_it_is_not_asked_again(tmp_path: Path):
    asked = Asked("no idea")
    found = [judge(asked, tmp_path).kind(QUESTION) for _ in range(2)]
    assert found == [None, None]
    assert len(asked.requests) == 2


def test_long_diffs_lose_their_middle():
    asked = Asked(as_json({"kind": "data"}))
    judge(asked, longest=10).kind(Question("toy", "", "abcde" + "x" * 90 + "vwxyz"))
    content = asked.requests[0].messages[-1].content
    assert "abcde\n[... 90 characters left out ...]\nvwxyz" in content


BASE = "RATE = 1\n\n\ndef fit(x):\n    return x * RATE\n"


@pytest.fixture
def runs(tmp_path: Path) -> pd.DataFrame:
    events = journals.events([0.5, 0.6, 0.7], test=0.6, pristine={"model.py": BASE})
    texts = [BASE.replace("1", "2"), BASE.replace("x * RATE", "-x"), BASE]
    for event, text in zip(events[1:4], texts, strict=True):
        event.update(snapshot={"model.py": text}, parents=[], plan=f"plan {event['id']}")
    journals.written(tmp_path / "runs" / "a", events)
    return load_folder(tmp_path)


def test_verdicts_are_named_and_held_against_the_rules(runs: pd.DataFrame):
    asked = Asked(as_json({"kind": "parameter"}), as_json({"kind": "structural"}))
    judged = behaviour(runs, judge(asked))
    assert len(asked.requests) == 2  # the last step changes nothing
    assert list(judged["kind"]) == ["parameter", "structural", ""]
    assert list(judged["category"])[:2] == ["parameter configuration", "structural modification"]
    assert list(judged["judge"]) == ["model", "model", "rules"]
    assert [bool(value) for value in judged["academic"][:2]] == [False, True]
    assert "plan 1" in asked.requests[1].messages[-1].content
    assert "+    return -x" in asked.requests[1].messages[-1].content
    both = side_by_side(behaviour(runs), judged)
    assert list(both["step"]) == [0, 1]
    counts = confusion(both, "rules", "judge")
    assert counts.loc["algorithmic modification", "structural modification"] == 1
    assert agreement(counts) == 0.5


def test_the_rules_decide_where_it_does_not(runs: pd.DataFrame):
    judged = behaviour(runs, judge(Asked("?")))
    assert judged.equals(behaviour(runs))
    assert judged.equals(behaviour(runs, RulesJudge()))
    assert side_by_side(judged, judged).empty


def test_the_options_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GEMINI_API_KEY", "none")
    rules = instantiate(OmegaConf.load(conf_dir() / "judge" / "rules.yaml"))
    assert rules == RulesJudge()
    cfg = compose_config(["+judge=llm", "llm@judge.llm=gemini-2.5-pro", f"cache_dir={tmp_path}"])
    found = instantiate(cfg.judge, _convert_="all")
    assert isinstance(found, LLMJudge)
    assert found.name == "gemini-2.5-pro"
