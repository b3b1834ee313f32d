"""Real clients against a server that fails: every failure has a name, and none takes for ever."""

import time

import pytest
from fake_api import (
    FakeApi,
    Handler,
    close,
    cut,
    error,
    raw,
    serving,
    stall,
    trickle,
    well,
    with_usage_only,
)
from provider_bench import KEY, Ask, request

from fml_hydra.errors import InfraError
from fml_hydra.llm import calling, waits
from fml_hydra.llm.base import Message, ProviderError, Usage

USAGE = Usage(input=1000, cached=600, output=200, reasoning=150)
ESTIMATE = 22
"""Tokens of the request by estimate."""


# --- what ends a call at once


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (error(401, f"Incorrect API key provided: {KEY}"), "authentication .*OPENAI_API_KEY"),
        (error(403, "country not supported"), "authentication .*OPENAI_API_KEY"),
        (error(402, "pay"), "quota: 402 pay .*OPENAI_API_KEY"),
        (error(429, "pay", code="insufficient_quota"), "quota: 429 pay .*OPENAI_API_KEY"),
        (error(404, "no such model"), "model_not_found: 404 no such model .*llm.model"),
        (error(400, f"nonsense {KEY}"), r"rejected: 400 nonsense \*\*\*"),
        (error(429, "later", Retry_After="9000"), r"rate_limit: .*llm.max_wait=7200"),
    ],
)
def test_hopeless_ones_end_the_run_at_once(llm: Ask, api: FakeApi, act, message: str) -> None:
    api.script = [act]
    with pytest.raises(ProviderError, match=message) as caught:
        llm().complete(request())
    assert isinstance(caught.value, InfraError)
    assert KEY not in str(caught.value)
    assert len(api.seen) == 1
    assert caught.value.spend.usage == Usage()
    assert caught.value.spend.cost == 0.0


@pytest.mark.parametrize(
    ("name", "variable"),
    [("claude-opus-4.1", "ANTHROPIC_API_KEY"), ("gemini-2.5-pro", "GEMINI_API_KEY")],
)
def test_the_others_say_which_key_too(llm: Ask, api: FakeApi, name: str, variable: str) -> None:
    api.script = [error(401, KEY)]
    with pytest.raises(ProviderError, match=f"authentication .*{variable}") as caught:
        llm(name).complete(request())
    assert KEY not in str(caught.value)


# --- what is tried again

AWAY = {
    "408": (error(408), "overloaded: 408 no"),
    "429": (error(429, "slow down"), "rate_limit: 429 slow down"),
    "500": (error(500), "server_error: 500 no"),
    "502 as a page": (
        raw(502, b"<html><h1>Bad gateway</h1></html>", "text/html"),
        "server_error: 502 Bad gateway",
    ),
    "503": (error(503), "overloaded: 503 no"),
    "529": (error(529), "overloaded: 529 no"),
}
LOST = {
    "a page": (raw(200, b"<html>hello</html>", "text/html"), "unreadable: "),
    "text": (raw(200, b"hello", "text/plain"), "unreadable: "),
    "half of JSON": (raw(200, b'{"a":'), "unreadable: "),
    "other JSON": (raw(200, b"{}"), "unreadable: "),
    "a list": (raw(200, b"[]"), "unreadable: "),
    "nothing": (raw(200, b""), "unreadable: "),
    "cut off": (cut, "cut: peer closed connection"),
    "hung up": (close, "cut: Server disconnected"),
    "stalled": (stall(4), "timeout: no answer within 1 s"),
    "slow bytes": (trickle(4), "timeout: no answer within 1 s"),
}


@pytest.mark.parametrize("what", AWAY)
def test_away_and_back(llm: Ask, api: FakeApi, what: str) -> None:
    act, note = AWAY[what]
    api.script = [act, act]
    reply = llm().complete(request())
    assert (reply.text, reply.usage, reply.notes) == ("hello", USAGE, (note, note))


FEW = ("a page", "other JSON", "cut off")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        *(("gpt-5", what) for what in LOST),
        *((name, what) for name in ("claude-opus-4.1", "gemini-2.5-pro") for what in FEW),
    ],
)
def test_lost_and_asked_again(llm: Ask, api: FakeApi, name: str, what: str) -> None:
    """What was sent and not answered counts by estimate, for the provider may bill it."""
    act, note = LOST[what]
    api.script = [act]
    reply = llm(name, f"llm.deadline={1 if 'within' in note else 60}").complete(request())
    assert reply.text == "hello"
    assert reply.notes[0].startswith(note)
    assert reply.notes[0].endswith(f"(counted as {ESTIMATE} tokens of input)")
    assert reply.usage.input == 1000 + ESTIMATE
    assert reply.seconds < 60


def test_a_bill_without_an_answer_is_paid(llm: Ask, api: FakeApi) -> None:
    api.script = [with_usage_only]
    reply = llm().complete(request())
    assert reply.usage == Usage(input=2000, cached=600, output=400, reasoning=150)
    assert reply.notes[0].startswith("unreadable")


def test_lost_ones_are_not_tried_for_ever(llm: Ask, api: FakeApi) -> None:
    api.script = [cut, with_usage_only, cut, cut]
    with pytest.raises(ProviderError, match="cut: .*3 attempts in a row") as caught:
        llm("gpt-5", "llm.attempts=3").complete(request())
    assert len(api.seen) == 3
    spend = caught.value.spend
    assert spend.usage == Usage(input=1000 + 2 * ESTIMATE, output=200)
    assert spend.cost == pytest.approx((1000 + 2 * ESTIMATE) * 1.25e-6 + 200 * 10e-6)


