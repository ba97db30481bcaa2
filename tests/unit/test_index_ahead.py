"""A commit is covered between the listing of a table and the opening of its index, in one look at both."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.faulty_proxy import Fault, Proxy, Request
from support.hudi_builder import HudiBuilder
from tailbit.answer import Answer
from tailbit.cli.main import cli
from tailbit.tables.storage import StorageOptions, one_look, open_storage

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(first: int) -> pa.Table:
    return pa.table({"k": list(range(first, first + 10)), "v": [f"v{n % 2}" for n in range(10)]}, SCHEMA)


class DeltaWriter:
    """Commits files of ten rows to a Delta table; the last commit replaces the first file."""

    def __init__(self, path: Path) -> None:
        self._builder = DeltaBuilder(str(path)).create(SCHEMA)

    def append(self, first: int) -> None:
        self._builder.commit([self._builder.data_file(rows(first), f"f{first}.parquet")])

    def replace(self, first: int) -> None:
        old = next(iter(self._builder.live))
        gone = {"path": old, "deletionTimestamp": 1, "dataChange": True}
        self._builder.commit([{"remove": gone}, self._builder.data_file(rows(first), "new.parquet")])


class HudiWriter:
    """Commits file groups of ten rows to a Hudi table; the last commit replaces the first group."""

    def __init__(self, path: Path) -> None:
        self._builder = HudiBuilder(str(path), 9, random.Random(3))
        self._groups: list[str] = []

    def append(self, first: int, replaced: list[str] | None = None) -> None:
        action = "commit" if replaced is None else "replacecommit"
        requested = self._builder.timeline.request(action)
        self._groups.append(self._builder.new_group())
        file = self._builder.data_file(rows(first), requested, self._groups[-1], "")[0]
        operation = "insert" if replaced is None else "insert_overwrite"
        gone = None if replaced is None else {"": replaced}
        self._builder.commit(requested, [file], SCHEMA, operation, gone)

    def replace(self, first: int) -> None:
        self.append(first, self._groups[:1])


class Live:
    """A table in a store whose next commits are covered at the moment that a question opens the index."""

    def __init__(self, writer: type[DeltaWriter | HudiWriter], path: Path, root: str, direct: StorageOptions):
        self.root, self._path, self._direct = root, path, direct
        self._known: set[str] = set()
        self.writer = writer(path)
        self.writer.append(0)
        self.writer.append(10)
        self._upload()
        self.drive = Drive(root, f"{root}/_tailbit", ["v", "k"], options=direct)
        self.drive.drain()

    def _upload(self) -> None:
        """Put the files that the store does not hold yet, the log last."""
        store = open_storage(self.root, self._direct)
        names = {f.relative_to(self._path).as_posix() for f in self._path.rglob("*") if f.is_file()}
        for name in sorted(names - self._known, key=lambda n: (n.startswith(("_delta_log", ".hoodie")), n)):
            store.put(name, (self._path / name).read_bytes())
        self._known |= names

    def commit(self, *changes: Callable[[], None]) -> None:
        """Make changes, and cover them."""
        for change in changes:
            change()
        self._upload()
        self.drive.drain()

    def before_the_index(self, proxy: Proxy, *changes: Callable[[], None]) -> list[str]:
        """Commit and cover changes when the first request for the index's log arrives; what made it."""
        made: list[str] = []

        def rule(request: Request) -> Fault | None:
            log = "_tailbit/_delta_log" in request.path + request.query.replace("%2F", "/")
            with proxy.lock:
                due = log and not made
                if due:
                    made.append(str(request))
            if due:
                self.commit(*changes)
            return None

        proxy.rule = rule
        return made


@pytest.fixture(params=[DeltaWriter, HudiWriter], ids=["delta", "hudi"])
def live(request: pytest.FixtureRequest, tmp_path: Path, s3_root: str, s3_server: object) -> Live:
    direct = StorageOptions.of(s3_server.options())  # type: ignore[attr-defined]
    return Live(request.param, tmp_path / "t", s3_root, direct)


