"""Files by name: whole or not at all, and every refusal by name."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.waiting import HANG_S
from tailbit.errors import MalformedLogError, StorageError, UnsafePathError
from tailbit.tables.storage import LocalStorage, Storage, StorageOptions, at_once, one_look, open_storage
from tailbit.tables.storage.requests import MOST, SEEN


@pytest.fixture(params=["local", "s3"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    """An empty store of each kind: what is asserted of one is asserted of the others."""
    if request.param == "local":
        return made(tmp_path / "root")
    options = request.getfixturevalue("s3_server").options()
    return open_storage(request.getfixturevalue("s3_root"), StorageOptions.of(options))


@pytest.fixture
def local(tmp_path: Path) -> LocalStorage:
    return made(tmp_path / "root")


def made(root: Path) -> LocalStorage:
    storage = LocalStorage(str(root))
    storage.make_root()
    return storage


def test_a_root_that_is_gone_is_named_and_nothing_is_made_in_its_place(local: LocalStorage) -> None:
    """What was moved away for a moment must be able to come back under its name."""
    os.rename(local.root, f"{local.root}.away")
    for write in (local.put, local.put_if_absent):
        for name in ("x", "kind=files/x"):
            with pytest.raises(StorageError, match="the folder is gone"):
                write(name, b"x")
    with pytest.raises(StorageError, match="the folder is gone"), local.create("kind=files", "x"):
        pass
    assert not os.path.exists(local.root)


def test_a_root_is_made_with_the_folders_above_it_but_not_in_the_place_of_a_file(tmp_path: Path) -> None:
    made(tmp_path / "a" / "b").put("kind=files/x", b"x")
    with pytest.raises(StorageError, match="a file where a folder must be"):
        made(tmp_path / "a" / "b" / "kind=files" / "x")


def test_what_is_put_is_read_listed_and_deleted(storage: Storage) -> None:
    storage.put("a/b.bin", b"hello")
    storage.put("a/b.bin", b"hello again")
    storage.put_if_absent("a/a.bin", b"x")
    assert storage.read("a/b.bin") == b"hello again"
    assert storage.read_range("a/b.bin", 6, 100) == b"again"
    assert [(e.name, e.size) for e in storage.list("a")] == [("a.bin", 1), ("b.bin", 11)]
    assert storage.open("a/b.bin").read() == b"hello again"
    storage.delete("a/b.bin")
    storage.delete("a/b.bin")
    assert not storage.exists("a/b.bin")
    assert storage.stat("a/b.bin") is None
    assert storage.list("nowhere") == []
    with pytest.raises(FileNotFoundError):
        storage.read("a/b.bin")


def test_of_many_writers_of_one_name_exactly_one_wins(storage: Storage) -> None:
    won = []

    def write(number: int) -> None:
        try:
            storage.put_if_absent("x", bytes([number]) * 1000)
            won.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=write, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert storage.read("x") == bytes(won) * 1000
    assert [e.name for e in storage.list()] == ["x"]


def test_a_file_uri_and_a_path_are_one_root(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c"
    for root in (str(folder), f"file://{tmp_path}/a%20b%2520c", f"file:{tmp_path}/a%20b%2520c"):
        assert LocalStorage(root).root == str(folder)


@pytest.mark.parametrize("root", ["s3://bucket/x", "abfss://c@a/x", "hdfs://x"])
def test_another_scheme_is_refused_by_name(root: str) -> None:
    with pytest.raises(StorageError, match=root.split(":")[0]):
        LocalStorage(root)


@pytest.mark.parametrize("root", ["hdfs://x/y", "ftp://x/y"])
def test_a_scheme_that_means_no_store_is_refused_by_name(root: str) -> None:
    with pytest.raises(StorageError, match=f"the scheme {root.split(':')[0]}: is not supported"):
        open_storage(root)


def test_a_path_and_a_file_uri_open_the_local_disk(tmp_path: Path) -> None:
    found = [open_storage(f"{scheme}{tmp_path}") for scheme in ("", "file:", "file://")]
    assert found == [LocalStorage(str(tmp_path))] * 3
    assert found[0].uri == str(tmp_path)


def test_a_refusal_of_the_system_is_a_storage_error(local: LocalStorage) -> None:
    local.put("a", b"x")
    with pytest.raises(StorageError):
        local.put("a/b", b"x")
    with pytest.raises(StorageError):
        local.read("")


def test_a_created_file_is_seen_by_readers_once_it_is_published(storage: Storage) -> None:
    with storage.create("a", "stem") as unfinished:
        unfinished.sink.write(b"hello ")
        unfinished.sink.write(b"again")
        with unfinished.written() as source:
            assert (source.size(), source.read_at(5, 6)) == (11, b"again")
        assert not storage.exists("a/b.bin")
        unfinished.publish("b.bin")
    assert storage.read("a/b.bin") == b"hello again"
    assert [entry.name for entry in storage.list("a")] == ["b.bin"]


@pytest.mark.parametrize("flushed", [False, True])
def test_a_created_file_that_is_not_published_is_gone(storage: Storage, flushed: bool) -> None:
    def fail() -> None:
        with storage.create("a", "stem") as unfinished:
            unfinished.sink.write(b"hello")
            if flushed:
                unfinished.written().close()
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        fail()
    assert storage.list("a") == []


def test_a_file_is_read_at_any_place(storage: Storage) -> None:
    storage.put("x", b"0123456789")
    with storage.open("x") as file:
        assert (file.size(), file.read_at(3, 6), file.read_at(2, 0)) == (10, b"678", b"01")
    assert storage.read_range("x", 8, 100) == b"89"
    assert storage.read_range("x", 20, 5) == b""
    with pytest.raises(FileNotFoundError):
        storage.open("y")


def test_another_file_of_one_name_has_another_stat(storage: Storage) -> None:
    storage.put("x", b"one")
    before = storage.stat("x")
    storage.put("x", b"two")
    assert before is not None
    assert storage.stat("x") not in (None, before)


def test_files_and_folders_below_the_root_are_told(storage: Storage) -> None:
    assert storage.contents() == []
    assert storage.exists("") == isinstance(storage, LocalStorage)
    storage.put("a/b/c", b"x")
    storage.put("d", b"x")
    assert storage.contents() == ["a", "d"]
    assert [entry.name for entry in storage.list()] == ["d"]
    assert [storage.exists(name) for name in ("", "a", "a/b", "d", "e")] == [True, True, True, True, False]


def test_a_walk_tells_the_files_at_any_depth_but_those_of_skipped_folders(storage: Storage) -> None:
    names = ("a", "x=1/a", "x=1/b", "x=1/y/c", "x=10/a", "_own/a", "x=1/_own/deep/a", "x=1/_owned/a")
    for name in names:
        storage.put(name, name.encode())
    kept = ["_own/a", "a", "x=1/_own/deep/a", "x=1/_owned/a", "x=1/a", "x=1/b", "x=1/y/c", "x=10/a"]
    assert [entry.name for entry in storage.walk()] == kept
    walked = storage.walk(skip=("_own",))
    assert [entry.name for entry in walked] == [name for name in kept if "_own/" not in name]
    assert [entry.size for entry in walked] == [len(entry.name) for entry in walked]
    assert [entry.name for entry in storage.walk("x=1", ("_own", "y"))] == ["_owned/a", "a", "b"]
    assert {entry.name: entry for entry in storage.walk("x=1/y")} == {
        e.name: e for e in storage.list("x=1/y")
    }
    assert storage.walk("nowhere") == []


def test_a_walk_follows_links_to_folders_elsewhere_and_tells_no_file_twice(
    local: LocalStorage, tmp_path: Path
) -> None:
    other = made(tmp_path / "other")
    other.put("deep/b", b"b")
    local.put("below/a", b"a")
    Path(local.root, "below", "up").symlink_to(local.root)
    Path(local.root, "alias").symlink_to("below")
    Path(local.root, "parents").symlink_to(tmp_path)
    Path(local.root, "linked").symlink_to(other.root)
    Path(other.root, "deep", "back").symlink_to(Path(local.root, "below"))
    Path(other.root, "deep", "round").symlink_to(other.root)
    names = [entry.name for entry in local.walk()]
    assert names == ["below/a", "linked/deep/b"]
    assert local.read("linked/deep/b") == b"b"


def test_a_root_that_is_nowhere_or_a_file_holds_nothing(tmp_path: Path) -> None:
    nowhere = LocalStorage(str(tmp_path / "nowhere"))
    assert (nowhere.exists(""), nowhere.contents()) == (False, [])
    (tmp_path / "f").write_text("x")
    assert LocalStorage(str(tmp_path / "f")).contents() is None


def test_names_that_follow_a_name_are_listed(storage: Storage) -> None:
    for name in ("d/1", "d/3", "d/2", "d/2x", "d/e/4", "e"):
        storage.put(name, b"x")
    assert [entry.name for entry in storage.list_after("d", "2")] == ["2x", "3"]
    assert storage.list_after("d", "3") == []
    assert storage.list_after("nowhere", "") == []


def test_a_folder_listed_again_shows_what_came_and_not_what_went(storage: Storage) -> None:
    for name in ("d/1", "d/3"):
        storage.put(name, b"x")
    known = storage.list("d")
    storage.put("d/2", b"yz")
    storage.delete("d/1")
    assert [(entry.name, entry.size) for entry in storage.list_again("d", known)] == [("2", 2), ("3", 1)]
    assert storage.list_again("d", ()) == storage.list_again("d", known) == storage.list("d")
    assert storage.list_again("nowhere", known) == []


def test_a_file_that_is_read_as_a_whole_has_at_most_as_many_bytes_as_its_kind(storage: Storage) -> None:
    storage.put("x", b"12345")
    assert storage.read("x", 5) == b"12345"
    with pytest.raises(MalformedLogError, match="file x: it has 5 bytes, and at most 4 are read"):
        storage.read("x", 4)


@pytest.mark.parametrize("name", ["a b%20c/x y", "ünï/ö#?+&='\"<>", "v=1%3A2/f", "~*[]{}|^`"])
def test_a_name_of_any_characters_is_the_name_of_one_file(storage: Storage, name: str) -> None:
    storage.put(name, b"x")
    folder, _, last = name.rpartition("/")
    assert [entry.name for entry in storage.list(folder)] == [last]
    assert storage.read(storage.resolve(name)) == b"x"


@pytest.mark.parametrize("path", ["", "../x", "a/../../x", "a\0b"])
def test_a_path_that_leaves_the_root_is_refused(storage: Storage, path: str) -> None:
    with pytest.raises(UnsafePathError):
        storage.resolve(path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_says_so() -> None:
    with pytest.raises(OSError, match="No space") as caught, open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")
    assert caught.value.errno == errno.ENOSPC


def test_the_clock_of_a_local_disk_is_that_of_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "just written").write_text("")
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    told = LocalStorage(str(tmp_path)).clock_ms()
    assert 0 <= told - (tmp_path / "just written").stat().st_mtime_ns // 1_000_000 < 600_000
    assert os.listdir(tmp_path) == ["just written"]
    assert LocalStorage(str(tmp_path / "gone")).clock_ms() == 0


class Afar(LocalStorage):
    """A store of which each access counts as a request."""

    remote = True


@pytest.fixture
def afar(tmp_path: Path) -> Storage:
    return Afar(str(tmp_path))


class Meeting:
    """Work that ends when as many pieces have begun as are expected; `most` had begun at the same time."""

    def __init__(self, expected: int) -> None:
        self._gate = threading.Barrier(expected, timeout=HANG_S)
        self._lock = threading.Lock()
        self.running = self.most = 0

    def piece(self, number: int) -> Callable[[], int]:
        def work() -> int:
            with self._lock:
                self.running += 1
                self.most = max(self.most, self.running)
            self._gate.wait()
            with self._lock:
                self.running -= 1
            return number

        return work


def test_pieces_run_at_the_same_time_and_their_results_come_in_order(afar: Storage) -> None:
    meeting = Meeting(8)
    assert list(at_once(afar, map(meeting.piece, range(8)))) == list(range(8))


def test_no_more_pieces_run_ahead_than_the_bound(afar: Storage) -> None:
    begun: list[int] = []

    def piece(number: int) -> Callable[[], int]:
        begun.append(number)
        return lambda: number

    results = at_once(afar, map(piece, range(10 * MOST)))
    assert next(results) == 0
    assert len(begun) <= MOST + 1
    assert list(results) == list(range(1, 10 * MOST))


def test_nested_calls_end_though_the_outer_ones_take_all_threads(afar: Storage) -> None:
    meeting = Meeting(1)

    def outer(number: int) -> Callable[[], list[int]]:
        return lambda: list(at_once(afar, [meeting.piece(10 * number + n) for n in range(10)]))

    found = list(at_once(afar, map(outer, range(3 * MOST))))
    assert [n for part in found for n in part] == list(range(30 * MOST))
    assert meeting.most <= MOST + 1


def test_an_error_is_raised_in_the_place_of_its_piece_and_later_pieces_are_cancelled(afar: Storage) -> None:
    ran: list[int] = []

    def piece(number: int) -> Callable[[], int]:
        def work() -> int:
            if number == 2:
                raise KeyError(number)
            ran.append(number)
            return number

        return work

    results = at_once(afar, map(piece, range(1000)))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(KeyError):
        next(results)
    count = len(ran)
    assert count <= MOST + 3
    assert len(ran) == count


def test_no_thread_is_left_when_the_last_call_has_ended(afar: Storage) -> None:
    before = set(threading.enumerate())
    list(at_once(afar, map(Meeting(4).piece, range(4))))
    for thread in set(threading.enumerate()) - before:
        thread.join(HANG_S)
    assert set(threading.enumerate()) <= before


def test_pieces_share_the_look_of_their_caller(afar: Storage) -> None:
    with one_look():
        mine = SEEN.stats
        assert all(seen is mine for seen in at_once(afar, [lambda: SEEN.stats] * 5))
        assert SEEN.stats is mine
    assert list(at_once(afar, [lambda: SEEN.stats] * 5)) == [None] * 5


def test_on_local_disk_each_piece_runs_in_the_callers_thread_when_its_result_is_wanted(
    tmp_path: Path,
) -> None:
    ran: list[int] = []

    def piece(number: int) -> Callable[[], int]:
        return lambda: ran.append(number) or threading.get_ident()

    results = at_once(LocalStorage(str(tmp_path)), map(piece, range(3)))
    assert ran == []
    assert next(results) == threading.get_ident()
    assert ran == [0]
