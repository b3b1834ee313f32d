"""Price rows by date, the package's table, and what is let through in a minute."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest

from fml_hydra.llm import limits
from fml_hydra.llm.limits import Gate
from fml_hydra.llm.prices import Price, Source, in_force
from fml_hydra.usage import Usage

USAGE = Usage(input=1000, cached=600, output=200, reasoning=150)
OLD = Price(input=10, output=20)
NEW = Price(input=1, output=2, cached=0.5, cache_write=4, since=date(2026, 6, 1))


def test_the_issue_s_price() -> None:
    assert Source((), ("gpt-5",), "openai", "").dollars(USAGE) == 0.002575


def test_rows_hold_from_their_date() -> None:
    assert in_force([NEW, OLD], date(2026, 5, 31)) == OLD
    assert in_force([OLD, NEW], date(2026, 6, 1)) == NEW
    assert in_force([NEW], date(2026, 5, 31)) is None
    source = Source((OLD, NEW), ("gpt-5",), "openai", "")
    assert source.dollars(USAGE, datetime(2026, 1, 1, tzinfo=UTC)) == pytest.approx(0.014)
    written = Usage(input=1000, cached=600, output=200, cache_write=100)
    now = source.dollars(written, datetime(2026, 7, 1, tzinfo=UTC))
    assert now == pytest.approx((300 * 1 + 600 * 0.5 + 100 * 4 + 200 * 2) / 1e6)
    assert OLD.of(Usage(input=10, cached=4, cache_write=6)) == pytest.approx(100 / 1e6)


def test_before_the_first_row_the_package_is_asked() -> None:
    source = Source((NEW,), ("gpt-5",), "openai", "")
    assert source.dollars(USAGE, datetime(2026, 1, 1, tzinfo=UTC)) == 0.002575


@pytest.mark.parametrize(
    ("models", "provider", "url", "dollars"),
    [
        (("gpt-5-2025-08-07",), "openai", "", 0.002575),
        (("somebody-elses-name", "gpt-5"), "openai", "", 0.002575),
        (("openai/gpt-5",), None, "https://openrouter.ai/api/v1", 0.002575),
        (("gpt-5",), None, "http://localhost:8000/v1", None),
        (("no-such-model",), "openai", "", None),
        (("gpt-5",), "no-such-provider", "", None),
    ],
)
def test_who_is_known(
    models: tuple[str, ...], provider: str | None, url: str, dollars: float | None
) -> None:
    assert Source((), models, provider, url).dollars(USAGE) == dollars


def test_counts_that_do_not_add_up_have_no_price() -> None:
    assert Source((), ("gpt-5",), "openai", "").dollars(Usage(input=1, cached=2)) is None


def test_windows() -> None:
    assert Source((), ("gpt-5",), "openai", "").window() == 400_000
    assert Source((), ("gemini-2.5-pro",), "google", "").window() is None
    assert Source((), ("nobody",), "openai", "").window() is None


class Clock:
    """Time passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


def test_no_minute_has_more_requests_than_allowed() -> None:
    clock = Clock()
    gate = Gate(3, None, clock)
    times = []
    for _ in range(10):
        gate.enter(5, clock.sleep)
        times.append(clock.now)
        clock.now += 1
    assert all(later - earlier >= 60 for earlier, later in zip(times, times[3:], strict=False))
    assert clock.now < 100 + 3 * 60 + 20


def test_no_minute_has_more_tokens_than_allowed_and_a_large_call_goes_alone() -> None:
    clock = Clock()
    gate = Gate(None, 100, clock)
    first = gate.enter(60, clock.sleep)
    gate.enter(40, clock.sleep)
    assert clock.slept == []
    gate.enter(1, clock.sleep)
    assert clock.slept == [60]
    first.tokens = 0
    clock.now += 1000
    gate.enter(500, clock.sleep)
    gate.enter(1, clock.sleep)
    assert clock.slept == [60, 60]


def test_what_was_really_used_is_what_counts() -> None:
    clock = Clock()
    gate = Gate(None, 100, clock)
    gate.enter(90, clock.sleep).tokens = 10
    gate.enter(90, clock.sleep)
    assert clock.slept == []


def test_nobody_goes_through_a_gate_that_is_shut() -> None:
    clock = Clock()
    gate = Gate(None, None, clock)
    gate.shut(7)
    gate.shut(3)
    gate.enter(1, clock.sleep)
    assert clock.slept == [7]


def test_threads_that_come_at_once_get_one_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the first is being made."""
    met = threading.Barrier(4, timeout=20)
    made = limits.Gate

    def slowly(*args: object) -> Gate:
        met.wait()
        return made(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(limits, "Gate", slowly)
    with ThreadPoolExecutor(4) as pool:
        gates = list(pool.map(lambda _: limits.gate("a service of its own", 1, None), range(4)))
    assert len(set(map(id, gates))) == 1