def asked(live: Live, options: dict[str, str], condition: str | None = "v = 'v1'") -> Answer:
    """An answer as the command line asks for it: table and index are opened and asked in one look."""
    with one_look():
        return tailbit.open(live.root, storage_options=options).where(condition)


def check_served(answer: Answer, rows: int) -> None:
    """Check that the answer stands on the index alone."""
    assert answer.covered_version is not None
    assert answer.count() == rows
    assert answer.files_scanned == 0


def test_a_commit_that_is_covered_before_the_index_is_opened_costs_no_scan(
    live: Live, s3: Proxy, s3_options: dict[str, str]
) -> None:
    made = live.before_the_index(s3, lambda: live.writer.append(20))
    check_served(asked(live, s3_options), 15)
    assert made


def test_several_commits_of_which_one_replaces_a_file_cost_no_scan(
    live: Live, s3: Proxy, s3_options: dict[str, str]
) -> None:
    changes = [lambda first=first: live.writer.append(first) for first in (20, 30, 40, 50, 60)]
    made = live.before_the_index(s3, *changes, lambda: live.writer.replace(70))
    check_served(asked(live, s3_options), 35)
    assert made


def test_counts_facets_and_rows_are_served_by_an_index_that_is_ahead(
    live: Live, s3: Proxy, s3_options: dict[str, str]
) -> None:
    made = live.before_the_index(s3, lambda: live.writer.append(20))
    answer = asked(live, s3_options, None)
    check_served(answer, 30)
    assert answer.facets("v") == {"v0": 15, "v1": 15}
    assert answer.read(columns=["k"]).num_rows == 30
    assert made


def test_an_older_version_is_served_by_an_index_that_is_ahead_of_the_look(
    live: Live, s3: Proxy, s3_options: dict[str, str]
) -> None:
    version = live.drive.table.head()
    made = live.before_the_index(s3, lambda: live.writer.append(20))
    with one_look():
        answer = tailbit.open(live.root, storage_options=s3_options).where("v = 'v1'", version=version)
    assert answer.version == version
    check_served(answer, 10)
    assert made


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["count", "TABLE", "v = 'v1'"], "15"),
        (["facets", "TABLE", "v"], "15"),
        (["locate", "TABLE", "25", "--on", "k"], "25"),
        (["explain", "TABLE", "v = 'v1'"], "15 rows"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_is_served_by_an_index_that_is_ahead(
    live: Live, s3: Proxy, s3_options: dict[str, str], command: list[str], expected: str
) -> None:
    made = live.before_the_index(s3, lambda: live.writer.append(20))
    options = [part for item in s3_options.items() for part in ("--storage-option", "=".join(item))]
    words = [live.root if word == "TABLE" else word for word in command]
    mark = len(s3.seen)
    done = CliRunner().invoke(cli, [*words, *options])
    assert done.exit_code == 0, done.output
    assert expected in done.output
    assert made
    read = [request for request in s3.since(mark) if request.startswith("GET") and "_tailbit" not in request]
    assert not [request for request in read if ".parquet" in request], "a data file was read"


def test_an_index_of_another_history_is_not_trusted_by_a_later_look(
    live: Live, s3: Proxy, s3_options: dict[str, str], tmp_path: Path
) -> None:
    """The table is deleted and made again, shorter, after the index has run ahead."""
    live.commit(lambda: live.writer.append(20), lambda: live.writer.append(30))
    store = open_storage(live.root, live._direct)
    for entry in store.walk():
        if not entry.name.startswith("_tailbit"):
            store.delete(entry.name)
    other = type(live)(type(live.writer), tmp_path / "other", f"{live.root}-other", live._direct)
    for entry in open_storage(other.root, live._direct).walk(skip=["_tailbit"]):
        store.put(entry.name, open_storage(other.root, live._direct).read(entry.name))
    answer = asked(live, s3_options)
    assert (answer.covered_version, answer.count()) == (None, 10)
