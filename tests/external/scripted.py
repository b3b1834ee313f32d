"""A program as an agent, for tests: does the moves it is given, launch by launch.

    scripted.py MOVE ... -- MOVE ...      the moves of the first launch, of the second, ...

The last group is done again in every further launch. Answers are kept in ~/answers.jsonl.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

HOME, REPO = Path(os.environ["HOME"]), Path(os.environ["FML_REPO"])


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def evaluate(note: str) -> dict:
    done = subprocess.run(["fml-eval", note], capture_output=True, text=True)
    answer = {**json.loads(done.stdout or "{}"), "code": done.returncode, "stderr": done.stderr}
    with (HOME / "answers.jsonl").open("a") as file:
        file.write(json.dumps(answer) + "\n")
    return answer


def edit(steps: str) -> None:
    """Train for so many steps."""
    path = REPO / "solution.py"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(f"STEPS = {steps}\n" if x.startswith("STEPS") else x for x in lines))


def step(steps: str) -> None:
    """Edit and evaluate."""
    edit(steps)
    evaluate(f"{steps} steps")


def spend(tokens: str) -> None:
    """Report tokens and a price of a hundredth of a cent for each."""
    say(usage={"input": int(tokens), "output": 1}, cost=int(tokens) * 1e-4, text=f"spent {tokens}")


def twice(steps: str) -> None:
    """Two evaluations at once."""
    edit(steps)
    both = [threading.Thread(target=evaluate, args=(f"call {n}",)) for n in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()


def write(name: str) -> None:
    """Write a file of the repository."""
    (REPO / name).parent.mkdir(parents=True, exist_ok=True)
    (REPO / name).write_text("raise SystemExit('mine')\n")


def link(words: str) -> None:
    """Put a symbolic link in a file's place."""
    name, _, target = words.partition(">")
    (REPO / name).unlink()
    (REPO / name).symlink_to(target)


def look(path: str) -> None:
    """Report whether a path can be seen."""
    (HOME / "seen.txt").open("a").write(f"{path} {Path(path).exists()}\n")


MOVES = {
    "edit": edit,
    "step": step,
    "eval": evaluate,
    "spend": spend,
    "twice": twice,
    "write": write,
    "link": link,
    "look": look,
    "delete": lambda name: (REPO / name).unlink(),
    "session": lambda name: say(session=name),
    "environ": lambda _: (HOME / "environ.json").write_text(json.dumps(dict(os.environ))),
    "hang": lambda _: time.sleep(600),
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "exit": lambda code: sys.exit(int(code)),
    "fail": lambda words: sys.exit(words),
}


def main() -> None:
    words = sys.argv[1:-1]  # the last one is the prompt
    groups: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            groups.append([])
        else:
            groups[-1].append(word)
    counter = HOME / "launches"
    number = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(number + 1))
    for move in groups[min(number, len(groups) - 1)]:
        name, _, argument = move.partition(":")
        MOVES[name](argument)


main()
