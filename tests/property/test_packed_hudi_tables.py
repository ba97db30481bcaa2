"""Real Hudi tables of both types: what Hudi's own Spark read at each instant, tailbit answers.

The truth was recorded by Spark right after each instant; DuckDB judges conditions over it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailbit
from support.drive import Drive
from support.hudi import HudiInstant, HudiTable, packed_names, unpack
from support.hudi_claims import claimed
from support.hudi_states import changes, replayed
from support.iceberg import counted
from tailbit.tables.open import open_source

ALL = packed_names()
FOLLOWED = (
    *("cow_v6_archived", "cow_v6_clustered", "cow_v6_late", "cow_v8_restored", "cow_v9_bucket"),
    *("cow_v9_cleaned", "cow_v9_columns", "cow_v9_late", "cow_v9_moving", "cow_v9_upgraded"),
    *("mor_v6", "mor_v6_conflict", "mor_v6_late_compaction", "mor_v8", "mor_v9_cleaned", "mor_v9_columns"),
    *("mor_v9_event_time", "mor_v9_late", "mor_v9_late_compaction", "mor_v9_log_only", "mor_v9_replaced"),
    *("mor_v9_sql", "mor_v9_partial", "mor_v9_nonblocking_commit_time", "mor_v9_duplicates"),
    *("cow_v9_promoted", "mor_v9_log_compaction"),
)
TYPES = ("cow_v6_types", "cow_v9_types", "mor_v9_types")
KINDS = {
    **dict.fromkeys(TYPES, "types"),
    **dict.fromkeys(("cow_v9_promoted", "mor_v9_promoted"), "promoted"),
    "cow_v9_null_folders": "folders",
    "cow_v6_units": "units",
}
"""The kind of conditions of the tables that are not of orders."""
CONDITIONS = {
    "orders": (
        "id < 7",
        "city = 'Lima'",
        "city IS NULL OR qty >= 2",
        "part = 'p1' AND NOT qty = 1",
        "city IN ('Oslo', 'Pune') AND id % 3 = 1",
    ),
    "folders": ("v IS NULL", "w IS NULL AND id > 2", "v = '' OR w = 'x'", "NOT v = 'x'"),
    "units": (
        "moment >= TIMESTAMP '2024-01-01 00:00:00+00'",
        "moment < TIMESTAMP '1970-02-01 00:00:00+00' OR id = 8",
        "city = 'Oslo' AND NOT id < 2",
    ),
    "promoted": (
        "i_f = 16777216 OR l_f = 9007199254740992",
        "l_d > 9007199254740992",
        "f_d > 0.05 AND f_d < 0.2 OR i_d IS NULL",
        "CAST(i_s AS STRING) = '7' OR CAST(l_s AS STRING) >= '9007199254740993'",
        "CAST(s_b AS STRING) = 'x' AND id > 4",
    ),
    "types": (
        "a_bool",
        "an_int >= 0",
        "a_text = 'ä' OR a_text = ''",
        "a_day = DATE '2000-02-28'",
        "middle > 12345678901233.1",
        "small < 0 AND a_moment IS NOT NULL",
        "NOT a_float > 2",
        "place.city = 'c1'",
    ),
}


def conditions(table: HudiTable, instant: HudiInstant) -> list[str]:
    names = {*table.rows(instant).column_names}
    own = CONDITIONS[KINDS.get(table.name, "orders")]
    words = {condition: {*condition.replace("'", " ").split()} for condition in own}
    return [c for c in own if {"id", "city", "qty", "part"} & words[c] <= names]


def indexed_columns(table: HudiTable, instant: HudiInstant) -> list[str]:
    schema = table.rows(instant).schema
    plain = [f.name for f in schema if not pa.types.is_nested(f.type) and f.name != "_hoodie_commit_seqno"]
    return [*plain, "place.city"] if "place" in schema.names else plain


def check_whole(opened: tailbit.IndexedTable, table: HudiTable, instant: HudiInstant) -> None:
    """Compare all rows at an instant with those that Spark read."""
    truth, whole = table.rows(instant), opened.where(version=instant.requested)
    assert whole.version_name == instant.requested
    assert whole.count() == len(truth)
    assert counted(whole.read()) == counted(truth)


def check_conditions(
    opened: tailbit.IndexedTable, table: HudiTable, instant: HudiInstant, most: int = 99
) -> None:
    """Compare what conditions select at an instant with what DuckDB selects of the rows that Spark read."""
    truth = table.rows(instant)
    column = "city" if "city" in truth.column_names else "a_text"
    facets = opened.where(version=instant.requested).facets(column)
    assert facets == Counter(truth[column].to_pylist())
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("truth", truth)
        for condition in conditions(table, instant)[:most]:
            answer = opened.where(condition, version=instant.requested)
            places = _places(engine, condition)
            assert answer.count() == len(places), condition
            assert counted(answer.read()) == counted(truth.take(places)), condition


def _places(engine: duckdb.DuckDBPyConnection, condition: str) -> pa.Array:
    """Return the numbers of the rows of the truth where a condition is TRUE."""
    numbered = "(SELECT *, row_number() OVER () - 1 AS row_of_truth FROM truth)"
    selected = engine.sql(f"SELECT row_of_truth FROM {numbered} WHERE {condition} ORDER BY 1")
    return selected.to_arrow_table()["row_of_truth"].combine_chunks()


def check_positions(opened: tailbit.IndexedTable, table: HudiTable) -> None:
    """Compare the rows at the positions of answers, as pyarrow reads them, with the rows of the answers."""
    instant, storage = changes(table)[-1], open_source(table.path, ".hoodie")
    key = "_hoodie_record_key"
    if key not in table.rows(instant).column_names:
        return
    for condition in conditions(table, instant):
        answer, keys = opened.where(condition), []
        for path, places in answer.positions().items():
            with storage.open(storage.resolve(path)) as source:
                file = pq.ParquetFile(source).read([key])
            keys += file[key].take(pa.array(list(places), pa.int64())).to_pylist()
        assert Counter(keys) == Counter(answer.read([key])[key].to_pylist())


@pytest.mark.by_thirds
@pytest.mark.parametrize("name", [claimed(name) for name in ALL])
def test_every_readable_instant_is_answered_by_scan_and_by_an_index_built_in_one_go(
    name: str, tmp_path: Path
) -> None:
    table = unpack(name, tmp_path)
    newest, bare = changes(table)[-1], tailbit.open(table.path)
    for instant in changes(table):
        check_whole(bare, table, instant)
    check_conditions(bare, table, newest, most=2)
    Drive(table.path, tmp_path / "index", indexed_columns(table, newest)).drain()
    opened = tailbit.open(table.path, tmp_path / "index")
    assert opened.verify().sound
    for instant in changes(table):
        check_conditions(opened, table, instant, most=99 if instant == newest else 2)
    check_positions(opened, table)
    for condition in conditions(table, newest):
        assert opened.where(condition).files_scanned == 0


@pytest.mark.by_thirds
@pytest.mark.parametrize("name", FOLLOWED)
def test_an_index_that_follows_is_right_at_each_instant_and_so_is_one_that_lags_by_one(
    name: str, tmp_path: Path
) -> None:
    table = unpack(name, tmp_path)
    states = replayed(table)
    columns = indexed_columns(table, next(states))
    follows, lags = (Drive(table.path, tmp_path / kind, columns) for kind in ("follows", "lags"))
    lags.drain()
    for instant in states:
        follows.drain()
        for kind in ("follows", "lags"):
            opened = tailbit.open(table.path, tmp_path / kind)
            check_whole(opened, table, instant)
            check_conditions(opened, table, instant, most=2)
        lags.drain()
        followed = tailbit.open(table.path, tmp_path / "follows")
        assert followed.where().covered_version == followed.where().version
    assert tailbit.open(table.path, tmp_path / "follows").verify().sound
    assert not [*(tmp_path / "hidden").iterdir()]
