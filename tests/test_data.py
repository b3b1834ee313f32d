"""Raw files from their origins, prepared splits in the cache; real pip, http and processes."""

import functools
import hashlib
import http.server
import json
import os
import signal
import stat
import textwrap
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fml_hydra import download
from fml_hydra.data import (
    PARTS,
    Origin,
    Source,
    fetch,
    installed_copies,
    is_prepared,
    prepare,
)
from fml_hydra.errors import DataError

RAW = b"x,y\n1,2\n3,4\n"
SUM = hashlib.sha256(RAW).hexdigest()
SCRIPT = """
    def prepare(sources, out):
        for part in ("train", "val", "test", "answers/val", "answers/test"):
            (out / part).mkdir(parents=True)
            (out / part / "rows.csv").write_bytes(sources["table"].read_bytes() + part.encode())
"""
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_bytes(RAW)
    return path


def source(*origins: Origin, sha256: str = SUM) -> Source:
    return Source(sha256, origins)


def a_file(path: Path) -> Origin:
    return Origin("file", file=str(path))


def script(tmp_path: Path, text: str = SCRIPT) -> Path:
    path = tmp_path / "mytask" / "prepare.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


# --- origins


def test_a_file(raw: Path, cache: Path) -> None:
    path, provenance = fetch("table", source(a_file(raw)), cache)
    assert path.read_bytes() == RAW
    assert path.is_relative_to(cache)
    assert provenance == f"file {raw}"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(raw.stat().st_mode)
    assert len(list(path.parent.iterdir())) == 1


def test_a_file_in_the_home(raw: Path, cache: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(raw.parent))
    assert fetch("table", source(Origin("file", file="~/table.csv")), cache)[0].exists()


def test_what_is_in_the_cache_is_not_fetched_again(raw: Path, cache: Path) -> None:
    kept, _ = fetch("table", source(a_file(raw)), cache)
    raw.unlink()
    said: list[str] = []
    assert fetch("table", source(a_file(raw)), cache, said.append) == (kept, "cache")
    assert said == []


def test_a_damaged_file_in_the_cache_is_fetched_again(raw: Path, cache: Path) -> None:
    kept, _ = fetch("table", source(a_file(raw)), cache)
    kept.write_bytes(b"damaged")
    assert fetch("table", source(a_file(raw)), cache) == (kept, f"file {raw}")
    assert kept.read_bytes() == RAW


def test_a_wrong_checksum_names_both_sums_and_keeps_nothing(raw: Path, cache: Path) -> None:
    raw.write_bytes(b"other")
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(DataError) as caught:
        fetch("table", source(a_file(raw)), cache)
    assert f"sha256 is {other}, expected {SUM}" in str(caught.value)
    assert "data source 'table' cannot be had" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (cache / "raw").exists()


def test_origins_are_tried_in_order_and_each_failure_has_a_reason(
    raw: Path, cache: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"bad")
    absent = tmp_path / "absent.csv"
    said: list[str] = []
    path, provenance = fetch(
        "table", source(a_file(absent), a_file(bad), a_file(raw)), cache, said.append
    )
    assert (path.read_bytes(), provenance) == (RAW, f"file {raw}")
    assert said == [f"fetching table: file {p}" for p in (absent, bad, raw)]
    with pytest.raises(DataError) as caught:
        fetch("table", source(a_file(absent), a_file(bad)), tmp_path / "other cache")
    assert f"file {absent}: not there; file {bad}: sha256 is" in str(caught.value)