def test_an_outage_is_waited_for_longer_than_lost_answers(llm: Ask, api: FakeApi) -> None:
    api.script = [error(503)] * 6
    assert llm("gpt-5", "llm.attempts=2").complete(request()).text == "hello"
    assert len(api.seen) == 7


class Clock:
    """Time passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_an_outage_of_an_hour_is_waited_for(llm: Ask, api: FakeApi, monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(calling, "time", clock)
    monkeypatch.setattr(waits, "time", clock)
    monkeypatch.setattr(calling, "FIRST_WAIT", 1.0)

    def until_an_hour_has_passed(handler: Handler) -> None:
        api.script.append(until_an_hour_has_passed)
        error(503)(handler) if clock.now < 3600 else well(handler)

    api.script = [until_an_hour_has_passed]
    heard: list[waits.Wait | None] = []
    with waits.heard_by(heard.append):
        reply = llm().complete(request())
    assert reply.text == "hello"
    assert heard == [waits.Wait("gpt-5", "overloaded: 503 no", 7200.0), None]
    assert (reply.seconds, reply.waited) == (0.0, clock.now), "attempts take no time on this clock"
    assert 3600 <= clock.now < 3600 + 72
    doubled = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    expected = [*doubled, *[60.0] * (len(clock.waits) - len(doubled))]
    assert all(0.8 * e <= w <= 1.2 * e for w, e in zip(clock.waits, expected, strict=True))


def test_one_that_lasts_longer_ends_the_call(llm: Ask, api: FakeApi, monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(calling, "time", clock)
    monkeypatch.setattr(waits, "time", clock)
    api.script = [error(503)] * 999
    with pytest.raises(
        ProviderError, match=r"overloaded: 503 no \(after \d+ s; llm.max_wait=500\)"
    ):
        llm("gpt-5", "llm.max_wait=500").complete(request())
    assert 400 < clock.now <= 500


def test_retry_after_is_kept_to(llm: Ask, api: FakeApi) -> None:
    api.script = [error(429, Retry_After="1")]
    llm().complete(request())
    assert api.times[1] - api.times[0] >= 1


def test_a_wrong_address_is_not_waited_for(llm: Ask) -> None:
    with serving() as gone:
        url = f"{gone.url}/v1"
    with pytest.raises(ProviderError, match="unreachable: .*check llm.base_url"):
        llm("gpt-5", "llm.attempts=2", url=url).complete(request())


def test_one_that_answered_before_is_waited_for(llm: Ask) -> None:
    with serving() as gone:
        model = llm("gpt-5", "llm.attempts=1", "llm.max_wait=0.3", url=f"{gone.url}/v1")
        model.complete(request())
    with pytest.raises(ProviderError, match="unreachable: .*llm.max_wait=0.3"):
        model.complete(request())


# --- what the prompt is to blame for


def test_a_prompt_that_the_provider_will_not_answer(llm: Ask, api: FakeApi) -> None:
    api.script = [error(400, "flagged", code="content_policy_violation")]
    reply = llm().complete(request())
    assert (reply.text, reply.finish) == ("", "refused")
    assert reply.notes == ("content_filter: 400 flagged",)


TOO_LONG = "This model's maximum context length is 100 tokens"


def steps(count: int) -> Message:
    listed = "".join(f"- Step {i} (draft), ok: {'plan ' * 40}\n\n" for i in range(count))
    return Message("user", f"## Task\nt\n\n## Earlier attempts\n{listed}## Files\nf\n")


def test_a_prompt_that_is_too_long_is_shortened_and_sent_again(llm: Ask, api: FakeApi) -> None:
    api.script = [error(400, TOO_LONG), error(413)]
    reply = llm().complete(request(steps(20)))
    assert reply.text == "hello"
    shown = [str(sent["messages"]).count("- Step") for sent in api.seen]
    assert shown == [20, 15, 11]
    assert "older left out" in str(api.seen[2]["messages"])
    assert [n for n in reply.notes if "left out" in n] == [
        f"left out: the oldest {n} of the earlier attempts and ideas" for n in (5, 4)
    ]


def test_what_cannot_be_shortened_is_not_sent_for_ever(llm: Ask, api: FakeApi) -> None:
    api.script = [error(400, TOO_LONG)] * 9
    reply = llm().complete(request())
    assert (reply.text, reply.finish) == ("", "refused")
    assert len(api.seen) == 1


def test_a_known_window_is_kept_to_beforehand(llm: Ask, api: FakeApi) -> None:
    model = llm("gpt-5", "llm.context=1000", "llm.max_output=200")
    reply = model.complete(request(steps(40)))
    assert 5 < str(api.seen[0]["messages"]).count("- Step") < 20
    assert "older left out" in str(api.seen[0]["messages"])
    assert reply.notes[0].startswith("left out: the oldest ")
    assert model.forecast(request(steps(40)), 0).usage.input <= 800


# --- rate limits


def test_threads_share_a_limit(llm: Ask, api: FakeApi, monkeypatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from fml_hydra.llm import limits

    monkeypatch.setattr(limits, "MINUTE", 0.5)
    models = [llm("gpt-5", "llm.requests_per_minute=2") for _ in range(2)]
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda i: models[i % 2].complete(request()), range(6)))
    assert time.monotonic() - began >= 1.0, "two in each of three periods"
    assert sum(reply.waited > 0 for reply in replies) >= 4


def test_a_flood_of_calls_at_once(llm: Ask, api: FakeApi) -> None:
    from concurrent.futures import ThreadPoolExecutor

    api.script = [well, error(500), cut, error(429)]
    model = llm()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: model.complete(request()), range(16)))
    assert {r.text for r in replies} == {"hello"}
    assert len(api.seen) == 19
