"""Real clients against a fake server: what is sent, what comes back, what it costs."""

import json
import logging
import subprocess
import sys

import pytest
from fake_api import FakeApi, error
from provider_bench import CONVERSATION, KEY, Ask, request

from fml_hydra.config import load_experiment
from fml_hydra.errors import ConfigError
from fml_hydra.llm import provider
from fml_hydra.llm.base import LLM, Forecasts, Message, ProviderError, Usage
from fml_hydra.overrides import compose_config

OPENAI = Usage(input=1000, cached=600, output=200, reasoning=150)
ANTHROPIC = Usage(input=1000, cached=600, output=200, cache_write=100)
SCHEMA = {
    "type": "object",
    "properties": {"Name": {"type": "string"}},
    "required": ["Name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("name", "usage", "cost"),
    [
        ("gpt-5", OPENAI, 0.002575),  # 400 x 1.25 + 600 x 0.125 + 200 x 10
        ("gpt-6.1-sol", OPENAI, 0.00286),  # 400 x 2 + 600 x 0.1 + 200 x 10
        ("claude-opus-4.1", ANTHROPIC, 0.022275),  # 300 x 15 + 600 x 1.5 + 100 x 18.75 + 200 x 75
        ("claude-opus-5.5", ANTHROPIC, 0.00582),  # 300 x 4 + 600 x 0.2 + 100 x 5 + 200 x 20
        ("gemini-2.5-pro", OPENAI, 0.002575),  # 400 x 1.25 + 600 x 0.125 + 200 x 10
    ],
)
def test_an_answer_with_its_tokens_and_its_cost(
    llm: Ask, api: FakeApi, name: str, usage: Usage, cost: float
) -> None:
    model = llm(name)
    assert isinstance(model, LLM)
    assert isinstance(model, Forecasts)
    reply = model.complete(request())
    assert (reply.text, reply.finish, reply.usage) == ("hello", "stop", usage)
    assert reply.cost == pytest.approx(cost, abs=1e-12)
    assert 0 < reply.seconds < 60, "importing the library is no part of it"
    assert reply.model
    assert reply.notes == ()
    sent = json.dumps(api.seen[0])
    places = [sent.index(m.content) for m in CONVERSATION[1:]]
    assert places == sorted(places)
    assert "be kind" in sent
    assert KEY in " ".join(api.headers[0].values())
    assert KEY not in repr(model) + repr(reply)


@pytest.mark.parametrize("name", ["gpt-5", "claude-opus-4.1", "gemini-2.5-pro"])
@pytest.mark.parametrize(
    ("finish", "expected"), [("length", "length"), ("content_filter", "refused")]
)
def test_why_a_model_stopped(llm: Ask, api: FakeApi, name: str, finish: str, expected: str) -> None:
    api.finish = finish
    assert llm(name).complete(request()).finish == expected


def test_an_empty_answer_is_an_answer(llm: Ask, api: FakeApi) -> None:
    api.text = ""
    reply = llm().complete(request())
    assert (reply.text, reply.finish, len(api.seen)) == ("", "stop", 1)


def test_settings_reach_the_wire(llm: Ask, api: FakeApi) -> None:
    more = ("temperature=0.5", "max_output=100", "stop=[END]", "effort=low")
    llm("openai_compatible", "llm.model=qwen", *(f"llm.{m}" for m in more)).complete(request())
    sent = api.seen[0]
    assert (sent["model"], sent["temperature"], sent["stop"]) == ("qwen", 0.5, ["END"])
    assert (sent["seed"], sent["max_completion_tokens"]) == (7, 100)


@pytest.mark.filterwarnings("ignore:Sampling parameters:UserWarning")  # pytest unset our filter
def test_what_a_model_is_known_not_to_take_is_said_once(llm: Ask, api: FakeApi, caplog) -> None:
    caplog.set_level(logging.WARNING)
    model = llm("gpt-5", "llm.temperature=0.5")
    replies = [model.complete(request()) for _ in range(2)]
    assert all("temperature" not in sent for sent in api.seen)
    assert [r.notes for r in replies] == 2 * [
        ("temperature is not taken by this model and was not sent",)
    ]
    assert caplog.text.count("temperature") == 1


UNSUPPORTED = "Unsupported parameter: 'temperature' is not supported with this model."


@pytest.mark.parametrize("more", [{"param": "temperature"}, {}])
def test_a_refused_parameter_is_dropped_and_remembered(
    llm: Ask, api: FakeApi, caplog, more: dict[str, str]
) -> None:
    caplog.set_level(logging.WARNING)
    api.script = [error(400, UNSUPPORTED, **more)]
    words = ("openai_compatible", "llm.model=m", "llm.temperature=0.5")
    first = llm(*words).complete(request())
    again = llm(*words).complete(request())  # another object, the same process
    assert ["temperature" in sent for sent in api.seen] == [True, False, False]
    assert "temperature is not supported and is left out from now on" in first.notes
    assert again.notes == ()
    assert first.usage == again.usage == OPENAI
    assert caplog.text.count("left out from now on") == 1


def test_a_refusal_that_blames_nothing_we_sent_is_final(llm: Ask, api: FakeApi) -> None:
    api.script = [error(400, UNSUPPORTED)]
    with pytest.raises(ProviderError, match="rejected"):
        llm("openai_compatible", "llm.model=m").complete(request())
    assert len(api.seen) == 1


@pytest.mark.parametrize("name", ["gpt-5", "gpt-6.1-sol", "claude-opus-4.1", "gemini-2.5-pro"])
def test_a_schema_is_sent(llm: Ask, api: FakeApi, name: str) -> None:
    api.text = '{"Name": "x"}'
    assert llm(name).complete(request(schema=SCHEMA)).text == '{"Name": "x"}'
    assert '"required": ["Name"]' in json.dumps(api.seen[0])


def test_a_server_without_schemas_is_asked_without(llm: Ask, api: FakeApi) -> None:
    api.script = [error(400, "response_format json_schema is not supported")]
    model = llm("openai_compatible", "llm.model=m")
    notes = model.complete(request(schema=SCHEMA)).notes
    assert ["response_format" in sent for sent in api.seen] == [True, False]
    assert notes[-1] == "schema is not supported and is left out from now on"


def test_anthropic_is_told_what_to_cache(llm: Ask, api: FakeApi) -> None:
    text = "## Task\n\nalways the same\n\n## Earlier attempts\n- Step 1\n\n## Files\nx\n"
    llm("claude-opus-4.1").complete(request(CONVERSATION[0], Message("user", text)))
    stable, rest = api.seen[0]["messages"][0]["content"]
    assert stable["text"] == "## Task\n\nalways the same\n\n"
    assert "cache_control" in stable
    assert rest["text"].startswith("## Earlier attempts")
    assert "cache_control" not in rest
    assert "cache_control" in api.seen[0]["system"][0]

    llm("claude-opus-4.1").complete(request())  # a conversation that may grow
    assert "cache_control" in api.seen[1]["messages"][-1]["content"][0]
    llm("claude-opus-4.1", "llm.cache=false").complete(request())
    assert "cache_control" not in json.dumps(api.seen[2])


def test_nothing_is_stored_with_openai(llm: Ask, api: FakeApi) -> None:
    llm("gpt-6.1-sol").complete(request())
    assert api.seen[0]["store"] is False


# --- costs


def test_an_unknown_model_has_no_cost_and_one_notice(llm: Ask, api: FakeApi, caplog) -> None:
    caplog.set_level(logging.WARNING)
    model = llm("openai_compatible", "llm.model=nobody/knows-it")
    replies = [model.complete(request()) for _ in range(3)]
    assert [r.cost for r in replies] == [None] * 3
    assert replies[0].usage == OPENAI
    assert caplog.text.count("no price is known") == 1


def test_a_price_of_one_s_own(llm: Ask, api: FakeApi) -> None:
    rows = (
        "llm.prices=[{input: 9, output: 9}, {since: 2020-01-01, input: 1, cached: 0.5, output: 2}]"
    )
    reply = llm("openai_compatible", "llm.model=m", rows).complete(request())
    assert reply.cost == pytest.approx((400 * 1 + 600 * 0.5 + 200 * 2) / 1e6)
    free = llm("openai_compatible", "llm.model=m", "llm.prices=[{input: 0, output: 0}]")
    assert free.complete(request()).cost == 0.0


def test_a_server_that_tells_no_tokens(llm: Ask, api: FakeApi) -> None:
    api.usage = False
    reply = llm().complete(request())
    assert reply.cost is None
    assert reply.usage.input > 0
    assert reply.usage.output > 0
    assert reply.notes == ("the provider does not tell tokens: they are estimated",)


def test_a_forecast(llm: Ask) -> None:
    words = Message("user", "word " * 7000)
    spend = llm().forecast(request(words), 500)
    assert spend.usage == Usage(input=10_004, output=500)
    assert spend.cost == pytest.approx((10_004 * 1.25 + 500 * 10) / 1e6)
    unknown = llm("openai_compatible", "llm.model=nobody/knows-it")
    assert unknown.forecast(request(words), 1).cost is None


# --- configuration


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["llm=gpt-5", "llm.key=NOT_SET"], "set the variable NOT_SET"),
        (["llm=gpt-5", f"llm.key={KEY}"], "llm.key is the NAME of the environment variable"),
        (["llm=gpt-5", "llm.base_url=https://me:secret@host/v1"], "llm.base_url must not hold"),
        (["llm=gpt-5", "llm.prices=[{input: -1, output: 1}]"], r"llm\.prices\.0\.input"),
        (["llm=openai_compatible"], r"llm\.base_url"),
        (["llm=openai_compatible", "llm.base_url=http://h/v1"], r"llm\.model"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(
    keys: None, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_experiment(compose_config(overrides))
    assert KEY not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "extra"),
    [("gpt-5", "openai"), ("claude-opus-4.1", "anthropic"), ("gemini-2.5-pro", "google")],
)
def test_a_missing_library_names_the_extra(
    keys: None, monkeypatch: pytest.MonkeyPatch, name: str, extra: str
) -> None:
    module = {"google": "google.genai"}.get(extra, extra)
    monkeypatch.setattr(provider, "_importable", lambda wanted: wanted != module)
    with pytest.raises(ConfigError, match=rf"pip install 'fml-hydra\[{extra}\]'"):
        load_experiment(compose_config([f"llm={name}"]))


def test_nothing_of_this_is_imported_before_a_call_is_made(keys: None) -> None:
    code = (
        "import sys\n"
        "import fml_hydra.cli, fml_hydra.sweep\n"
        "from fml_hydra.config import load_experiment\n"
        "from fml_hydra.overrides import compose_config\n"
        "for name in ('offline', 'gpt-5', 'claude-opus-4.1', 'gemini-2.5-pro'):\n"
        "    load_experiment(compose_config([f'llm={name}']))\n"
        "heavy = {'pydantic_ai', 'openai', 'anthropic', 'google.genai', 'genai_prices'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
