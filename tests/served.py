"""A web server on this machine whose bad days can be chosen: cut connections, ignored ranges."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Served:
    """Files by path, how they are served, and what was asked for."""

    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.url = ""
        self.asked: list[tuple[str, str]] = []
        """Path and Range header of every request."""
        self.cuts: list[int] = []
        """After how many bytes the next connections are cut."""
        self.codes: list[int] = []
        """Status codes that the next requests get."""
        self.ranges = True
        """Whether ranges are served; else they are ignored."""
        self.shift = 0
        """How far the served range is beside the one asked for."""
        self.headers: dict[str, str] = {}
        """Further headers; Content-Length: none leaves it out."""
        self.tag = '"one"'
        """The ETag."""


class _Handler(BaseHTTPRequestHandler):
    served: Served

    def do_GET(self) -> None:
        me, name = self.served, self.path.strip("/")
        asked = self.headers.get("Range", "")
        me.asked.append((name, asked))
        body = me.files.get(name)
        code = me.codes.pop(0) if me.codes else (200 if body is not None else 404)
        if code != 200 or body is None:
            self.send_error(code)
            return
        start = 0
        if asked and me.ranges and self.headers.get("If-Range") in (None, me.tag):
            start = int(asked.removeprefix("bytes=").rstrip("-")) + me.shift
            code = 206
        self.send_response(code)
        if code == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if me.tag:
            self.send_header("ETag", me.tag)
        headers = {"Content-Length": str(len(body) - start)} | me.headers
        for key, value in headers.items():
            if value != "none":
                self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body[start:][: me.cuts.pop(0) if me.cuts else None])

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(**files: bytes) -> Iterator[Served]:
    """Serve `files` until the end of the block."""
    served = Served(**files)
    handler = type("Handler", (_Handler,), {"served": served})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        served.url = f"http://127.0.0.1:{running.server_port}"
        yield served
        running.shutdown()
