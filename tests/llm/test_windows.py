"""What is left out of a prompt that is too long, and in which order."""

import pytest

from fml_hydra.llm.base import Message
from fml_hydra.llm.windows import estimate_tokens, fit, sections, stable_part

ATTEMPTS = "".join(
    f"- Step {i} (draft), ok: {'p' * 100}\n  Result: {'r' * 100}\n\n" for i in range(5)
)
TEXT = (
    "## Task\nwhat to do\n\n"
    f"## Earlier attempts\n{ATTEMPTS}"
    f"## What was learned so far\n{'learned ' * 100}\n\n"
    "## Files\n### FILE: a.py\n```\n## Error\nprint(1)\n```\n\n"
    f"## Other solution 3\n{'three ' * 100}\n\n"
    f"## Other solution 4\n{'four ' * 100}\n\n"
    '## Idea\n{"Name": "x"}\n\n'
    f"## Error\n{'beginning ' * 100}{'end ' * 100}\n\n"
    "## Instruction\nwrite\n"
)


def user(text: str) -> Message:
    return Message("user", text)


def test_what_fits_is_left_alone() -> None:
    messages = (Message("system", "s"), user(TEXT))
    fitted = fit(messages, estimate_tokens(messages))
    assert fitted.messages == messages
    assert fitted.left_out == ()


def test_the_order() -> None:
    seen: list[tuple[str, ...]] = []
    for room in range(estimate_tokens([user(TEXT)]), 0, -5):
        fitted = fit((user(TEXT),), room)
        if not seen or fitted.left_out != seen[-1]:
            seen.append(fitted.left_out)
        assert estimate_tokens(fitted.messages) <= room or room < 250
    attempts = [f"the oldest {n} of the earlier attempts and ideas" for n in range(1, 6)]
    wanted: list[tuple[str, ...]] = [(), *((a,) for a in attempts)]
    for more in (
        "1 other solutions",
        "2 other solutions",
        "the beginning of what was learned so far",
        "the middle of the error",
    ):
        kept = [w for w in wanted[-1] if w != "1 other solutions"]
        wanted.append((*kept, more))
    assert seen == wanted


def test_what_must_stay_stays() -> None:
    (message,) = fit((user(TEXT),), 1).messages
    for part in ("what to do", "## Error\nprint(1)", '{"Name": "x"}', "## Instruction\nwrite"):
        assert part in message.content
    assert "(5 older left out: the prompt would be too long.)" in message.content
    assert message.content.count("(Left out: the prompt would be too long.)") == 2
    assert "beginning" in message.content
    assert message.content.count("end ") > 10
    assert len(message.content) < len(TEXT) / 2


@pytest.mark.parametrize(
    ("section", "after"),
    [
        (
            '## Earlier ideas\n[{"Name": "a"},\n{"Name": "b"}]\n\n',
            "## Earlier ideas\n(1 older left out: the prompt would be too long.)\n"
            '[{"Name": "b"}]\n\n',
        ),
        (
            "## Experiments so far\n| id | a |\n|---|---|\n| 0 | x |\n| 1 | y |\n\n",
            "## Experiments so far\n| id | a |\n|---|---|\n"
            "(1 older left out: the prompt would be too long.)\n| 1 | y |\n\n",
        ),
    ],
)
def test_lists_of_other_forms(section: str, after: str) -> None:
    text = f"## Task\nt\n\n{section}## Files\nf\n"
    first = section.split("\n")[-4]  # the older of the two entries is longer than the note
    longer = text.replace(first, first.replace("a", "a" * 300).replace("x", "x" * 300), 1)
    (message,) = fit((user(longer),), estimate_tokens([user(text)]) + 30).messages
    assert after in message.content


def test_the_middle_of_a_conversation_goes_the_oldest_first() -> None:
    said = [Message("system", "s"), user("## Task\nfirst")]
    for i in range(4):
        said += [Message("assistant", f"edit {i} {'e' * 200}"), user(f"result {i}")]
    fitted = fit(said, estimate_tokens(said) - 80)
    assert fitted.left_out == ("the oldest 2 exchanges of the conversation",)
    texts = [m.content for m in fitted.messages]
    assert texts[0] == "s"
    assert texts[1].startswith("## Task\nfirst\n\n(The exchanges that followed are left out")
    assert texts[1].count("left out") == 1
    assert [t[:8] for t in texts[2:]] == ["edit 2 e", "result 2", "edit 3 e", "result 3"]
    assert [m.role for m in fitted.messages[1:]] == ["user", "assistant"] * 2 + ["user"]
    last = fit(said, 1).messages
    assert [m.content[:8] for m in last[2:]] == ["edit 3 e", "result 3"]


def test_headings_in_code_are_code() -> None:
    names = [s.name for s in sections(TEXT)]
    assert names.count("Error") == 1
    assert "".join(s.text for s in sections(TEXT)) == TEXT


def test_the_stable_part_is_what_stands_before_the_second_section() -> None:
    assert stable_part(TEXT) == "## Task\nwhat to do\n\n"
    assert stable_part("no sections at all") == ""
    assert stable_part("## Task\nonly one") == ""
