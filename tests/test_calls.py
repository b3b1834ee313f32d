"""The exchange log: recorded before use, read back instead of asked again."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fml_hydra.calls import CallLog, as_messages, request_hash
from fml_hydra.errors import InfraError
from fml_hydra.llm.base import Message, Reply, Request, Usage


@dataclass
class Counting:
    """Answers with the number of the call."""

    name: str = "counting"
    asked: list[Request] = field(default_factory=list)
    text: str = "answer"

    def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        number = len(self.asked)
        return Reply(f"{self.text} {number}", Usage(10, 4, 5, 2), 0.5, "length", 1.5)


def request(text: str = "hello", purpose: str = "edit", seed: int = 1) -> Request:
    return Request((Message("system", "be kind"), Message("user", text)), purpose, seed)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def test_an_answer_is_on_disk_before_it_is_returned_and_read_back_whole(path: Path) -> None:
    llm, log = Counting(), CallLog(path)
    reply = log.ask(llm, "0/0", request())
    (record,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert (record["key"], record["purpose"], record["text"]) == ("0/0", "edit", "answer 1")
    assert as_messages(record) == request().messages
    log.close()
    again = CallLog(path)
    assert again.ask(llm, "0/0", request()) == reply
    assert reply == Reply("answer 1", Usage(10, 4, 5, 2), 0.5, "length", 1.5)
    assert len(llm.asked) == 1


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("0/1", request()),
        ("0/0", request("bye")),
        ("0/0", request(purpose="repair")),
        ("0/0", request(seed=2)),
    ],
)
def test_another_call_is_asked(path: Path, key: str, other: Request) -> None:
    llm, log = Counting(), CallLog(path)
    log.ask(llm, "0/0", request())
    assert log.ask(llm, key, other).text == "answer 2"


def test_a_torn_answer_is_asked_again(path: Path) -> None:
    llm, log = Counting(), CallLog(path)
    log.ask(llm, "0/0", request())
    log.close()
    path.write_bytes(path.read_bytes()[:-5])
    assert CallLog(path).ask(llm, "0/0", request()).text == "answer 2"


def test_spend_is_by_the_beginning_of_the_key(path: Path) -> None:
    llm, log = Counting(), CallLog(path)
    for key in ("0/0", "0/1", "p0/0", "10/0"):
        log.ask(llm, key, request())
    assert log.spend("0/").usage == Usage(20, 8, 10, 4)
    assert (log.spend("0/").cost, log.spend("0/").seconds) == (1.0, 3.0)
    assert log.spend("p0/").usage.total == 15
    assert log.spend().usage.total == 60
    assert log.spend("7/").cost == 0.0


def test_what_is_read_back_is_not_spent_twice(path: Path) -> None:
    llm, log = Counting(), CallLog(path)
    for _ in range(3):
        log.ask(llm, "0/0", request())
    assert log.spend().usage.total == 15


def test_half_an_emoji_at_the_end_of_a_reply_can_be_kept(path: Path) -> None:
    log = CallLog(path)
    first = log.ask(Counting(text="smile \ud83d"), "0/0", request())
    assert first.text == "smile ? 1"
    log.close()
    assert CallLog(path).ask(Counting(), "0/0", request()) == first


def test_several_threads_ask_at_once(path: Path) -> None:
    llm, log = Counting(), CallLog(path)
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda i: log.ask(llm, f"{i}/0", request()).text, range(40)))
    assert len(set(texts)) == 40
    log.close()
    again = CallLog(path)
    assert [again.ask(llm, f"{i}/0", request()).text for i in range(40)] == texts
    assert len(llm.asked) == 40


def test_a_reply_that_comes_after_the_end_is_not_written(path: Path) -> None:
    begun, answer = threading.Event(), threading.Event()

    class Slow(Counting):
        def complete(self, request: Request) -> Reply:
            begun.set()
            answer.wait(20)
            return super().complete(request)

    log, failures = CallLog(path), []

    def ask() -> None:
        try:
            log.ask(Slow(), "0/0", request())
        except InfraError as error:
            failures.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(20)
    log.close()
    with path.with_name("other").open("wb") as other:  # takes the descriptor that became free
        answer.set()
        thread.join(20)
        assert other.tell() == 0
    assert failures == ["the run was put down while it waited for a reply"]
    assert path.read_bytes() == path.with_name("other").read_bytes() == b""


def test_an_llm_that_fails_leaves_no_record(path: Path) -> None:
    class Away(Counting):
        def complete(self, request: Request) -> Reply:
            raise InfraError("529")

    log = CallLog(path)
    with pytest.raises(InfraError, match="529"):
        log.ask(Away(), "0/0", request())
    assert path.read_bytes() == b""
    assert log.ask(Counting(), "0/0", request()).text == "answer 1"


def test_the_hash_sees_roles_texts_purpose_and_seed() -> None:
    requests = [
        request(),
        request("hello "),
        request(purpose="idea"),
        request(seed=3),
        Request((Message("user", "be kind"), Message("user", "hello")), "edit", 1),
        Request((Message("system", "be kind"),), "edit", 1),
    ]
    assert len({request_hash(r) for r in requests}) == len(requests)
    assert request_hash(request()) == request_hash(request())
