"""Downloads over real connections that are cut, ignored, changed and refused."""

import gzip
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Served, serving

from fml_hydra import download as module
from fml_hydra.download import download, forget, size
from fml_hydra.errors import DataError

BODY = bytes(range(256)) * 40
CUT = 3000


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)


@pytest.fixture
def server() -> Iterator[Served]:
    with serving(table=BODY) as served:
        yield served


def get(server: Served, folder: Path, name: str = "table") -> Path:
    return download(f"{server.url}/{name}", name, folder)


def ranges(server: Served) -> list[str]:
    return [asked for _, asked in server.asked]


def test_a_file_comes_whole_and_only_once(server: Served, tmp_path: Path) -> None:
    assert get(server, tmp_path).read_bytes() == BODY
    assert get(server, tmp_path).read_bytes() == BODY
    assert ranges(server) == [""]


def test_a_cut_connection_is_gone_on_with(server: Served, tmp_path: Path) -> None:
    server.cuts = [CUT, CUT]
    assert get(server, tmp_path).read_bytes() == BODY
    assert ranges(server) == ["", f"bytes={CUT}-", f"bytes={2 * CUT}-"]


def test_more_cuts_than_tries_do_no_harm_as_long_as_bytes_come(
    server: Served, tmp_path: Path
) -> None:
    server.cuts = [500] * (3 * module.TRIES)
    assert get(server, tmp_path).read_bytes() == BODY
    assert len(server.asked) == 3 * module.TRIES + 1


@pytest.mark.parametrize("tag", ['"one"', "", 'W/"weak"'])
def test_a_server_that_ignores_ranges_starts_anew(server: Served, tmp_path: Path, tag: str) -> None:
    server.cuts, server.ranges, server.tag = [CUT], False, tag
    assert get(server, tmp_path).read_bytes() == BODY
    assert ranges(server) == ["", f"bytes={CUT}-" if tag == '"one"' else ""]


def test_a_file_that_changed_in_between_is_not_joined_to_the_old_one(
    server: Served, tmp_path: Path
) -> None:
    server.cuts, server.codes = [CUT], [200, 404]
    with pytest.raises(DataError, match="404"):
        get(server, tmp_path)
    server.files["table"], server.tag = BODY[::-1], '"two"'
    assert get(server, tmp_path).read_bytes() == BODY[::-1]
    assert ranges(server)[-1] == f"bytes={CUT}-"


@pytest.mark.parametrize("shift", [-100, 100])
def test_another_range_than_the_one_asked_for_is_not_used(
    server: Served, tmp_path: Path, shift: int
) -> None:
    server.cuts, server.shift = [CUT], shift
    assert get(server, tmp_path).read_bytes() == BODY
    assert ranges(server) == ["", f"bytes={CUT}-", ""]


def test_a_range_that_the_server_does_not_have(server: Served, tmp_path: Path) -> None:
    server.cuts, server.codes = [CUT], [200, 416]
    assert get(server, tmp_path).read_bytes() == BODY
    assert ranges(server) == ["", f"bytes={CUT}-", ""]


def test_what_failed_is_kept_and_gone_on_with_the_next_time(server: Served, tmp_path: Path) -> None:
    server.cuts, server.codes = [CUT], [200] + [503] * (module.TRIES - 1)
    with pytest.raises(DataError) as caught:
        get(server, tmp_path)
    assert str(caught.value).startswith("the server answers 503 ")
    assert str(caught.value).endswith("; 0.0 MB are kept")
    server.asked.clear()
    assert get(server, tmp_path).read_bytes() == BODY
    assert ranges(server) == [f"bytes={CUT}-"]


@pytest.mark.parametrize(
    ("codes", "requests", "comes"),
    [([503, 429, 500], 4, True), ([404], 1, False), ([503] * 9, module.TRIES, False)],
)
def test_a_busy_server_is_asked_again_one_that_refuses_is_not(
    server: Served, tmp_path: Path, codes: list[int], requests: int, comes: bool
) -> None:
    server.codes = list(codes)
    if comes:
        assert get(server, tmp_path).read_bytes() == BODY
    else:
        with pytest.raises(DataError, match=f"the server answers {codes[-1]} "):
            get(server, tmp_path)
    assert len(server.asked) == requests


def test_a_connection_that_is_refused_is_named_in_the_systems_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^Connection refused$"):
        download("http://127.0.0.1:9/table", "table", tmp_path)
    for odd in ("nonsense", "file:///etc/passwd"):
        with pytest.raises(DataError, match="is no http address"):
            download(odd, "table", tmp_path)


def test_a_web_page_in_place_of_a_file_is_refused(server: Served, tmp_path: Path) -> None:
    server.headers = {"Content-Type": "text/html; charset=utf-8"}
    with pytest.raises(DataError, match="web page"):
        get(server, tmp_path)
    server.files["page.html"] = BODY
    assert get(server, tmp_path, "page.html").read_bytes() == BODY


def test_a_server_that_tells_no_length(server: Served, tmp_path: Path) -> None:
    server.headers = {"Content-Length": "none"}
    assert get(server, tmp_path).read_bytes() == BODY
    assert get(server, tmp_path).read_bytes() == BODY
    assert len(server.asked) == 1


def test_bytes_are_kept_as_they_lie_on_the_server(server: Served, tmp_path: Path) -> None:
    server.files["table"] = packed = gzip.compress(BODY)
    server.headers = {"Content-Encoding": "gzip"}
    assert get(server, tmp_path).read_bytes() == packed


def test_what_does_not_fit_on_the_disk_is_not_begun(server: Served, tmp_path: Path) -> None:
    server.headers = {"Content-Length": str(10**18)}
    with pytest.raises(DataError, match=r"1000000000\.0 GB are to come, .* are free in"):
        get(server, tmp_path)


def test_progress_is_told(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.0)
    server.files["table"] = bytes(2_500_000)
    said: list[str] = []
    download(f"{server.url}/table", "table", tmp_path, said.append)
    assert said[-1] == "table: 2.5 MB of 2.5 MB"
    assert len(said) > 1


def test_two_that_want_the_same_file_fetch_it_once(server: Served, tmp_path: Path) -> None:
    threads = [threading.Thread(target=get, args=(server, tmp_path)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.asked) == 1


def test_what_is_forgotten_is_fetched_anew(server: Served, tmp_path: Path) -> None:
    forget(get(server, tmp_path))
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    assert get(server, tmp_path).read_bytes() == BODY


def test_sizes_for_people() -> None:
    assert [size(n) for n in (0, 1_400_000, 2_450_000_000)] == ["0.0 MB", "1.4 MB", "2.5 GB"]
