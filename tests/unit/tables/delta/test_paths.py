"""URIs of a Delta log: which of them name one file of a table, and the file on disk that each names."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.delta_builder import Action, DeltaBuilder
from support.drive import Drive
from support.profiles import examples
from tailbit.base.errors import MalformedLogError, UnsafePathError
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table
from tailbit.tables.delta.paths import decode_path, file_path, file_paths

ROWS = pa.table({"a": list(range(10)), "s": ["x", "y"] * 5})
FORMS = [("classic", 1), ("multipart", 3), ("v2-json", 2), ("v2-parquet", 2)]

ON_DISK = ("a+b.parquet", "p=é/x.parquet", "p=a:b c/~x.parquet", "p=[#?]/z%.parquet")


def spellings(path: str) -> list[str]:
    """Some URIs of a path, each another file to Spark and to deltalake."""
    usual = "".join(c if c not in '%"<>[]{}^`|\\ #?' else f"%{ord(c):02X}" for c in path)
    every = "".join(f"%{byte:02X}" for byte in path.encode())
    first = f"%{ord(path[0]):02X}{usual[1:]}"
    folder = usual.replace("/", "%2F") if "/" in usual else usual.replace(".", "%2E")
    return [usual, every, first, folder]


class Log:
    """A log over a few files, which it spells in several ways; `live` is what each URI has left live."""

    def __init__(self, path: str) -> None:
        self.made = DeltaBuilder(path).create(ROWS.schema, features=["v2Checkpoint"])
        self.adds: dict[str, Action] = {}
        for name in ON_DISK:
            added = self.made.data_file(ROWS, name)["add"]
            self.adds |= {uri: {**added, "path": uri} for uri in spellings(name)}
        self.uris = list(self.adds)
        self.live: set[str] = set()

    def commit(self, *changes: tuple[str, bool]) -> int:
        """Write a commit that adds or removes URIs."""
        actions = []
        for uri, adds in changes:
            removed = {"path": uri, "deletionTimestamp": 1, "dataChange": True}
            actions.append({"add": self.adds[uri]} if adds else {"remove": removed})
            (self.live.add if adds else self.live.discard)(uri)
        return self.made.commit(actions)

    def checkpoint(self, form: str = "classic", parts: int = 1) -> None:
        """Write a log checkpoint of what is live, and drop the commits before it."""
        self.made.live = {uri: self.adds[uri] for uri in sorted(self.live)}
        self.made.checkpoint(form, parts)
        for version in range(self.made.version):
            (self.made.log / f"{version:020d}.json").unlink(missing_ok=True)


@pytest.fixture
def log(table_path: str) -> Log:
    return Log(table_path)


def by_deltalake(path: str) -> int:
    """The rows of the head as deltalake counts them."""
    counted = QueryBuilder().register("t", DeltaTable(path)).execute("select count(*) as n from t")
    return int(pa.table(counted)["n"][0].as_py())


def rows_of(path: str) -> int:
    return tailbit.open(path).where("true").count()


@pytest.mark.parametrize("name", ON_DISK)
def test_a_remove_of_another_spelling_of_a_path_leaves_the_file_live(log: Log, name: str) -> None:
    uris = spellings(name)
    for added in uris:
        log.commit((added, True))
        for removed in uris:
            if removed != added:
                log.commit((removed, False))
                assert rows_of(log.made.path) == by_deltalake(log.made.path) == 10
        log.commit((added, False))
        assert rows_of(log.made.path) == 0


@pytest.mark.parametrize("name", ON_DISK)
def test_a_file_that_is_live_under_two_spellings_gives_its_rows_twice(log: Log, name: str) -> None:
    log.commit(*((uri, True) for uri in spellings(name)))
    opened = tailbit.open(log.made.path)
    assert opened.where("true").count() == by_deltalake(log.made.path) == 40
    assert opened.where("a >= 8").to_arrow()["a"].to_pylist() == [8, 9] * 4
    assert len(opened.where("a = 3").positions()) == 4


@pytest.mark.parametrize("name", ON_DISK)
def test_a_file_of_one_spelling_is_named_by_its_decoded_path(log: Log, name: str, tmp_path: Path) -> None:
    for uri in spellings(name):
        log.commit((uri, True))
        Drive(log.made.path, tmp_path / "index", ["a"]).drain()
        for opened in (tailbit.open(log.made.path), tailbit.open(log.made.path, tmp_path / "index")):
            answer = opened.where("a = 3")
            assert {path: list(rows) for path, rows in answer.positions().items()} == {name: [3]}
            assert answer.files() == [name]
            assert opened.locate([3, 99], "a")["path"].to_pylist() == [name, None]
        log.commit((uri, False))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.parquet", "./x.parquet"),
        ("a/x.parquet", "a//x.parquet"),
        ("a/x.parquet", "a/./x.parquet"),
        ("a/x.parquet", "b/../a/x.parquet"),
        ("p=%3A/%C3%A9.parquet", "p=%3a/%c3%A9.parquet"),
        ("/t/x.parquet", "file:/t/x.parquet"),
        ("/t/x.parquet", "file:///t/x.parquet"),
        ("/t/%78.parquet", "file:///t/x.parquet"),
        ("file:/t/%78.parquet", "file:///t/./%78.parquet"),
        ("s3://bucket/t/x.parquet", "s3://bucket/t//./x.parquet"),
    ],
)
def test_uris_that_are_equal_in_normal_form_are_one_file(one: str, other: str) -> None:
    assert file_path(one, "log") == file_path(other, "log")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("p=a%20b%2525/é+~.parquet", "p=a b%25/é+~.parquet"),
        ("file:///t/a%20b.parquet", "/t/a b.parquet"),
        ("s3://bucket/a%20b.parquet", "s3://bucket/a b.parquet"),
        ("p=%C2%A0%E2%80%A8/x", "p=\u00a0\u2028/x"),
        (".hidden/x.parquet", ".hidden/x.parquet"),
    ],
)
def test_a_uri_that_writers_spell_so_has_its_decoded_path(uri: str, path: str) -> None:
    assert file_path(uri, "log") == path


@pytest.mark.parametrize("uri", ["../x", "a/../../x", "%2E%2E/x", "file:/../x"])
def test_a_uri_that_leads_out_of_the_table_is_refused_however_it_is_spelled(
    table_path: str, uri: str
) -> None:
    storage = open_table(DeltaBuilder(table_path).create(ROWS.schema).path).storage
    with pytest.raises(UnsafePathError):
        storage.resolve(file_path(uri, "log"))


def test_a_relative_uri_whose_file_begins_like_a_scheme_is_relative(table_path: str) -> None:
    storage = open_table(DeltaBuilder(table_path).create(ROWS.schema).path).storage
    for uri, name in [("file%3Ax", "file:x"), ("uri:x", "uri:x"), ("uri%3Ax", "uri:x")]:
        assert storage.resolve(file_path(uri, "log")) == f"{table_path}/{name}"


@examples(100)
@given(st.lists(st.text(st.sampled_from("ab%2fF5:+~é\u00a0 /.?#"), max_size=9), max_size=6))
def test_uris_of_a_log_checkpoint_have_the_paths_that_they_have_in_a_commit(uris: list[str]) -> None:
    def path(uri: str) -> str | None:
        try:
            return file_path(uri, "log")
        except MalformedLogError:
            return None

    for right in (True, False):
        chosen = [uri for uri in uris if (path(uri) is not None) == right]
        if right or not chosen:
            found = file_paths(pa.chunked_array([chosen], pa.string()), "log").to_pylist()
            assert found == [path(uri) for uri in chosen]
        else:
            with pytest.raises(MalformedLogError):
                file_paths(pa.chunked_array([chosen], pa.string()), "log")


CHANGES = st.lists(
    st.dictionaries(st.integers(0, 15), st.booleans(), min_size=1, max_size=5), min_size=1, max_size=6
)
"""Commits, each of numbers of URIs and whether it adds them."""


@examples(10)
@given(commits=CHANGES, at=st.integers(0, 6), form=st.sampled_from(FORMS))
def test_any_order_of_adds_and_removes_of_spellings_is_reconciled_as_deltalake_does(
    commits: list[dict[int, bool]], at: int, form: tuple[str, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(f"{folder}/t")
        warm = open_table(log.made.path)
        for number, commit in enumerate(commits):
            log.commit(*((log.uris[uri], adds) for uri, adds in commit.items()))
            if number == at:
                log.checkpoint(*form)
            for table in (warm, open_table(log.made.path)):
                files = table.snapshot().files
                found = Counter(table.storage.resolve(slice_.path) for slice_ in files)
                assert found == Counter(f"{log.made.path}/{unquote(uri)}" for uri in log.live)
            assert rows_of(log.made.path) == by_deltalake(log.made.path) == 10 * len(log.live)


@examples(6)
@given(commits=CHANGES, cuts=st.sets(st.integers(0, 6)))
def test_an_index_that_follows_any_order_of_spellings_is_that_of_the_head(
    commits: list[dict[int, bool]], cuts: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(f"{folder}/t")
        log.commit(*((uri, True) for uri in log.uris[::2]))
        drive = Drive(log.made.path, f"{folder}/i", ["s"])
        drive.drain()
        for number, commit in enumerate(commits):
            log.commit(*((log.uris[uri], adds) for uri, adds in commit.items()))
            if number in cuts:
                drive.drain()
        drive.drain()
        recorded = MetadataTable.open(f"{folder}/i").state.recorded.live()
        assert {r.path for r in recorded} == {s.path for s in open_table(log.made.path).snapshot().files}
        opened = tailbit.open(log.made.path, index=f"{folder}/i")
        assert opened.verify().sound
        assert opened.where("true").count() == 10 * len(log.live)
        assert opened.where("s = 'x'").count() == 5 * len(log.live)
        assert opened.where("s = 'x' AND a > 5").count() == 2 * len(log.live)


def test_an_index_that_recorded_a_spelling_under_its_decoded_path_follows_its_removal(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled = spellings(ON_DISK[0])[1]
    log.commit((spelled, True), (log.uris[4], True))
    drive = Drive(log.made.path, str(tmp_path / "i"), ["s"])
    with monkeypatch.context() as earlier:
        earlier.setattr("tailbit.tables.delta.actions.file_path", decode_path)
        drive.drain()
    drive = Drive(log.made.path, str(tmp_path / "i"), ["s"])
    log.commit((spelled, False))
    drive.drain()
    opened = tailbit.open(log.made.path, index=str(tmp_path / "i"))
    assert opened.verify().sound
    assert opened.where("true").count() == 10
    assert opened.where("s = 'x'").facets("s") == {"x": 5}


def test_an_index_keeps_a_file_of_which_a_commit_removes_another_spelling(log: Log, tmp_path: Path) -> None:
    usual, every, *_ = spellings(ON_DISK[1])
    log.commit((usual, True))
    drive = Drive(log.made.path, str(tmp_path / "i"), ["s"])
    drive.drain()
    log.commit((every, False))
    drive.drain()
    opened = tailbit.open(log.made.path, index=str(tmp_path / "i"))
    assert opened.verify().sound
    assert opened.where("true").count() == 10


def test_a_view_of_a_file_with_an_unusual_spelling_reads_it(log: Log, tmp_path: Path) -> None:
    log.commit(*((uri, True) for uri in spellings(ON_DISK[1])[1:3]))
    tailbit.open(log.made.path).where("a < 3").to_delta(str(tmp_path / "view"))
    assert by_deltalake(str(tmp_path / "view")) == 6
