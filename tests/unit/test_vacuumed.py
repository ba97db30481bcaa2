"""Data files deleted after the table ceased to name them: the error says which version would work."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import VECTORS, index_of
from tailbit.answer import Answer
from tailbit.errors import DataFileError, VacuumedFileError
from tailbit.index.query.coverage import Coverage
from tailbit.index.query.selection import Selection
from tailbit.index.store.state import IndexState
from tailbit.index.write import counting
from tailbit.index.write.counting import HiddenRowsReader
from tailbit.tables.snapshot import Snapshot

QUESTIONS: dict[str, Callable[[Answer], Any]] = {
    "read": lambda answer: answer.read(),
    "stream": lambda answer: list(answer.stream()[1]),
    "count": lambda answer: answer.count(),
    "facets": lambda answer: answer.facets("k"),
    "facets of two columns": lambda answer: answer.facets("k", "v"),
    "positions": lambda answer: answer.positions(),
    "files": lambda answer: answer.files(),
    "explain": lambda answer: answer.explain(),
    "to_delta": lambda answer: answer.to_delta(Path(answer._path).parent / "view"),
}


@pytest.fixture
def vacuumed(tmp_path: Path) -> str:
    """Version 1 replaces the file of version 0, which is deleted; v is indexed."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1, 2], "v": ["a", "b"]}))
    index_of(path, ["v"])
    write_deltalake(path, pa.table({"k": [3], "v": ["a"]}), mode="overwrite")
    write_deltalake(path, pa.table({"k": [4], "v": ["a"]}), mode="append")
    index_of(path, ["v"])
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    return path


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_file_that_was_vacuumed_is_named_with_the_version_that_would_work(
    vacuumed: str, question: str
) -> None:
    with pytest.raises(VacuumedFileError, match="of version 0 is gone: from version 1 on") as gone:
        QUESTIONS[question](tailbit.open(vacuumed).where("k = 1", version=0))
    head = DeltaTable(vacuumed).version()
    assert f"version {head}" in gone.value.hint
    assert tailbit.open(vacuumed).where("k = 3", version=head).read().num_rows == 1


def test_transitions_from_or_to_a_version_that_was_vacuumed_name_the_one_that_would_work(
    vacuumed: str,
) -> None:
    for before, after in ((0, 2), (2, 0)):
        with pytest.raises(VacuumedFileError, match="of version 0 is gone: from version 1 on"):
            tailbit.open(vacuumed).transitions("k", before, after)
    assert tailbit.open(vacuumed).transitions("k", 1, 2) == {4: (0, 1)}


def test_the_index_counts_the_rows_of_a_version_whose_files_are_gone(vacuumed: str) -> None:
    assert tailbit.open(vacuumed).where("v = 'a'", version=0).count() == 1


def test_a_file_that_the_newest_version_names_is_missing_and_not_vacuumed(vacuumed: str) -> None:
    opened = tailbit.open(vacuumed)
    for file in Path(vacuumed).glob("*.parquet"):
        file.unlink()
    for version in (None, 1):
        with pytest.raises(DataFileError, match="missing") as lost:
            opened.where("k > 0", version=version).read()
        assert not isinstance(lost.value, VacuumedFileError)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tracebacks of Python 3.10 show no notes")
@pytest.mark.parametrize(
    "take", [pa.table, polars.DataFrame, lambda answer: duckdb.sql("FROM answer").arrow()]
)
def test_whoever_reads_the_stream_of_a_vacuumed_version_is_told_the_version_that_would_work(
    vacuumed: str, take: Callable[[Any], Any]
) -> None:
    with pytest.raises(Exception, match=f"Ask for version {DeltaTable(vacuumed).version()}, the newest"):
        take(tailbit.open(vacuumed).where("k = 1", version=0))


KEPT = (Snapshot, Coverage, Selection, IndexState)


def held() -> Counter[str]:
    """How many objects of the kinds that a question makes are alive."""
    gc.collect()
    return Counter(kind.__name__ for o in gc.get_objects() for kind in KEPT if isinstance(o, kind))


def test_a_handle_that_is_kept_open_holds_no_more_after_many_versions_than_after_a_few(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    builder = DeltaBuilder(str(tmp_path)).create(schema, **VECTORS)
    opened, before = None, Counter[str]()
    for n in range(32):
        rows = pa.table({"k": pa.array([n] * 3, pa.int64()), "v": [f"v{n % 5}"] * 3})
        builder.commit([builder.data_file(rows, f"f{n}.parquet")])
        if n % 10 == 0:
            index_of(tmp_path, ["v"])
        opened = opened or tailbit.open(tmp_path)
        assert opened.where(f"v = 'v{n % 5}'").count() == 3 * (n // 5 + 1)
        assert opened.where("k >= 0", version=1 + n // 2).count() == 3 * (1 + n // 2)
        if n == 15:
            before = held()
    assert held() <= before
    assert before["Snapshot"] > 0


TABLES = 20


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """Tables with an index, more than a handful."""
    paths = [str(tmp_path / f"t{number}") for number in range(TABLES)]
    for path in paths:
        write_deltalake(path, pa.table({"v": [1, 2]}))
        index_of(path, ["v"])
    return paths


def test_the_indexes_of_many_tables_stay_open_in_turns(tables: list[str]) -> None:
    first = [HiddenRowsReader(f"{path}/_tailbit").index for path in tables]
    again = [HiddenRowsReader(f"{path}/_tailbit").index for path in tables]
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_the_handles_of_sql_functions_stay_open_in_turns(tables: list[str]) -> None:
    functions = pytest.importorskip("tailbit.spark.locating")
    first = [functions.opened(path) for path in tables]
    assert all(functions.opened(path) is handle for path, handle in zip(tables, first, strict=True))


def test_indexes_that_stay_open_are_bounded_in_bytes(
    tables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = HiddenRowsReader(f"{tables[0]}/_tailbit").index
    assert index.bytes_held > 1 << 16
    limit = 3 * index.bytes_held
    monkeypatch.setattr(counting, "_OPENED", counting.Cache(limit))
    for path in tables:
        assert HiddenRowsReader(f"{path}/_tailbit").index.state.ledger is not None
    held = [opened.bytes_held for _, opened in counting._OPENED.items()]
    assert sum(held) <= limit
    assert len(held) >= 2
