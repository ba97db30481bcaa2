"""An answer as an Arrow stream: other libraries take it as it is, and read what pyarrow reads of it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder, schema_json
from support.every_feature import CASES, HIDDEN, every_feature
from support.rows import canonical
from support.tables import EVERY_TYPE, PLAIN_TYPES
from tailbit.errors import DataFileError
from tailbit.outputs.frames import BATCH_ROWS, batch_reader, facet_table


def written() -> pa.Table:
    """The visible rows of the table, as they were before they were written."""
    more = EVERY_TYPE.set_column(0, "id", pa.array(range(6, 12), pa.int64()))
    rows = pa.concat_tables([EVERY_TYPE, more])
    rows = rows.append_column("part", pa.array(["a b"] * 6 + [None] * 6))
    return rows.filter(pc.invert(pc.is_in(rows["id"], pa.array(HIDDEN))))


def spelled(rows: pa.Table) -> str:
    return str([canonical(row) for row in rows.to_pylist()])


@pytest.mark.parametrize("case", CASES)
def test_an_answer_is_a_stream_of_the_rows_that_it_reads(feature_table: str, case: str) -> None:
    answer = tailbit.open(feature_table).where(CASES[case][0], version=CASES[case][1])
    assert spelled(pa.table(answer)) == spelled(answer.read())
    assert pa.table(answer).schema == answer.read().schema == pa.schema(answer)


def test_the_stream_holds_the_rows_that_were_written(feature_table: str) -> None:
    assert spelled(pa.table(tailbit.open(feature_table).where())) == spelled(written())


@pytest.mark.parametrize("case", CASES)
def test_polars_takes_an_answer_as_it_is(feature_table: str, case: str) -> None:
    answer = tailbit.open(feature_table).where(CASES[case][0], version=CASES[case][1])
    frame = pl.DataFrame(answer)
    assert frame.columns == answer.read().column_names
    assert str(frame.rows()) == str(pl.DataFrame(answer.read()).rows())
    assert frame.schema == pl.from_arrow(answer.read()).schema


@pytest.mark.parametrize("case", CASES)
def test_from_arrow_of_polars_gives_the_frame_of_an_answer_as_structs(feature_table: str, case: str) -> None:
    answer = tailbit.open(feature_table).where(CASES[case][0], version=CASES[case][1])
    structs = pl.from_arrow(answer)
    assert isinstance(structs, pl.Series)
    assert str(structs.struct.unnest().rows()) == str(pl.DataFrame(answer).rows())
    assert structs.struct.unnest().schema == pl.DataFrame(answer).schema


@pytest.mark.parametrize("case", CASES)
def test_duckdb_takes_an_answer_as_it_is(feature_table: str, case: str) -> None:
    answer = tailbit.open(feature_table).where(CASES[case][0], version=CASES[case][1])
    rows = answer.read()
    with duckdb.connect() as connection:
        connection.register("answer", answer)
        connection.register("expected", rows)
        found = connection.sql("FROM answer ORDER BY id").fetchall()
        assert str(found) == str(connection.sql("FROM expected ORDER BY id").fetchall())
    assert len(found) == answer.count()


def test_a_query_may_read_the_stream_of_an_answer_twice(feature_table: str) -> None:
    answer = tailbit.open(feature_table).where("part IS NULL")
    with duckdb.connect() as connection:
        connection.register("answer", answer)
        joined = connection.sql("SELECT count(*), sum(b.id) FROM answer a JOIN answer b USING (id)")
        assert joined.fetchall() == [(6, sum(range(6, 12)))]


def test_pandas_takes_an_answer_by_way_of_pyarrow(feature_table: str) -> None:
    frame = pa.table(tailbit.open(feature_table).where("part IS NULL")).to_pandas()
    assert frame["id"].tolist() == list(range(6, 12))


def test_types_and_nullability_of_an_answer_are_those_of_the_table(feature_table: str) -> None:
    answer = tailbit.open(feature_table).where("id > 3")
    wanted = tailbit.open(feature_table).where()._selection.schema.arrow()
    assert [field.name for field in wanted if not field.nullable] == ["id"]
    assert (
        pa.schema(answer)
        == answer.read().schema
        == answer.reader().schema
        == pa.table(answer).schema
        == wanted
    )
    assert answer.read(limit=0).schema == answer.read(order_by=["id DESC"]).schema == wanted
    assert answer.read(["place.city", "id"]).schema.field("place.city").nullable


@pytest.mark.parametrize("columns", [["id"], ["id", "tags"]])
def test_a_null_in_a_column_that_is_declared_to_have_none_is_given_out(
    tmp_path: Path, columns: list[str]
) -> None:
    rows = pa.table({"id": pa.array([1, None], pa.int64()), "tags": [["a"], None]})
    schema = schema_json(rows.schema)
    schema["fields"][0]["nullable"] = False
    builder = DeltaBuilder(str(tmp_path / "t")).create(schema)
    builder.commit([builder.data_file(rows)])
    found = tailbit.open(builder.path).where().read(columns)
    assert found["id"].to_pylist() == [1, None]
    assert not found.schema.field("id").nullable


def test_a_data_file_that_is_gone_is_named_by_whoever_reads_the_stream(tmp_path: Path) -> None:
    builder = every_feature(str(tmp_path / "table"))
    answer = tailbit.open(builder.path).where()
    Path(builder.path, "f1.parquet").unlink()
    with pytest.raises(pa.ArrowInvalid, match=r"f1\.parquet"):
        pa.table(answer)
    with pytest.raises(DataFileError, match=r"f1\.parquet"):
        batch_reader(*answer.stream()).read_all()


def test_no_batch_of_a_stream_is_longer_than_the_bound() -> None:
    rows = pa.table({"k": pa.array(range(BATCH_ROWS + 1), pa.int32())})
    assert [len(batch) for batch in batch_reader(rows.schema, [rows])] == [BATCH_ROWS, 1]


def test_a_table_of_the_stream_is_asked_for_when_its_rows_are() -> None:
    rows, asked = pa.table({"k": [1]}), []

    def tables():  # type: ignore[no-untyped-def]
        for n in range(3):
            asked.append(n)
            yield rows

    stream = batch_reader(rows.schema, tables())
    assert asked == []
    stream.read_next_batch()
    assert asked == [0]


NESTED = {
    "struct in struct": [{"a": {"b": n}} for n in range(8)],
    "struct in list": [[{"a": n}] for n in range(8)],
    "struct in struct in list": [{"a": [{"b": n}]} for n in range(8)],
}


@pytest.mark.parametrize("case", NESTED)
def test_duckdb_takes_nested_columns_of_rows_that_begin_within_an_array(case: str) -> None:
    rows = pa.table({"v": NESTED[case]})[3:6]
    reader = batch_reader(rows.schema, [rows])
    with duckdb.connect() as connection:
        assert connection.from_arrow(reader).fetchall() == [(value,) for value in NESTED[case][3:6]]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("facets") / "table")
    write_deltalake(path, EVERY_TYPE)
    return path


@pytest.mark.parametrize("column", PLAIN_TYPES)
def test_values_keep_the_type_and_order_of_the_facets(table: str, column: str) -> None:
    answer = tailbit.open(table).where()
    found, facets = answer.facet_table(column), answer.facets(column)
    assert found.schema == pa.schema([(column, EVERY_TYPE.schema.field(column).type), ("count", pa.int64())])
    assert str(found[column].to_pylist()) == str(list(facets))
    assert found["count"].to_pylist() == list(facets.values())


@pytest.mark.parametrize(
    ("type_", "numbers"),
    [
        (pa.date32(), [3_000_000, 0, -3_000_000, None]),
        (pa.timestamp("us", "UTC"), [2**62, 0, -(2**61), None]),
        (pa.timestamp("us"), [2**62, 1, -(2**61), None]),
    ],
)
def test_dates_and_times_outside_of_pythons_calendar_are_dates_and_times(
    tmp_path: Path, type_: Any, numbers: list[int | None]
) -> None:
    stored = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    values = pa.array(numbers, stored).cast(type_)
    write_deltalake(tmp_path, pa.table({"v": values}))
    found = tailbit.open(tmp_path).where().facet_table("v")["v"].cast(stored).to_pylist()
    assert sorted(found, key=str) == sorted(numbers, key=str)


def test_no_facets_are_an_empty_table_of_the_same_columns(table: str) -> None:
    assert tailbit.open(table).where("id > 99").facet_table("price").to_pydict() == {"price": [], "count": []}


def test_several_columns_have_their_values_side_by_side() -> None:
    columns = [pa.field("a", pa.string()), pa.field("d", pa.date32())]
    day = datetime.date(2013, 1, 1)
    found = facet_table(columns, {("x", day): 2, (None, None): 1})
    assert found.to_pydict() == {"a": ["x", None], "d": [day, None], "count": [2, 1]}
    assert facet_table(columns, {}).num_rows == 0


def test_a_column_named_count_is_told_from_the_counts() -> None:
    assert facet_table([pa.field("Count", pa.int64())], {7: 1}).column_names == ["`Count`", "count"]
