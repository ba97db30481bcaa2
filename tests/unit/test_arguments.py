"""Every public callable with arguments of the wrong type: a UsageError by name, or what is plainly meant."""

from __future__ import annotations

import datetime
import importlib.metadata
import inspect
import os
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
import tailbit.streaming
from support.tables import index_of
from tailbit.api import to_millis
from tailbit.errors import StaleIndexError, UsageError
from tailbit.streaming.query.launch import prepare
from tailbit.upkeep.status import status_of

ODD: tuple[Any, ...] = (
    None,
    12,
    1.5,
    float("nan"),
    True,
    "a",
    "a\0b",
    "a\ud800",
    b"a",
    [1],
    [None],
    ["v"],
    {"v": 1},
    {"v"},
    datetime.date(2026, 1, 1),
    datetime.timedelta(1),
    Decimal("1.5"),
    np.float64(1.5),
    np.bool_(True),
    np.array(1),
    np.array([1, 2]),
    np.datetime64("2026-01-01"),
    pa.scalar(1),
    object(),
)
"""Values of every kind; each is of a wrong type for nearly every argument."""


DAY = datetime.date(2026, 1, 31)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten rows, indexed by v."""
    path = str(tmp_path_factory.mktemp("arguments") / "t")
    write_deltalake(path, pa.table({"k": range(10), "v": [f"v{k % 3}" for k in range(10)], "d": [DAY] * 10}))
    index_of(path, ["v"])
    return path


def prepared(path: Any, columns: Any, index: Any, checkpoint: Any, trigger: Any, storage_options: Any) -> Any:
    """What a run prepares, by the arguments that its caller gives."""
    return prepare(path, columns, index, checkpoint, trigger, storage_options)


def calls(path: str) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Every public callable with arguments that are right; each is made wrong in its turn."""
    opened = tailbit.open(path)
    answer = opened.where("v = 'v1'")
    where = {
        "where": "k = 1",
        "params": None,
        "version": None,
        "as_of": None,
        "zone": "UTC",
        "partition_zone": "UTC",
    }
    given = {"path": path, "index": None, "at_least": None, "max_staleness": None, "storage_options": None}
    yield "open", tailbit.open, given
    yield "wait_for", opened.wait_for, {"version": 0, "timeout": 0}
    yield "where", opened.where, where
    checked = {"samples": 1, "seed": 0, "progress": None}
    file = answer.files()[0]
    yield "verify", opened.verify, {**checked, "derive": 1, "files": [file], "columns": ["v"]}
    yield "repair", opened.repair, {**checked, "columns": ["v"]}
    yield "advise", opened.advise, {"queries": ["k = 1"], "seed": 0, "progress": None}
    yield "compact", opened.compact, {}
    yield "alter", opened.alter, {"add": ["v"], "drop": ()}
    yield "indexed", opened.indexed, {}
    yield "vacuum", opened.vacuum, {"older_than_hours": 1.0, "dry_run": True}
    definition: dict[str, Any] = {"name": "v", "on": "v", "kind": "bitmap", "only": None, "options": None}
    definition |= {"deferred": False, "if_not_exists": True, "zone": "UTC", "progress": None}
    yield "create_index", opened.create_index, definition
    yield "rebuild_index", opened.rebuild_index, {"name": "v", "only": None, "progress": None}
    yield "drop_index", opened.drop_index, {"name": "nothing", "if_exists": True}
    yield "indexes", opened.indexes, {}
    yield "describe_index", opened.describe_index, {"name": "v"}
    statement = {"statement": f"SHOW INDEXES FROM '{path}'", "zone": "UTC", "storage_options": None}
    yield "sql", tailbit.sql, {**statement, "index": None}
    yield "count", answer.count, {}
    yield "count of a table", opened.count, {"where": "k = ?", "params": [1]}
    measures = {"sum": "k", "min": ["v"], "max": "k", "avg": ["k"]}
    yield "facets", answer.facets, {"column": "v", **measures}
    yield "top", answer.top, {"column": "v", "n": 1}
    yield "distinct", answer.distinct, {"column": "v"}
    yield "count_distinct", answer.count_distinct, {"column": "v"}
    yield "min", answer.min, {"column": "v"}
    yield "max", answer.max, {"column": "v"}
    yield "sum", answer.sum, {"column": "k"}
    yield "avg", answer.avg, {"column": "k"}
    yield "summary", answer.summary, {"column": "v"}
    yield "histogram", answer.histogram, {"column": "k", "bins": [1, 2]}
    yield "date_histogram", answer.date_histogram, {"column": "d", "part": "day", "zone": "UTC"}
    yield "crosstab", answer.crosstab, {"rows": "v", "columns": "k"}
    yield "transitions", opened.transitions, {"column": "v", "from_version": 0, "to_version": 0}
    located = {"keys": ["a"], "on": "v", "version": None, "as_of": None, "since": None, "zone": "UTC"}
    yield "locate", opened.locate, located
    yield "bitmap_records", opened.bitmap_records, {"columns": ["v"], "version": None}
    yield "facet_table", answer.facet_table, {"column": "v", **measures}
    yield "to_delta", answer.to_delta, {"path": f"{path} {uuid.uuid4()}"}
    yield "positions", answer.positions, {}
    yield "files", answer.files, {}
    rows: dict[str, Any] = {"columns": ["v"], "limit": 1, "order_by": ["v"], "offset": 0}
    yield "read", answer.read, rows
    yield "stream", answer.stream, rows
    yield "reader", answer.reader, rows
    yield "to_arrow", answer.to_arrow, rows
    yield "to_pandas", answer.to_pandas, rows
    yield "to_polars", answer.to_polars, rows
    yield "explain", answer.explain, {"facets": ["v"], "columns": ["v"]}
    yield "status", status_of, {"path": path, "index": None, "storage_options": None}
    yield "to_millis", to_millis, {"when": "2026-01-01", "zone": "UTC"}
    yield (
        "prepare",
        prepared,
        {
            "path": path,
            "columns": ["v"],
            "index": None,
            "checkpoint": None,
            "trigger": "1s",
            "storage_options": None,
        },
    )