def test_no_origin_at_all(cache: Path) -> None:
    with pytest.raises(DataError, match="no origins"):
        fetch("table", source(), cache)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a data file."""
    folder = tmp_path / "site" / "shipsdata"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    (folder / "data" / "table.csv").write_bytes(RAW)
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


def test_an_installed_packages_file_without_importing_it(package: Path, cache: Path) -> None:
    origin = Origin("installed", package="shipsdata", file="data/table.csv")
    path, provenance = fetch("table", source(origin), cache)
    assert (path.read_bytes(), provenance) == (RAW, "installed shipsdata data/table.csv")


@pytest.mark.parametrize("name", ["no_such_package", "no.such.package", "", "json"])
def test_a_package_or_file_that_is_not_installed(cache: Path, name: str) -> None:
    with pytest.raises(DataError, match="not there"):
        fetch("table", source(Origin("installed", package=name, file="no.csv")), cache)


def test_installed_copies_are_known_so_that_sandboxes_hide_them(package: Path, raw: Path) -> None:
    sources = {
        "a": source(Origin("installed", package="shipsdata", file="data/table.csv")),
        "b": source(
            a_file(raw),
            Origin("archive", package="shipsdata==1.0", member="shipsdata/data/table.csv"),
        ),
        "c": source(Origin("installed", package="no_such_package", file="x")),
        "d": source(Origin("archive", package="x==1", member="no-package.data/table.csv")),
    }
    assert installed_copies(sources) == [package / "data" / "table.csv"] * 2


# --- archives, by the real pip and without a network


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one wheel, the only place pip looks at."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "tinydata-1.0.dist-info"
    with zipfile.ZipFile(folder / "tinydata-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tinydata/table.csv", RAW)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    return folder


def archive(member: str = "tinydata/table.csv", package: str = "tinydata==1.0", **more) -> Origin:
    return Origin("archive", package=package, member=member, **more)


def test_a_member_of_a_wheel(wheels: Path, cache: Path) -> None:
    (wheel,) = wheels.iterdir()
    known = hashlib.sha256(wheel.read_bytes()).hexdigest()
    path, provenance = fetch("table", source(archive(sha256=known)), cache)
    assert (path.read_bytes(), provenance) == (RAW, "archive tinydata==1.0 tinydata/table.csv")


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        (archive(member="tinydata/no.csv"), "no.csv"),
        (archive(package="tinydata==2.0"), "No matching distribution found for tinydata==2.0"),
        (archive(sha256="0" * 64), f"expected {'0' * 64}"),
    ],
)
def test_archives_that_do_not_give_it(wheels: Path, cache: Path, origin: Origin, reason) -> None:
    with pytest.raises(DataError) as caught:
        fetch("table", source(origin), cache)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


# --- addresses, by a real server on this machine


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "table.csv").write_bytes(RAW)
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_an_address(server: str, cache: Path) -> None:
    path, provenance = fetch("table", source(Origin("url", url=f"{server}/table.csv")), cache)
    assert (path.read_bytes(), provenance) == (RAW, f"url {server}/table.csv")


def test_an_address_that_does_not_answer_has_a_reason(
    server: str, raw: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PAUSE", 0.0)
    closed = "http://127.0.0.1:9/table.csv"
    origins = [Origin("url", url=url) for url in (f"{server}/no.csv", closed, "nonsense")]
    with pytest.raises(DataError) as caught:
        fetch("table", source(*origins), cache)
    text = str(caught.value)
    assert "404" in text
    assert f"url {closed}: " in text
    assert "url nonsense: " in text
    assert fetch("table", source(*origins, a_file(raw)), cache)[1] == f"file {raw}"


# --- preparing


def test_prepare_writes_the_parts_once(raw: Path, cache: Path, tmp_path: Path) -> None:
    path, sources, said = script(tmp_path), {"table": source(a_file(raw))}, []
    assert not is_prepared(path, sources, cache)
    first = prepare(path, sources, cache, said.append)
    assert said == [f"fetching table: file {raw}", "preparing mytask"]
    assert is_prepared(path, sources, cache)
    for part in PARTS:
        assert (first.folder / part / "rows.csv").read_bytes() == RAW + part.encode()
    assert first.inputs("train", "val") == first.inputs("train", "test") == first.folder / "train"
    assert first.inputs("eval", "val") == first.folder / "val"
    assert first.inputs("eval", "test") == first.folder / "test"
    assert first.answers("test") == first.folder / "answers" / "test"
    assert first.provenance == {"table": f"file {raw}"}
    raw.unlink()
    assert prepare(path, sources, cache, said.append) == first
    assert len(said) == 2


def test_another_script_or_checksum_is_prepared_anew(raw, cache, tmp_path) -> None:
    sources = {"table": source(a_file(raw))}
    first = prepare(script(tmp_path), sources, cache)
    changed = script(tmp_path, SCRIPT.replace("rows.csv", "lines.csv"))
    assert not is_prepared(changed, sources, cache)
    second = prepare(changed, sources, cache)
    assert second.folder != first.folder
    assert second.sha256 != first.sha256
    raw.write_bytes(b"z\n")
    other = {"table": source(a_file(raw), sha256=hashlib.sha256(b"z\n").hexdigest())}
    assert prepare(changed, other, cache).folder not in {first.folder, second.folder}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def prepare(sources, out):\n    raise ValueError('row 7')", "failed: ValueError: row 7"),
        ("def prepare(sources, out: pass", "failed: SyntaxError"),
        ("x = 1", "failed: AttributeError"),
        (
            "def prepare(sources, out):\n    (out / 'train').mkdir()\n    (out / 'val').touch()",
            "did not write val, test, answers/val, answers/test",
        ),
    ],
)
def test_a_script_that_fails_is_named_and_leaves_nothing(
    raw: Path, cache: Path, tmp_path: Path, text: str, reason: str
) -> None:
    path, sources = script(tmp_path, text), {"table": source(a_file(raw))}
    with pytest.raises(DataError) as caught:
        prepare(path, sources, cache)
    assert f"{path}: {reason}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not is_prepared(path, sources, cache)
    assert [p for p in (cache / "data" / "mytask").iterdir() if p.is_dir()] == []


COUNTING = (
    SCRIPT
    + """
        import os, pathlib, time
        mark = pathlib.Path(MARKS) / f"{os.getpid()}"
        mark.touch()
        time.sleep(0.5)
