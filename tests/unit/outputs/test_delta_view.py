"""An answer as a Delta table without copies: deltalake reads the rows of the answer, and nothing else."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder, field_json
from support.every_feature import CASES
from support.tables import EIGHT_FLIGHTS, eight_flights, with_vectors
from tailbit.errors import DataFileError, UnsafePathError, UsageError, ViewExistsError
from tailbit.outputs.delta_view import FIRST_COMMIT
from tailbit.tables.delta.deletion_vectors import DeletionVector, decode_z85
from tailbit.tables.delta.view import Vectors, encode_z85
from tailbit.tables.storage import LocalStorage

ALLOWED = {"allow_outside": "true"}


def scanned(view: str) -> pa.Table:
    return pa.table(deltalake.DeltaTable(view).scan())


def actions(view: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(view, FIRST_COMMIT).read_text().splitlines()]


def adds(view: str) -> list[dict[str, Any]]:
    return [action["add"] for action in actions(view) if "add" in action]


@pytest.mark.parametrize("case", CASES)
def test_deltalake_reads_of_a_view_the_rows_of_the_answer(
    feature_table: str, tmp_path: Path, case: str
) -> None:
    answer = tailbit.open(feature_table).where(CASES[case][0], version=CASES[case][1])
    view = answer.to_delta(tmp_path / "view")
    assert sorted(map(str, scanned(view).to_pylist())) == sorted(map(str, answer.read().to_pylist()))


@pytest.mark.parametrize("case", CASES)
def test_tailbit_reads_of_a_view_the_rows_of_the_answer(
    feature_table: str, tmp_path: Path, case: str
) -> None:
    answer = tailbit.open(feature_table).where(CASES[case][0], version=CASES[case][1])
    view = tailbit.open(answer.to_delta(tmp_path / "view"), storage_options=ALLOWED).where()
    assert view.count() == answer.count()
    assert str(view.read().to_pylist()) == str(answer.read().to_pylist())


def test_a_view_is_read_by_tailbit_where_files_of_another_table_are_allowed_and_the_error_says_so(
    tmp_path: Path,
) -> None:
    eight_flights(str(tmp_path / "flights"))
    view = tailbit.open(tmp_path / "flights").where("carrier = 'DL'").to_delta(tmp_path / "view")
    with pytest.raises(UnsafePathError, match="it lies outside of the table's root") as refused:
        tailbit.open(view).where().read()
    assert "views of `to_delta`" in refused.value.hint
    assert "--storage-option allow_outside=true" in refused.value.hint


def test_schema_nullability_and_partition_columns_are_those_of_the_table(
    feature_table: str, tmp_path: Path
) -> None:
    view = deltalake.DeltaTable(tailbit.open(feature_table).where().to_delta(tmp_path / "view"))
    source = deltalake.DeltaTable(feature_table)
    assert view.schema() == source.schema()
    assert not view.schema().fields[0].nullable
    assert view.metadata().partition_columns == source.metadata().partition_columns == ["part"]


def test_a_view_copies_no_data_and_names_files_without_a_match_not_at_all(tmp_path: Path) -> None:
    eight_flights(str(tmp_path / "flights"))
    view = tailbit.open(tmp_path / "flights").where("carrier = 'DL'").to_delta(tmp_path / "view")
    assert [add["path"] for add in adds(view)] == [f"file://{tmp_path}/flights/b.parquet"]
    assert not list(Path(view).glob("*.parquet"))


def test_the_log_of_the_view_says_that_bounds_are_no_longer_tight(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, EIGHT_FLIGHTS)
    view = tailbit.open(path).where("flight = 3").to_delta(tmp_path / "view")
    (add,) = adds(view)
    stats = json.loads(add["stats"])
    assert (stats["numRecords"], stats["tightBounds"]) == (8, False)
    assert (stats["minValues"]["flight"], stats["maxValues"]["flight"]) == (1, 8)
    assert add["deletionVector"]["cardinality"] == 7


def test_numbers_of_the_sources_statistics_stay_as_they_are_written(tmp_path: Path) -> None:
    low, high = "0.123456789012345678", "12345678901234567890.123456789012345678"
    values = pa.array([Decimal(low), Decimal(high)], pa.decimal128(38, 18))
    builder = DeltaBuilder(str(tmp_path / "t")).create(pa.schema([("d", values.type)]))
    add = builder.data_file(pa.table({"d": values}))
    bounds = f'"minValues":{{"d":{low}}},"maxValues":{{"d":{high}}},"nullCount":{{"d":0}}'
    add["add"]["stats"] = f'{{"numRecords":2,{bounds}}}'
    builder.commit([add])
    view = tailbit.open(builder.path).where("d > 0").to_delta(tmp_path / "view")
    [shown] = adds(view)
    assert shown["stats"] == f'{{"numRecords":2,{bounds},"tightBounds":false}}'


def test_rows_hidden_in_the_source_stay_hidden_in_the_view(tmp_path: Path) -> None:
    builder = with_vectors(str(tmp_path / "t"))
    view = tailbit.open(builder.path).where().to_delta(tmp_path / "view")
    assert sorted(scanned(view)["k"].to_pylist()) == sorted({*range(20)} - {0, 4})


def test_a_file_whose_rows_the_log_does_not_count_is_counted_by_its_footer(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path / "t")).create(EIGHT_FLIGHTS.schema)
    builder.commit([builder.data_file(EIGHT_FLIGHTS, stats=False)])
    view = tailbit.open(builder.path).where("flight > 6").to_delta(tmp_path / "view")
    assert sorted(scanned(view)["flight"].to_pylist()) == [7, 8]


def test_a_partition_time_without_a_zone_is_the_same_instant_in_the_view(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    builder = DeltaBuilder(str(tmp_path / "t")).create(schema, ["at"])
    rows = pa.table({"k": pa.array([1], pa.int64())})
    builder.commit([builder.data_file(rows, partition={"at": "2013-07-01 12:00:00"})])
    builder.commit([builder.data_file(rows, partition={"at": None})])
    answer = tailbit.open(builder.path).where(zone="America/New_York")
    found = scanned(answer.to_delta(tmp_path / "view"))["at"].to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, answer.read()["at"].to_pylist()))
    assert "2013-07-01 16:00:00+00:00" in map(str, found)


def test_what_is_for_writers_alone_is_not_demanded_by_the_view(tmp_path: Path) -> None:
    fields = [field_json(pa.field("k", pa.int64()), **{"delta.generationExpression": "1", "comment": "c"})]
    schema = {"type": "struct", "fields": fields}
    builder = DeltaBuilder(str(tmp_path / "t")).create(
        schema, features=["deletionVectors"], configuration={"delta.appendOnly": "true"}
    )
    builder.commit([builder.data_file(pa.table({"k": pa.array([1], pa.int64())}))])
    made = actions(tailbit.open(builder.path).where().to_delta(tmp_path / "view"))
    metadata = next(action["metaData"] for action in made if "metaData" in action)
    protocol = next(action["protocol"] for action in made if "protocol" in action)
    assert metadata["configuration"] == {"delta.enableDeletionVectors": "true"}
    assert "generationExpression" not in metadata["schemaString"]
    assert protocol["readerFeatures"] == ["deletionVectors"]
    assert protocol["writerFeatures"] == ["deletionVectors", "invariants"]


@pytest.mark.parametrize("there", ["a folder", "a file", "a table"])
def test_a_path_that_exists_is_refused_and_left_as_it_was(tmp_path: Path, there: str) -> None:
    eight_flights(str(tmp_path / "flights"))
    target = tmp_path / "there"
    if there == "a file":
        target.write_text("mine")
    elif there == "a folder":
        target.mkdir()
    else:
        deltalake.write_deltalake(target, pa.table({"k": [1]}))
    before = sorted(target.rglob("*")) if target.is_dir() else target.read_text()
    with pytest.raises(ViewExistsError, match="there"):
        tailbit.open(tmp_path / "flights").where().to_delta(target)
    assert (sorted(target.rglob("*")) if target.is_dir() else target.read_text()) == before


def test_a_path_inside_the_table_is_refused(tmp_path: Path) -> None:
    eight_flights(str(tmp_path / "flights"))
    with pytest.raises(UsageError, match="would lie in the table"):
        tailbit.open(tmp_path / "flights").where().to_delta(tmp_path / "flights" / "view")
    assert not (tmp_path / "flights" / "view").exists()


def test_a_path_that_a_link_leads_into_the_table_is_refused(tmp_path: Path) -> None:
    eight_flights(str(tmp_path / "flights"))
    (tmp_path / "link").symlink_to(tmp_path / "flights")
    with pytest.raises(UsageError, match="would lie in the table"):
        tailbit.open(tmp_path / "flights").where().to_delta(tmp_path / "link" / "view")
    assert not (tmp_path / "flights" / "view").exists()


def test_a_data_file_that_is_gone_is_named_and_no_view_is_left(tmp_path: Path) -> None:
    eight_flights(str(tmp_path / "flights"))
    answer = tailbit.open(tmp_path / "flights").where("carrier = 'UA'")
    os.unlink(tmp_path / "flights" / "b.parquet")
    with pytest.raises(DataFileError, match=r"b\.parquet"):
        answer.to_delta(tmp_path / "view")
    assert not (tmp_path / "view").exists()


@pytest.mark.parametrize("rows", [[0], [1, 5, 70_000], range(200_000)])
def test_a_vector_of_a_view_is_read_as_it_was_written(tmp_path: Path, rows: Any) -> None:
    vectors = Vectors()
    vectors.add(BitMap([7]))
    found = vectors.add(BitMap(rows))
    (tmp_path / vectors.name).write_bytes(vectors.data)
    vector = DeletionVector(
        found["storageType"],
        found["pathOrInlineDv"],
        found["offset"],
        found["sizeInBytes"],
        found["cardinality"],
    )
    assert vector.read(LocalStorage(str(tmp_path))) == BitMap(rows)


def test_z85_text_decodes_to_the_bytes_it_was_made_of() -> None:
    data = bytes(range(256))
    assert decode_z85(encode_z85(data)) == data
    assert encode_z85(bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])) == "HelloWorld"