def public(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_the_package_has_the_names_that_it_lists_and_the_installed_version() -> None:
    assert {"open", "IndexedTable", "Answer", "Condition", "call", "col", "sql"} == public(tailbit)
    assert set(tailbit.__all__) == public(tailbit)
    assert tailbit.__version__ == importlib.metadata.version("tailbit")
    assert tailbit.streaming.__all__ == ["start"]


def test_every_public_callable_is_called_with_wrong_types(path: str) -> None:
    tried = {name for name, _, _ in calls(path)}
    for cls in (tailbit.IndexedTable, tailbit.Answer):
        methods = {n for n in public(cls) if inspect.isfunction(inspect.getattr_static(cls, n, None))}
        # It takes a session of Spark: tests/integration/test_outputs.py.
        assert methods <= tried | {"dataframe"}
    for name, function, arguments in calls(path):
        named = inspect.signature(function).parameters.values()
        assert set(arguments) == {p.name for p in named if p.kind is not p.VAR_POSITIONAL}, name
        function(**arguments)


@pytest.mark.filterwarnings("ignore:where. give the version:DeprecationWarning")
@pytest.mark.parametrize("odd", ODD, ids=[f"{n} {type(odd).__name__}" for n, odd in enumerate(ODD)])
def test_an_argument_of_the_wrong_type_is_a_usage_error_or_what_is_plainly_meant(
    path: str, odd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, function, arguments in calls(path):
        for argument in arguments:
            refused = refusal(function, {**arguments, argument: odd})
            assert refused is None or refused.hint != UsageError.hint, (name, argument)


def refusal(function: Callable[..., Any], arguments: dict[str, Any]) -> UsageError | None:
    """The error that says by name what is wrong with some arguments; None where they are taken."""
    try:
        function(**arguments)
    except UsageError as refused:
        return refused
    except StaleIndexError:
        """Taken: a version that the index does not cover."""
    return None


REFUSED: tuple[tuple[str, str, Any], ...] = (
    ("open", "path", None),
    ("open", "path", b"/data"),
    ("open", "path", 12),
    ("open", "index", 12),
    ("open", "path", "a\0b"),
    ("open", "path", "a\ud800"),
    ("where", "where", 12),
    ("where", "where", b"k = 1"),
    ("where", "params", "v1"),
    ("where", "version", "none"),
    ("where", "version", True),
    ("where", "version", 0.0),
    ("where", "version", [0]),
    ("where", "as_of", 12),
    ("where", "as_of", datetime.time(1)),
    ("where", "as_of", datetime.timedelta(1)),
    ("where", "zone", None),
    ("where", "zone", datetime.timezone.utc),
    ("where", "partition_zone", 0),
    ("where", "partition_zone", ""),
    ("read", "limit", 1.5),
    ("read", "limit", "1"),
    ("read", "limit", True),
    ("read", "limit", -1),
    ("read", "columns", "v"),
    ("read", "columns", b"v"),
    ("read", "columns", [1]),
    ("read", "columns", {"v": 1}),
    ("read", "columns", 12),
    ("read", "columns", []),
    ("stream", "columns", "v"),
    ("bitmap_records", "columns", "v"),
    ("bitmap_records", "columns", []),
    ("bitmap_records", "version", "none"),
    ("open", "at_least", "1"),
    ("open", "max_staleness", "1 h"),
    ("open", "storage_options", "AWS_REGION=x"),
    ("open", "storage_options", {"AWS_REGION": 1}),
    ("wait_for", "version", 1.5),
    ("wait_for", "timeout", "1"),
    ("wait_for", "timeout", -1),
    ("to_delta", "path", None),
    ("to_delta", "path", b"view"),
    ("facet_table", "column", None),
    ("facets", "column", None),
    ("facets", "column", ["v"]),
    ("alter", "add", "v"),
    ("alter", "drop", None),
    ("alter", "add", [None]),
    ("verify", "samples", 1.5),
    ("verify", "samples", -1),
    ("verify", "seed", "0"),
    ("verify", "progress", 12),
    ("vacuum", "older_than_hours", "1"),
    ("vacuum", "older_than_hours", None),
    ("vacuum", "older_than_hours", True),
    ("vacuum", "older_than_hours", float("nan")),
    ("vacuum", "dry_run", 1),
    ("vacuum", "dry_run", "no"),
    ("status", "path", None),
    ("prepare", "path", None),
    ("prepare", "columns", "v"),
    ("prepare", "columns", [1]),
    ("prepare", "index", 12),
    ("prepare", "checkpoint", 12),
    ("prepare", "trigger", 1),
)


@pytest.mark.parametrize(("name", "argument", "value"), REFUSED)
def test_a_wrong_argument_is_refused_with_its_name(path: str, name: str, argument: str, value: Any) -> None:
    found = {n: (function, arguments) for n, function, arguments in calls(path)}
    function, arguments = found[name]
    with pytest.raises(UsageError):
        function(**{**arguments, argument: value})


@pytest.mark.parametrize("spark", [None, "local[2]", object()])
def test_a_stream_is_started_in_a_spark_session_alone(path: str, spark: Any) -> None:
    with pytest.raises(UsageError, match="spark is"):
        tailbit.streaming.start(spark, path, columns=["v"])


def test_a_path_may_be_one_of_pathlib(path: str) -> None:
    opened = tailbit.open(Path(path), index=Path(path, "_tailbit"))
    assert opened.where("v = 'v1'").files_scanned == 0
    assert (opened.path, opened.index_path) == (path, f"{path}/_tailbit")


def test_whole_numbers_may_be_those_of_numpy(path: str) -> None:
    opened = tailbit.open(path)
    for kind in (np.int8, np.uint64, np.int64):
        assert opened.where(version=kind(0)).read(limit=kind(2)).num_rows == 2
    assert opened.verify(samples=np.int32(3), seed=np.int64(1)).sound
    assert opened.vacuum(np.float32(1), dry_run=np.bool_(True)) == []


def test_names_may_come_from_any_iterable(path: str) -> None:
    answer = tailbit.open(path).where()
    for names in (("v",), iter(["v"]), np.array(["v"]), pa.schema([("v", pa.string())]).names, {"v"}):
        assert answer.read(names).column_names == ["v"]


def test_a_date_is_its_midnight_in_the_time_zone(path: str) -> None:
    day = datetime.date(1970, 1, 2)
    assert (to_millis(day), to_millis(day, "Europe/Paris")) == (86_400_000, 82_800_000)
    moment = 1_000_000_000
    log = os.path.join(path, "_delta_log", f"{0:020d}.json")
    known = os.stat(log)
    os.utime(log, (moment, moment))
    try:
        with pytest.raises(UsageError, match="before the first"):
            tailbit.open(path).where(as_of=datetime.date(2001, 9, 9))
    finally:
        os.utime(log, ns=(known.st_atime_ns, known.st_mtime_ns))


def test_what_is_shown_of_an_answer_is_one_line(path: str) -> None:
    opened = tailbit.open(path)
    assert repr(opened.where()) == f"Answer('{path}', version=0)"
    asked = repr(opened.where("k = 1\n  OR v = 'v1'"))
    assert asked == f"""Answer('{path}', version=0, where="k = 1\\n  OR v = 'v1'")"""
    long = repr(opened.where(f"k IN ({', '.join(map(str, range(1000)))})"))
    assert len(long) < len(path) + 300
    assert long.endswith("...)")


def test_what_is_shown_of_an_open_table_is_one_line(path: str, tmp_path: Path) -> None:
    assert repr(tailbit.open(path)) == f"IndexedTable('{path}', index='{path}/_tailbit', covered_version=0)"
    write_deltalake(tmp_path / "t", pa.table({"k": [1]}))
    bare = tailbit.open(tmp_path / "t")
    assert repr(bare) == f"IndexedTable('{tmp_path}/t', index='absent', covered_version=None)"
