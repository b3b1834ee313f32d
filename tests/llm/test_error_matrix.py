"""What OpenAI's responses, Anthropic's messages and Gemini's API do wrong, each in its own words.

OpenAI's chat API, and what is done about each failure, is in test_provider_errors. Every failure
ends in an answer, a named refusal or a bounded wait; the server is one for all tests here.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from fake_api import Act, FakeApi, close, cut, raw, serving, stall, trickle
from provider_bench import KEY, Ask, request

from fml_hydra.llm import calling
from fml_hydra.llm.base import Finish, ProviderError, Reply
from fml_hydra.usage import Usage

Json = dict[str, Any]


@dataclass(frozen=True)
class Spoken:
    """One API: the option that speaks it, and how it says things."""

    llm: str
    variable: str
    error: Callable[..., Json]
    """The body of an error of that status."""
    empty: Json
    """What an answer without content has in place of it."""


TYPES = {400: "invalid_request_error", 401: "authentication_error", 402: "billing_error"}
TYPES |= {403: "permission_error", 404: "not_found_error", 413: "request_too_large"}
TYPES |= {429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error"}
STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
STATUSES |= {404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
STATUSES |= {504: "DEADLINE_EXCEEDED"}


def _openai(status: int, message: str, **more: Any) -> Json:
    told = {"message": message, "type": TYPES.get(status, "api_error"), "param": None}
    return {"error": told | {"code": None} | more}


def _anthropic(status: int, message: str) -> Json:
    told = {"type": TYPES.get(status, "api_error"), "message": message}
    return {"type": "error", "error": told, "request_id": "req_1"}


def _gemini(status: int, message: str, *details: Json) -> Json:
    told = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
    return {"error": told | ({"details": [*details]} if details else {})}


def _detail(kind: str, **what: Any) -> Json:
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **what}


APIS = {
    "responses": Spoken("gpt-6.1-sol", "OPENAI_API_KEY", _openai, {"output": []}),
    "messages": Spoken("claude-opus-4.1", "ANTHROPIC_API_KEY", _anthropic, {"content": []}),
    "gemini": Spoken("gemini-2.5-pro", "GEMINI_API_KEY", _gemini, {"candidates": []}),
}
ALL = pytest.mark.parametrize("spoken", APIS.values(), ids=APIS)


@pytest.fixture(scope="module")
def one_api() -> Iterator[FakeApi]:
    with serving() as fake:
        yield fake


@pytest.fixture
def api(one_api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    monkeypatch.setattr(calling, "LONGEST_WAIT", 0.01)
    one_api.script, one_api.finish = [], "stop"
    one_api.seen.clear()
    return one_api


def answered(api: FakeApi, llm: Ask, spoken: Spoken, acts: list[Act], **knobs: Any) -> Reply:
    """The reply when the next requests are answered by `acts`."""
    api.script = [*acts]
    words = {"attempts": 20, **knobs}
    return llm(spoken.llm, *(f"llm.{k}={v}" for k, v in words.items())).complete(request())


def refusing(spoken: Spoken, status: int, message: str = "no", **headers: str) -> Act:
    return lambda handler: handler.send(status, spoken.error(status, message), **headers)


def telling(status: int, body: Json) -> Act:
    return lambda handler: handler.send(status, body)


def changed(change: Callable[[Json], Json]) -> Act:
    """A good answer with something else in it."""
    return lambda handler: handler.send(200, change(handler.answer()))


# --- statuses

HOPELESS = {
    400: "rejected: 400 no",
    401: "authentication",
    402: "quota: 402 no",
    403: "authentication",
    404: "model_not_found: 404 no",
    422: "rejected: 422 no",
}


@ALL
@pytest.mark.parametrize("status", HOPELESS)
def test_statuses_that_end_the_run(llm: Ask, api: FakeApi, spoken: Spoken, status: int) -> None:
    with pytest.raises(ProviderError, match=HOPELESS[status]) as caught:
        answered(api, llm, spoken, [refusing(spoken, status)])
    assert len(api.seen) == 1
    assert caught.value.spend.usage == Usage()
    if status in {401, 402, 403}:
        assert spoken.variable in str(caught.value)


AWAY = {
    408: "overloaded",
    409: "overloaded",
    425: "overloaded",
    429: "rate_limit",
    500: "server_error",
    502: "server_error",
    503: "overloaded",
    504: "server_error",
    529: "overloaded",
}


@ALL
def test_statuses_that_are_waited_for(llm: Ask, api: FakeApi, spoken: Spoken) -> None:
    acts = [refusing(spoken, status) for status in AWAY]
    acts += [raw(503, b"<html><h1>Down</h1></html>", "text/html"), raw(500, b"", "text/plain")]
    reply = answered(api, llm, spoken, acts)
    assert reply.text == "hello"
    assert reply.usage.input == 1000, "an attempt that was not worked on is not billed"
    named = [note.partition(": ")[0] for note in reply.notes]
    assert named == [*AWAY.values(), "overloaded", "server_error"]


@ALL
def test_what_a_provider_asks_for_is_waited(llm: Ask, api: FakeApi, spoken: Spoken) -> None:
    with pytest.raises(ProviderError, match=r"rate_limit: .*llm.max_wait=5\)"):
        answered(api, llm, spoken, [refusing(spoken, 429, Retry_After="9")], max_wait=5)


OPENAI_WINDOW = "Your input exceeds the context window of this model. Please adjust your input."
GEMINI_WINDOW = "The input token count (2097152) exceeds the maximum number of tokens allowed (9)."
TOO_LONG = [
    ("responses", 400, _openai(400, OPENAI_WINDOW, code="context_length_exceeded")),
    ("responses", 413, _openai(413, "too large")),
    ("messages", 400, _anthropic(400, "prompt is too long: 210000 tokens > 200000 maximum")),
    ("messages", 413, _anthropic(413, "Request exceeds the maximum size")),
    ("gemini", 400, _gemini(400, GEMINI_WINDOW)),
    ("gemini", 413, _gemini(413, "Request payload size exceeds the limit")),
]


@pytest.mark.parametrize(("name", "status", "body"), TOO_LONG)
def test_a_prompt_that_is_too_long(
    llm: Ask, api: FakeApi, name: str, status: int, body: Json
) -> None:
    """This one has nothing that could be left out."""
    reply = answered(api, llm, APIS[name], [telling(status, body)])
    assert (reply.text, reply.finish) == ("", "refused")
    assert reply.notes[0].startswith(f"overlong: {status}")
    assert len(api.seen) == 1


CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
NO_KEY = _detail("ErrorInfo", reason="API_KEY_INVALID", domain="googleapis.com")
PER_DAY = _detail("QuotaFailure", violations=[{"quotaId": "GenerateRequestsPerDayPerProject"}])


@pytest.mark.parametrize(
    ("name", "status", "body", "expected"),
    [
        ("responses", 429, _openai(429, "pay", code="insufficient_quota"), "quota"),
        ("messages", 400, _anthropic(400, CREDIT), "quota"),
        ("gemini", 400, _gemini(400, "API key not valid.", NO_KEY), "authentication"),
        ("gemini", 429, _gemini(429, "exhausted", PER_DAY), "quota"),
    ],
)
def test_what_is_meant_counts_more_than_the_status(
    llm: Ask, api: FakeApi, name: str, status: int, body: Json, expected: str
) -> None:
    with pytest.raises(ProviderError, match=f"{expected}.*{APIS[name].variable}"):
        answered(api, llm, APIS[name], [telling(status, body)])


def test_gemini_says_in_the_body_how_long_to_wait(llm: Ask, api: FakeApi) -> None:
    body = _gemini(429, "exhausted", _detail("RetryInfo", retryDelay="9s"))
    with pytest.raises(ProviderError, match=r"rate_limit: .*llm.max_wait=5\)"):
        answered(api, llm, APIS["gemini"], [telling(429, body)], max_wait=5)


@ALL
def test_a_key_is_never_repeated(llm: Ask, api: FakeApi, spoken: Spoken) -> None:
    for status in (400, 401, 404):
        with pytest.raises(ProviderError) as caught:
            answered(api, llm, spoken, [refusing(spoken, status, f"bad key {KEY}")])
        assert KEY not in str(caught.value)


# --- answers that cannot be used

UNREADABLE = {
    "a page": raw(200, b"<html>hello</html>", "text/html"),
    "text": raw(200, b"hello", "text/plain"),
    "half of JSON": raw(200, b'{"a":'),
    "other JSON": raw(200, b"{}"),
    "a list": raw(200, b"[]"),
    "null": raw(200, b"null"),
    "nothing": raw(200, b""),
    "no UTF-8": raw(200, b'{"id": "\xff\xfe"}'),
    "an error that claims to be well": lambda handler: handler.send(200, {"error": "no"}),
}


@ALL
def test_answers_that_cannot_be_read(llm: Ask, api: FakeApi, spoken: Spoken) -> None:
    reply = answered(api, llm, spoken, [*UNREADABLE.values(), cut, close])
    assert reply.text == "hello"
    named = [note.partition(": ")[0] for note in reply.notes]
    assert named == [*["unreadable"] * len(UNREADABLE), "cut", "cut"]
    assert reply.usage.input == 1000 + 22 * len(named), "what was sent may be billed"
    assert reply.usage.output == 200


def test_silence_and_slow_bytes(llm: Ask, api: FakeApi) -> None:
    """All at once, since each takes its deadline."""

    def ends(spoken: Spoken) -> str:
        with pytest.raises(ProviderError) as caught:
            llm(spoken.llm, "llm.deadline=1", "llm.attempts=1").complete(request())
        return str(caught.value)

    api.script = [stall(3), trickle(3)] * len(APIS)
    with ThreadPoolExecutor(2 * len(APIS)) as pool:
        messages = list(pool.map(ends, [*APIS.values()] * 2))
    assert all("timeout: no answer within 1 s" in message for message in messages), messages


# --- answers that are short of something


@ALL
def test_a_bill_without_an_answer(llm: Ask, api: FakeApi, spoken: Spoken) -> None:
    """It is asked again or taken as empty, and paid in any case."""
    reply = answered(api, llm, spoken, [changed(lambda answer: answer | spoken.empty)])
    asked = len(api.seen)
    assert reply.text == ("" if asked == 1 else "hello")
    assert reply.usage.input == 1000 * asked
    assert reply.usage.output == 200 * asked


def _refused(answer: Json) -> Json:
    part = {"type": "refusal", "refusal": "I will not."}
    return answer | {"output": [answer["output"][0] | {"content": [part]}]}


def _thought(answer: Json) -> Json:
    """All tokens went into reasoning."""
    thought = {"type": "reasoning", "id": "rs", "summary": []}
    return answer | {"output": [thought]}


SHORT: list[tuple[str, str, str, Callable[[Json], Json], Finish]] = [
    ("responses", "length", "cut off", dict, "length"),
    ("responses", "length", "thought only", _thought, "length"),
    ("responses", "content_filter", "filtered", dict, "refused"),
    ("responses", "stop", "refusal", _refused, "refused"),
    ("messages", "length", "cut off", dict, "length"),
    ("messages", "length", "no content", lambda a: a | {"content": []}, "length"),
    ("messages", "content_filter", "refusal", dict, "refused"),
    ("messages", "content_filter", "mute", lambda a: a | {"content": []}, "refused"),
    ("gemini", "length", "cut off", dict, "length"),
    ("gemini", "length", "mute", lambda a: _candidate(a, content={"role": "model"}), "length"),
    ("gemini", "content_filter", "safety", dict, "refused"),
    ("gemini", "content_filter", "mute", lambda a: _candidate(a, content=None), "refused"),
    ("gemini", "stop", "recitation", lambda a: _candidate(a, finishReason="RECITATION"), "refused"),
    ("gemini", "stop", "blocked", lambda a: _blocked(a), "refused"),
]


def _candidate(answer: Json, **changes: Any) -> Json:
    candidate = {k: v for k, v in (answer["candidates"][0] | changes).items() if v is not None}
    return answer | {"candidates": [candidate]}


def _blocked(answer: Json) -> Json:
    """The prompt itself was not to the provider's taste."""
    usage = {"promptTokenCount": 1000, "totalTokenCount": 1000}
    feedback = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}
    return {"modelVersion": answer["modelVersion"]} | feedback


@pytest.mark.parametrize(
    ("name", "finish", "what", "change", "expected"),
    SHORT,
    ids=[f"{name}-{what}" for name, _, what, *_ in SHORT],
)
def test_why_there_is_no_more(
    llm: Ask, api: FakeApi, name: str, finish: str, what: str, change: Any, expected: Finish
) -> None:
    api.finish = finish
    reply = answered(api, llm, APIS[name], [changed(change)])
    assert len(api.seen) == 1, reply.notes
    assert reply.finish == expected
    assert reply.usage.input == 1000


def test_a_response_that_failed_is_asked_for_again(llm: Ask, api: FakeApi) -> None:
    told = {"code": "server_error", "message": "The server had an error."}
    failed = changed(lambda a: a | {"status": "failed", "error": told, "output": []})
    assert answered(api, llm, APIS["responses"], [failed]).text == "hello"
    assert len(api.seen) == 2
