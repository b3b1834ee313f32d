"""What the offline program says about a result: only what stands in the prompt. Pure."""

import re

_VALUE = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_NUMBER = re.compile(rf"([A-Za-z_]\w*) = ({_VALUE})(?![\w.]*\w)")
_JUDGED = re.compile(rf"(\w+) = ({_VALUE}) \((lower|higher) is better; baseline ({_VALUE})\)")
_STATUS = re.compile(r"status `(\w+)`")
_REPORTED = 3
"""Numbers repeated at most."""


def told(prompt: str) -> str:
    """Two or three sentences made of the status and the numbers in `prompt`."""
    status = _STATUS.search(prompt)
    report = prompt[status.end() :] if status else prompt
    sentences = [f"The step ended with status {status[1]}."] if status else []
    numbers = [f"{name} = {value}" for name, value in _NUMBER.findall(report)]
    if numbers:
        sentences.append(f"The report has {', '.join([*dict.fromkeys(numbers)][:_REPORTED])}.")
    else:
        sentences.append("There is no number to judge it by.")
    if judged := _JUDGED.search(report):
        sentences.append(_compared(*judged.groups()))
    elif not numbers and (last := _last_line(report)):
        sentences.append(f"The last thing it says is: {last}")
    return " ".join(sentences)


def _compared(name: str, value: str, direction: str, baseline: str) -> str:
    ahead = float(value) - float(baseline)
    if ahead == 0:
        return f"This {name} equals the baseline's, {baseline}."
    word = "better" if (ahead > 0) == (direction == "higher") else "worse"
    return f"This {name} is {word} than the baseline's, {baseline}."


def _last_line(report: str) -> str:
    """The last line before the question at the end of the prompt."""
    paragraphs = [part.strip() for part in report.split("\n\n") if part.strip(" \n:.")]
    told_so_far = paragraphs[:-1] or paragraphs
    return told_so_far[-1].split("\n")[-1][:300] if told_so_far else ""
