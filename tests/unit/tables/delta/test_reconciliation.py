"""Logical files of a Delta log, path and deletion vector: which are live after any adds and removes."""

from __future__ import annotations

import tempfile
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.delta_builder import Action, DeltaBuilder
from support.drive import Drive
from support.profiles import examples
from tailbit.errors import LiveTwiceError, MalformedLogError
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table

ROWS = pa.table({"a": list(range(10)), "s": ["x", "y"] * 5})
FORMS = [("classic", 1), ("multipart", 3), ("v2-json", 2), ("v2-parquet", 2)]


class Log:
    """A hand-made log over a few files; `live` is what reconciliation leaves of its actions."""

    def __init__(self, path: str, files: int = 1) -> None:
        self.made = DeltaBuilder(path).create(ROWS.schema, features=["deletionVectors", "v2Checkpoint"])
        written = [self.made.data_file(ROWS, f"f {n}.parquet")["add"] for n in range(min(files, 2))]
        more = ({**written[0], "path": f"f%20{n}.parquet"} for n in range(2, files))
        self.files = [*written, *more]
        pairs = [(rows, self.made.inline_vector(rows)) for rows in ([4], [4, 8], [1, 2, 3])]
        stored = self.made.stored_vectors([0], [0, 5, 6], prefix="v")
        self.vectors: list[Action | None] = [None, *(vector for _, vector in pairs), *stored]
        self.hidden = [0, 1, 2, 3, 1, 3]
        self.live: dict[tuple[int, int], Action] = {}

    def add(self, vector: int = 0, file: int = 0) -> Action:
        """The add of a file with the vector of a number; 0: without."""
        return {"add": self._with(self.files[file], vector)}

    def remove(self, vector: int = 0, file: int = 0) -> Action:
        """The remove of a file with the vector of a number, live or not."""
        body = {"path": self.files[file]["path"], "deletionTimestamp": 1, "dataChange": True}
        return {"remove": self._with(body, vector)}

    def _with(self, body: Action, vector: int) -> Action:
        descriptor = self.vectors[vector]
        return dict(body) if descriptor is None else {**body, "deletionVector": descriptor}

    def commit(self, *actions: Action) -> int:
        """Write a commit; its removes count before its adds, which name other logical files."""
        for action in actions:
            if "remove" in action:
                self.live.pop(self._key(action["remove"]), None)
        for action in actions:
            if "add" in action:
                self.live[self._key(action["add"])] = action["add"]
        return self.made.commit(actions)

    def _key(self, body: Action) -> tuple[int, int]:
        return int(body["path"][4:-8]), self.vectors.index(body.get("deletionVector"))

    def checkpoint(self, form: str = "classic", parts: int = 1) -> None:
        """Write a log checkpoint of what is live, and drop the commits before it."""
        self.made.live = {str(key): add for key, add in self.live.items()}
        self.made.checkpoint(form, parts)
        for version in range(self.made.version):
            (self.made.log / f"{version:020d}.json").unlink(missing_ok=True)

    @property
    def rows(self) -> int:
        """The visible rows of all live logical files."""
        return sum(10 - self.hidden[vector] for _, vector in self.live)

    @property
    def twice(self) -> bool:
        """Whether a path is live more than once."""
        return max(Counter(file for file, _ in self.live).values(), default=0) > 1


@pytest.fixture
def log(table_path: str) -> Log:
    made = Log(table_path)
    made.commit(made.add())
    return made


def rows_of(path: str) -> int:
    """The visible rows of the head, by a scan without an index."""
    table = open_table(path)
    files = table.snapshot().files
    hidden = [0 if s.hidden is None else len(s.hidden.read(table.storage)) for s in files]
    return 10 * len(files) - sum(hidden)


def by_deltalake(path: str) -> int:
    """The rows of the head as deltalake counts them."""
    found = QueryBuilder().register("t", DeltaTable(path)).execute("select count(*) as n from t")
    return int(pa.table(found)["n"][0].as_py())


def test_a_remove_of_a_file_without_its_vector_leaves_the_file_with_its_vector_live(log: Log) -> None:
    log.commit(log.remove(), log.add(1))
    log.commit(log.remove())
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 9


def test_a_remove_of_a_former_vector_leaves_the_present_one_live(log: Log) -> None:
    log.commit(log.remove(), log.add(5))
    log.commit(log.remove(5), log.add(4))
    log.commit(log.remove(5))
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 9


def test_a_change_of_hidden_rows_in_two_commits_is_refused_between_them_and_read_after_them(log: Log) -> None:
    warm = open_table(log.made.path)
    warm.snapshot()
    log.commit(log.add(2))
    assert by_deltalake(log.made.path) == 18
    for table in (warm, open_table(log.made.path)):
        with pytest.raises(LiveTwiceError, match=r"at version 2: f 0\.parquet is live twice"):
            table.snapshot()
    log.commit(log.remove())
    assert list(warm.snapshot().files) == list(open_table(log.made.path).snapshot().files)
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 8


def test_a_commit_may_remove_a_path_with_several_vectors(log: Log) -> None:
    log.commit(log.add(1))
    log.commit(log.remove(), log.add(3), log.remove(1))
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 7


