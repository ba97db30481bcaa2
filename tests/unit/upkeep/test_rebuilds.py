"""REBUILD after the table has changed: renamed and widened columns, partitions, damaged postings."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder, field_json
from support.drive import Drive
from support.tables import half_built, index_of, rows, three_commits
from tailbit.errors import NoIndexError, UnknownColumnError
from tailbit.index.kinds.kind import kind_of
from tailbit.index.maintenance.rebuild import rebuild
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table
from tailbit.upkeep.status import status_of
from tailbit.upkeep.table import MaintainedTable

BY_NAME = {"delta.columnMapping.mode": "name"}
CITY, SIZE, PART, TAGS = pa.string(), pa.int32(), pa.string(), pa.list_(pa.string())
DATA = {"one": CITY, "two": SIZE, "four": TAGS}
NAMES = {"city": ("one", CITY), "size": ("two", SIZE), "p": ("three", PART), "tags": ("four", TAGS)}


def schema_of(names: dict[str, tuple[str, pa.DataType]]) -> dict[str, object]:
    ids = {"delta.columnMapping.id": 1}
    fields = [
        field_json(pa.field(name, type_), **ids, **{"delta.columnMapping.physicalName": physical})
        for name, (physical, type_) in names.items()
    ]
    return {"type": "struct", "fields": fields}


def renamed(table: DeltaBuilder, **later: str) -> None:
    """Commit the schema with other names for some columns."""
    names = {later.get(name, name): column for name, column in NAMES.items()}
    partition = [later.get("p", "p")]
    table.commit([{"metaData": table.metadata_action(schema_of(names), partition, BY_NAME, "t")}])


def add_file(table: DeltaBuilder, first: int, part: str) -> None:
    rows = range(first, first + 20)
    cities = [None if n % 7 == 0 else f"City{n % 4}" for n in rows]
    columns = {"one": cities, "two": [n % 5 for n in rows], "four": [[f"t{n % 3}", "all"] for n in rows]}
    data = pa.table(columns, pa.schema(list(DATA.items())))
    table.commit([table.data_file(data, partition={"three": part})])


def rows_of_city1(rows: range, odd: bool = False) -> int:
    """How many of some rows are of City1; with `odd` those with an odd size."""
    return sum(n % 4 == 1 and n % 7 != 0 and (not odd or n % 5 % 2 == 1) for n in rows)


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    """Two partitions of a file of 20 rows each."""
    builder = DeltaBuilder(str(tmp_path / "t"))
    builder.create(schema_of(NAMES), ["p"], BY_NAME, features=["columnMapping"])
    add_file(builder, 0, "a")
    add_file(builder, 20, "b")
    return builder


@pytest.mark.parametrize(
    ("on", "question", "terms"),
    [
        ("lower(city)", "lower(town) = 'city1'", ("lower(city)",)),
        (["city", "size % 2"], "town = 'City1' AND number % 2 = 1", ("town", "size % 2")),
        ("city", "town = 'City1'", ("city",)),
    ],
)
def test_an_index_is_rebuilt_after_its_columns_were_renamed(
    table: DeltaBuilder, on: str | list[str], question: str, terms: tuple[str, ...]
) -> None:
    opened = tailbit.open(table.path)
    opened.create_index("i", on)
    renamed(table, city="town", size="number")
    after = opened.rebuild_index("i")
    assert (after.state, after.terms) == ("complete", terms)
    add_file(table, 40, "a")
    opened.rebuild_index("i")
    answer = opened.where(question)
    assert (answer.count(), answer.files_scanned) == (rows_of_city1(range(60), "%" in question), 0)
    assert opened.verify(derive=10).problems == []


def test_statistics_of_expressions_are_rebuilt_after_their_columns_were_renamed(table: DeltaBuilder) -> None:
    opened = tailbit.open(table.path)
    opened.create_index("i", ["size * 2", "city"], "column_stats")
    renamed(table, city="town", size="number")
    assert opened.rebuild_index("i").terms == ("size * 2", "city")
    question = opened.where("number * 2 > 8")
    assert (question.count(), question.files_scanned) == (0, 0)
    assert opened.verify().problems == []


def test_a_name_taken_by_another_column_does_not_change_what_is_rebuilt(table: DeltaBuilder) -> None:
    opened = tailbit.open(table.path)
    opened.create_index("i", "lower(city)")
    names = {"town": NAMES["city"], "size": NAMES["size"], "p": NAMES["p"], "city": ("five", CITY)}
    table.commit([{"metaData": table.metadata_action(schema_of(names), ["p"], BY_NAME, "t")}])
    opened.rebuild_index("i")
    answer = opened.where("lower(town) = 'city1'")
    assert (answer.count(), answer.files_scanned) == (rows_of_city1(range(40)), 0)
    assert opened.where("lower(city) = 'city1'").count() == 0


def test_a_rebuild_over_a_column_that_is_gone_names_the_column_and_changes_nothing(
    table: DeltaBuilder,
) -> None:
    opened = tailbit.open(table.path)
    opened.create_index("i", "lower(city)")
    opened.create_index("c", "city")
    before = MetadataTable.open(f"{table.path}/_tailbit").state.settings
    names = {name: column for name, column in NAMES.items() if name != "city"}
    table.commit([{"metaData": table.metadata_action(schema_of(names), ["p"], BY_NAME, "t")}])
    for name in ("i", "c"):
        with pytest.raises(UnknownColumnError, match="no column city"):
            opened.rebuild_index(name)
    assert MetadataTable.open(f"{table.path}/_tailbit").state.settings == before


def test_a_rebuilt_index_keeps_its_place_among_the_indexes(table: DeltaBuilder) -> None:
    opened = tailbit.open(table.path)
    for name, on in (("i", "lower(city)"), ("c", "city"), ("j", ["city", "size"]), ("k", "size + 1")):
        opened.create_index(name, on)
    for name in ("i", "j", "c"):
        assert opened.rebuild_index(name).state == "complete"
        assert [index.name for index in opened.indexes()] == ["i", "c", "j", "k"]


@pytest.mark.parametrize("kind", ["bitmap", "column_stats"])
def test_explain_advises_a_rebuild_only_where_one_is_possible(table: DeltaBuilder, kind: str) -> None:
    opened = tailbit.open(table.path)
    opened.create_index("i", "concat(city, size)", kind)
    names = {name: column for name, column in NAMES.items() if name != "city"}
    table.commit([{"metaData": table.metadata_action(schema_of(names), ["p"], BY_NAME, "t")}])
    (told,) = opened.where("size = 3").explain()["not_used"]
    assert told["reason"] == "column city is gone, so that it cannot be rebuilt: DROP INDEX"
    names["city"] = ("five", CITY)
    table.commit([{"metaData": table.metadata_action(schema_of(names), ["p"], BY_NAME, "t")}])
    (told,) = opened.where("size = 3").explain()["not_used"]
    assert told["reason"] == "column city is gone: ALTER INDEX ... REBUILD makes it anew"
    assert opened.rebuild_index("i").state == "complete"
    assert opened.where("size = 3").explain()["not_used"] == []


@pytest.mark.parametrize(
    ("on", "kind"), [("city", "bitmap"), (["city", "size"], "bitmap"), (["city", "size"], "column_stats")]
)
def test_an_index_of_a_column_that_is_gone_says_so_until_it_is_rebuilt_for_the_next_of_its_name(
    table: DeltaBuilder, on: str | list[str], kind: str
) -> None:
    opened = tailbit.open(table.path)
    assert opened.create_index("i", on, kind).changed == ""
    names = NAMES | {"city": ("five", CITY)}
    table.commit([{"metaData": table.metadata_action(schema_of(names), ["p"], BY_NAME, "t")}])
    told = "column city is gone: ALTER INDEX ... REBUILD makes it anew"
    assert [index.changed for index in (*opened.indexes(), opened.describe_index("i"))] == [told, told]
    assert opened.where("city = 'City1'").explain()["not_used"] == [{"index": "i", "reason": told}]
    assert opened.rebuild_index("i").changed == ""
    answer = opened.where("city = 'City1'")
    assert (answer.count(), answer.files_scanned, answer.explain()["not_used"]) == (0, 0, [])


def test_statistics_of_a_column_of_another_type_are_not_changed(table: DeltaBuilder) -> None:
    opened = tailbit.open(table.path)
    opened.create_index("i", ["size", "lower(city)"], "column_stats")
    names = NAMES | {"size": ("two", pa.int64())}
    table.commit([{"metaData": table.metadata_action(schema_of(names), ["p"], BY_NAME, "t")}])
    assert opened.describe_index("i").changed == ""


def test_damaged_postings_of_a_column_are_made_anew_by_rebuild_and_questions_are_right_meanwhile(
    table: DeltaBuilder,
) -> None:
    drive = index_of(table.path, ["city", "size"])
    index = MetadataTable.open(f"{table.path}/_tailbit")
    for path in [path for path in index.state.files if kind_of(path) == "bitmap_index"]:
        segment = Path(index.path, path)
        data = bytearray(segment.read_bytes())
        data[8 : len(data) // 2] = bytes(len(data) // 2 - 8)
        segment.write_bytes(data)
    assert tailbit.open(table.path).verify().problems != []
    for name in ("city", "size"):
        rebuild(index, name, open_table(table.path).snapshot().schema)
    answer = tailbit.open(table.path).where("city = 'City1'")
    assert (answer.count(), answer.files_scanned) == (rows_of_city1(range(40)), 2)
    drive.drain()
    answer = tailbit.open(table.path).where("city = 'City1'")
    assert (answer.count(), answer.files_scanned) == (rows_of_city1(range(40)), 0)
    # The damaged segments, of which no file has a claim, go with the next merges.
    tailbit.open(table.path).compact()
    assert tailbit.open(table.path).verify(derive=10).problems == []


def test_an_index_of_an_array_column_is_rebuilt(table: DeltaBuilder) -> None:
    opened = tailbit.open(table.path)
    opened.create_index("tags", "tags")
    assert opened.rebuild_index("tags").state == "complete"
    answer = opened.where("array_contains(tags, 't1')")
    assert (answer.count(), answer.files_scanned) == (13, 0)
    assert opened.verify(derive=10).problems == []


def test_an_index_of_a_part_covers_the_same_part_after_its_partition_column_was_renamed(
    table: DeltaBuilder,
) -> None:
    opened = tailbit.open(table.path)
    opened.create_index("i", "lower(city)", only="p = 'a'")
    renamed(table, p="region")
    for first, part in ((40, "a"), (60, "b")):
        add_file(table, first, part)
    index_of(table.path, None)
    live = MetadataTable.open(f"{table.path}/_tailbit").state.recorded.live()
    assert {(r.partition["three"], bool(r.built)) for r in live} == {("a", True), ("b", False)}
    assert opened.rebuild_index("i").only == "p = 'a'"
    answer = opened.where("lower(city) = 'city1' AND region = 'a'")
    inside = rows_of_city1(range(20)) + rows_of_city1(range(40, 60))
    assert (answer.count(), answer.files_scanned) == (inside, 0)
    assert opened.rebuild_index("i", only="region = 'b'").only == "p = 'a' OR region = 'b'"
    assert opened.where("lower(city) = 'city1'").files_scanned == 0
    assert opened.rebuild_index("i", only="region = 'b'").only == "p = 'a' OR region = 'b'"


@pytest.fixture
def path(table_path: str) -> str:
    return three_commits(table_path)


def test_compacting_with_an_index_of_another_table_drops_nothing(path: str) -> None:
    write_deltalake(path, rows(0), mode="overwrite")
    index_of(path, ["v"])
    elsewhere = f"{path}_2"
    for _ in range(20):
        write_deltalake(elsewhere, rows(0), mode="append")
    DeltaTable(elsewhere).create_checkpoint()
    for commit in sorted(Path(elsewhere, "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    before = sorted(
        r.path for r in MetadataTable.open(f"{path}/_tailbit").state.recorded.records() if r.space
    )
    tailbit.open(elsewhere, index=f"{path}/_tailbit").compact()
    after = sorted(r.path for r in MetadataTable.open(f"{path}/_tailbit").state.recorded.records() if r.space)
    assert before == after


def test_vacuum_and_compact_need_an_index(path: str) -> None:
    for call in (MaintainedTable.compact, MaintainedTable.vacuum, MaintainedTable.verify):
        with pytest.raises(NoIndexError):
            call(tailbit.open(path))


def test_status_in_every_state(path: str, tmp_path: Path) -> None:
    with pytest.raises(NoIndexError):
        status_of(path)
    Drive(path, f"{path}/_tailbit", ["v"])
    empty = status_of(path)
    assert (empty["state"], empty["covered_version"], empty["lag"]["versions"]) == ("empty", None, 3)
    assert (empty["columns"], empty["segments"]) == (["v"], 0)
    drive = half_built(path, ["v"])
    building = status_of(path)
    assert (building["state"], building["covered_version"], building["lag"]["versions"]) == (
        "building",
        None,
        3,
    )
    drive.drain()
    complete = status_of(path)
    assert (complete["state"], complete["covered_version"], complete["lag"]) == (
        "complete",
        2,
        {"versions": 0, "files": 0, "bytes": 0, "seconds": 0.0},
    )
    write_deltalake(path, rows(30), mode="append")
    behind = status_of(path)
    assert (behind["state"], behind["covered_version"], behind["head"]) == ("complete", 2, 3)
    assert (behind["lag"]["versions"], behind["lag"]["files"]) == (1, 1)
    elsewhere = str(tmp_path / "elsewhere")
    write_deltalake(elsewhere, rows(0))
    other = status_of(elsewhere, f"{path}/_tailbit")
    assert (other["state"], other["covered_version"], other["lag"]["versions"]) == ("other history", None, 1)
