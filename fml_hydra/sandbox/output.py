"""Text from bytes nobody can trust: bounded while it is read, harmless once it is shown.

Not for meaning: nothing here looks for metrics or errors.
"""

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements
    r"|\x1b[\]P^_X][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # OSC and other strings: titles, links
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
_OVERWRITTEN = re.compile(r"[^\n]*\r")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Capture:
    """Keeps the beginning and the end of a stream in bounded memory."""

    def __init__(self, cap: int) -> None:
        self._half = max(1, cap // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self._seen += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if (
            len(self._tail) > 4 * self._half
        ):  # cut seldom, so that a flood costs no quadratic copies
            del self._tail[: -self._half]

    def text(self) -> str:
        """What was kept, as clean text; a line of its own says how many bytes are left out."""
        tail = self._tail[-self._half :]
        cut = self._seen - len(self._head) - len(tail)
        if not cut:
            return clean(bytes(self._head + tail))
        return f"{clean(bytes(self._head))}\n[... {cut} bytes left out ...]\n{clean(bytes(tail))}"


def clean(raw: bytes) -> str:
    """Decode UTF-8 with replacement and drop escape sequences, NULs and other control characters.

    A carriage return does what it does on a terminal (a progress bar leaves its last state); tabs
    and line ends stay.
    """
    text = _ESCAPES.sub("", raw.decode("utf-8", errors="replace"))
    text = re.sub(r"\r+\n", "\n", text)
    return _CONTROLS.sub("", _OVERWRITTEN.sub("", text))