"""
)


def marking(tmp_path: Path, text: str) -> tuple[Path, Path]:
    marks = tmp_path / "marks"
    marks.mkdir()
    return script(tmp_path, text.replace("MARKS", repr(str(marks)))), marks


def start(work) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        work()
        code = 0
    finally:
        os._exit(code)


@needs_fork
def test_two_processes_prepare_once(raw: Path, cache: Path, tmp_path: Path) -> None:
    path, marks = marking(tmp_path, COUNTING)
    sources = {"table": source(a_file(raw))}
    pids = [start(lambda: prepare(path, sources, cache)) for _ in range(2)]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0]
    assert len(list(marks.iterdir())) == 1
    assert is_prepared(path, sources, cache)


@needs_fork
def test_a_kill_in_the_middle_is_forgotten(raw: Path, cache: Path, tmp_path: Path) -> None:
    hanging = COUNTING.replace("time.sleep(0.5)", "time.sleep(60 if HANG.exists() else 0)")
    hang = tmp_path / "hang"
    hang.touch()
    path, marks = marking(tmp_path, hanging.replace("HANG", f"pathlib.Path({str(hang)!r})"))
    sources = {"table": source(a_file(raw))}
    pid = start(lambda: prepare(path, sources, cache))
    deadline = time.monotonic() + 30
    while not list(marks.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert not is_prepared(path, sources, cache)
    hang.unlink()
    prepared = prepare(path, sources, cache)
    assert {p.name for p in (prepared.folder / "train").iterdir()} == {"rows.csv"}
    folders = [p for p in (cache / "data" / "mytask").iterdir() if p.is_dir()]
    assert folders == [prepared.folder.parent]
    assert json.loads((prepared.folder.parent / "done.json").read_text())["sha256"]