def test_a_commit_that_adds_a_path_with_two_vectors_is_refused_until_one_is_removed(log: Log) -> None:
    log.commit(log.remove(), log.add(1), log.add(5))
    with pytest.raises(LiveTwiceError):
        open_table(log.made.path).snapshot()
    log.commit(log.remove(1))
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 7


def test_vectors_of_one_file_at_different_offsets_are_different_logical_files(log: Log) -> None:
    log.commit(log.remove(), log.add(4))
    log.commit(log.remove(5))
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 9


def test_a_commit_that_adds_and_removes_one_logical_file_is_malformed(log: Log) -> None:
    log.commit(log.add(1), log.remove(1))
    with pytest.raises(MalformedLogError, match="adds and removes"):
        open_table(log.made.path).snapshot()


@pytest.mark.parametrize(("form", "parts"), FORMS)
def test_a_checkpoint_that_holds_a_path_twice_is_refused_until_a_commit_removes_one(
    log: Log, form: str, parts: int
) -> None:
    log.commit(log.remove(), log.add(1))
    log.commit(log.add(5))
    log.checkpoint(form, parts)
    with pytest.raises(LiveTwiceError):
        open_table(log.made.path).snapshot()
    log.commit(log.remove(1))
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 7
    (slice_,) = open_table(log.made.path).snapshot().files
    assert slice_.rows == 10


@pytest.mark.parametrize(("form", "parts"), FORMS)
def test_a_remove_after_a_checkpoint_names_the_vector_that_the_checkpoint_holds_or_nothing(
    log: Log, form: str, parts: int
) -> None:
    log.commit(log.remove(), log.add(4))
    log.checkpoint(form, parts)
    log.commit(log.remove())
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 9
    log.commit(log.remove(4))
    assert rows_of(log.made.path) == by_deltalake(log.made.path) == 0


def test_many_changes_at_once_are_reconciled_as_a_few_are(table_path: str) -> None:
    log = Log(table_path, files=3000)
    log.commit(*(log.add(n % 3, n) for n in range(3000)))
    log.checkpoint()
    before = rows_of(table_path)
    log.commit(*(log.remove(5, n) for n in range(3000)))
    assert rows_of(table_path) == before == log.rows
    log.commit(*(log.add(5, n) for n in range(2500)), *(log.remove(n % 3, n) for n in range(2500)))
    assert rows_of(table_path) == log.rows
    log.commit(log.add(0, 2501), *(log.remove(5, n) for n in range(2500)))
    with pytest.raises(LiveTwiceError):
        open_table(table_path).snapshot()


COMMITS = st.lists(
    st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 5)), min_size=1, max_size=5),
    min_size=1,
    max_size=6,
)
"""Commits of (add or remove, file, vector)."""


def drawn(log: Log, commit: list[tuple[bool, int, int]]) -> list[Action]:
    """The actions of a drawn commit: the first that names a logical file counts."""
    first: dict[tuple[int, int], bool] = {}
    for adds, file, vector in commit:
        first.setdefault((file, vector), adds)
    return [log.add(v, f) if adds else log.remove(v, f) for (f, v), adds in first.items()]


@examples(25)
@given(commits=COMMITS, at=st.integers(0, 6), form=st.sampled_from(FORMS))
def test_any_order_of_adds_and_removes_is_reconciled_as_deltalake_does_or_refused(
    commits: list[list[tuple[bool, int, int]]], at: int, form: tuple[str, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(f"{folder}/t", files=2)
        warm = open_table(log.made.path)
        warm.snapshot()
        for number, commit in enumerate(commits):
            log.commit(*drawn(log, commit))
            if number == at:
                log.checkpoint(*form)
            for table in (warm, open_table(log.made.path)):
                if log.twice:
                    with pytest.raises(LiveTwiceError):
                        table.snapshot()
                    continue
                expected = {(log.files[f]["path"], v) for f, v in log.live}
                assert len(table.snapshot().files) == len(expected)
            if not log.twice:
                assert rows_of(log.made.path) == by_deltalake(log.made.path) == log.rows


@examples(12)
@given(commits=COMMITS, cuts=st.sets(st.integers(0, 6)))
def test_an_index_that_follows_any_order_of_adds_and_removes_is_that_of_the_head(
    commits: list[list[tuple[bool, int, int]]], cuts: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(f"{folder}/t", files=2)
        log.commit(log.add(0, 0), log.add(1, 1))
        drive = Drive(log.made.path, f"{folder}/i", ["s"])
        drive.drain()
        for number, commit in enumerate(commits):
            log.commit(*drawn(log, commit))
            if number in cuts and not log.twice:
                drive.drain()
        if log.twice:
            with pytest.raises(LiveTwiceError):
                drive.drain()
            log.commit(*(log.remove(v, f) for f, v in list(log.live)[:-1]))
        drive.drain()
        files = open_table(log.made.path).snapshot().files
        records = MetadataTable.open(f"{folder}/i").state.recorded.live()
        assert {r.path: r.hidden for r in records} == {s.path: s.hidden_id for s in files}
        opened = tailbit.open(log.made.path, index=f"{folder}/i")
        assert opened.verify().sound
        assert opened.where("true").count() == log.rows
