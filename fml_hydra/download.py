"""One file over HTTP: goes on where it stopped, tries again, says how far it is.

A partial file stays where it is when a download fails, together with what tells one version of the
file on the server from the next (ETag or Last-Modified), so that two versions are never joined.
Not here: whether the bytes are the right ones (origins), nor where else they might be had.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from filelock import FileLock

from fml_hydra.errors import DataError
from fml_hydra.files import replace_json
from fml_hydra.hashing import text_hash

if TYPE_CHECKING:
    from requests import Response

log = logging.getLogger(__name__)
Report = Callable[[str], None]
TRIES = 4
"""Requests in a row that may bring no byte before it is given up."""
PAUSE = 1.0
"""Seconds before the second of them; doubled for each further one."""
TIMEOUT = (10.0, 60.0)
"""Seconds for a connection, and for the next bytes on it."""
EVERY = 10.0
"""Seconds between two lines of progress."""
_CHUNK = 1 << 20
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_WEB_PAGE = "text/html"


@dataclass(frozen=True)
class _Version:
    """Which version of a file a partial one was begun from."""

    tag: str = ""
    """A strong ETag, or else Last-Modified; empty: the server does not tell."""
    total: int | None = None
    """Its size in bytes, if the server tells."""


class _Interrupted(Exception):
    """A request that may go better the next time."""


def download(url: str, name: str, folder: Path, report: Report = lambda _: None) -> Path:
    """The complete file below `folder`, which keeps what there is of it if this fails.

    Processes that want the same file wait for each other. Raises DataError with the reason when it
    cannot be had or does not fit on the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{text_hash(url)[:16]}-{name}"
    with FileLock(f"{partial}.lock"):
        _Download(url, name, partial, report).run()
    return partial


def forget(partial: Path) -> None:
    """Remove a downloaded or partial file: it has been taken, or is not what it should be."""
    for path in (partial, _facts(partial)):
        path.unlink(missing_ok=True)


def size(count: float) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


class _Download:
    """One download in progress."""

    def __init__(self, url: str, name: str, partial: Path, report: Report) -> None:
        self._url, self._name, self._partial, self._report = url, name, partial, report
        self._told = time.monotonic()

    def run(self) -> None:
        failures, most = 0, self._have()
        while not self._complete():
            try:
                self._request()
            except _Interrupted as error:
                failures = failures + 1 if self._have() <= most else 1
                most = max(most, self._have())
                if failures >= TRIES:
                    kept = f"; {size(self._have())} are kept" if self._have() else ""
                    raise DataError(f"{error}{kept}") from error
                log.info("%s: %s, trying again", self._url, error)
                time.sleep(PAUSE * 2 ** (failures - 1))

    def _have(self) -> int:
        return self._partial.stat().st_size if self._partial.exists() else 0

    def _known(self) -> _Version:
        facts = _facts(self._partial)
        return _Version(**json.loads(facts.read_text())) if facts.exists() else _Version()

    def _complete(self) -> bool:
        return self._partial.exists() and self._known().total == self._have()

    def _request(self) -> None:
        """Ask for what is missing, and write what comes."""
        known = self._known()
        start = self._have() if known.tag else 0
        # as it lies there: a range of something that is compressed on the way means nothing
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers |= {"Range": f"bytes={start}-", "If-Range": known.tag}
        with _answer(self._url, headers) as answer:
            if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
                forget(self._partial)
                raise _Interrupted("the server has no such range")
            self._check(answer)
            if answer.status_code == HTTPStatus.PARTIAL_CONTENT:
                self._go_on(answer, start, known)
            else:
                self._begin(answer)

    def _check(self, answer: "Response") -> None:
        code = answer.status_code
        if code in _BUSY or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _Interrupted(f"the server answers {code} {answer.reason}")
        if code not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise DataError(f"the server answers {code} {answer.reason}")
        kind = answer.headers.get("Content-Type", "")
        if kind.startswith(_WEB_PAGE) and Path(self._name).suffix not in (".html", ".htm"):
            raise DataError("the server answers with a web page (a login or a quota?), not a file")

    def _begin(self, answer: "Response") -> None:
        tag = answer.headers.get("ETag", "")
        if not tag or tag.startswith("W/"):  # a weak tag does not promise the same bytes
            tag = answer.headers.get("Last-Modified", "")
        length = answer.headers.get("Content-Length", "")
        version = _Version(tag, int(length) if length.isdigit() else None)
        self._partial.write_bytes(b"")
        replace_json(_facts(self._partial), asdict(version))
        self._write(answer, version.total)
        if version.total is None:  # it ended in order, so this is all of it
            replace_json(_facts(self._partial), asdict(_Version(tag, self._have())))

    def _go_on(self, answer: "Response", start: int, known: _Version) -> None:
        reach, _, total = answer.headers.get("Content-Range", "").partition("/")
        agreed = total == "*" or known.total is None or total == str(known.total)
        if not reach.startswith(f"bytes {start}-") or not agreed:
            forget(self._partial)
            raise _Interrupted("the server sent another range than the one asked for")
        self._write(answer, known.total)

    def _write(self, answer: "Response", total: int | None) -> None:
        free, missing = disk_usage(self._partial.parent).free, (total or 0) - self._have()
        if missing > free:
            place = self._partial.parent
            raise DataError(f"{size(missing)} are to come, {size(free)} are free in {place}")
        with self._partial.open("ab") as file:
            for chunk in _chunks(answer):
                file.write(chunk)
                self._tell(file.tell(), total)
        if total is not None and self._have() < total:
            raise _Interrupted(f"the connection ended after {self._have()} of {total} bytes")
        if total is not None and self._have() > total:
            forget(self._partial)
            raise _Interrupted("the server sent more than it announced")

    def _tell(self, have: int, total: int | None) -> None:
        if time.monotonic() - self._told >= EVERY:
            self._told = time.monotonic()
            self._report(f"{self._name}: {size(have)}" + (f" of {size(total)}" if total else ""))


def _facts(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


@contextmanager
def _answer(url: str, headers: dict[str, str]) -> Iterator["Response"]:
    import requests  # costs a tenth of a second, seldom needed

    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url!r} is no http address")
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            yield answer
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _Interrupted(_reason(error)) from error
    except requests.RequestException as error:
        raise DataError(_reason(error)) from error


def _chunks(answer: "Response") -> Iterator[bytes]:
    """The bytes as they lie on the server, whatever encoding it claims for them."""
    from urllib3.exceptions import HTTPError

    try:
        yield from answer.raw.stream(_CHUNK, decode_content=False)
    except HTTPError as error:
        raise _Interrupted(_reason(error)) from error


def _reason(error: BaseException) -> str:
    """The system's own word for it, if there is one below what the libraries made of it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
