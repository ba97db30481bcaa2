"""Indexes by name: created over columns and expressions, asked, dropped and described."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from tailbit.api import IndexedTable
from tailbit.errors import (
    EvaluationError,
    UnknownIndexError,
)
from tailbit.index.maintenance.definitions import drop
from tailbit.index.maintenance.rebuild import rebuild
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.settings import StreamSettings
from tailbit.upkeep.status import status_of

HOURS = [dt.datetime(2024, 1, day, hour, 30, tzinfo=dt.timezone.utc) for day in (1, 2) for hour in range(24)]
CITIES = ["Rome", "rome", "ROME", "Paris", "12", None]


def rows(times: list[dt.datetime], part: str) -> pa.Table:
    return pa.table(
        {
            "city": [CITIES[n % 6] for n in range(len(times))],
            "k": pa.array(range(len(times)), pa.int32()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "part": [part] * len(times),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> IndexedTable:
    path = str(tmp_path / "trips")
    for part in ("a", "b"):
        write_deltalake(path, rows(HOURS, part), mode="append", partition_by=["part"])
    return tailbit.open(path)


def test_an_index_of_an_expression_is_made_where_there_was_none_and_serves_the_expression(
    table: IndexedTable,
) -> None:
    made = table.create_index("by_city", "lower(city)")
    assert (made.state, made.terms, made.files_left, made.indexer) == ("complete", ("lower(city)",), 0, None)
    answer = table.where("lower(city) = 'rome'")
    assert (answer.count(), answer.files_scanned) == (48, 0)
    assert table.verify().problems == []


def test_several_conditions_on_one_expression_are_asked_of_its_values(table: IndexedTable) -> None:
    table.create_index("by_city", "lower(city)")
    answer = table.where("lower(city) LIKE '%me' AND length(lower(city)) = 4 AND lower(city) <> 'paris'")
    assert (answer.count(), answer.files_scanned) == (48, 0)


@pytest.mark.parametrize(
    ("text", "condition", "made", "rows"),
    [
        ("CAST(k AS STRING)", "CAST(k AS STRING) = '7'", "UTC", 2),
        ("CAST(k AS BIGINT) + 1", "CAST(k AS BIGINT) + 1 = 7", "Europe/Berlin", 2),
        ("hour(CAST(at AS TIMESTAMP_NTZ))", "at = TIMESTAMP'2024-01-01 10:30:00Z'", "Asia/Tokyo", 2),
        ("to_date(at)", "at < TIMESTAMP'2024-01-01 10:30:00Z'", "Asia/Tokyo", 20),
    ],
)
def test_an_index_serves_in_every_time_zone_what_does_not_depend_on_it(
    table: IndexedTable, text: str, condition: str, made: str, rows: int
) -> None:
    table.create_index("i", text, zone=made)
    for zone in ("UTC", "Europe/Berlin"):
        answer = table.where(condition, zone=zone)
        explained = answer.explain()
        assert ([served["by"] for served in explained["conditions"]], explained["not_used"]) == ([["i"]], [])
        assert answer.count() == rows


@pytest.mark.parametrize(
    ("kept", "told", "asked", "at"),
    [
        ("Etc/UTC", "UTC", ("UTC", "GMT", "Z", "Etc/UTC", "+00:00", "Zulu"), 5),
        ("UTC", "UTC", ("GMT0", "Etc/GMT"), 5),
        ("UTC+5:30", "+05:30", ("+05:30", "+5:30", "GMT+0530"), 11),
        ("EST", "-05:00", ("-05:00", "Etc/GMT+5"), 0),
    ],
)
def test_an_index_serves_in_every_time_zone_of_its_offset(
    table: IndexedTable, kept: str, told: str, asked: tuple[str, ...], at: int
) -> None:
    assert table.create_index("by_hour", "hour(at)", zone=kept).zone == told
    for zone in asked:
        answer = table.where(f"hour(at) = {at}", zone=zone)
        assert (answer.count(), answer.files_scanned) == (4, 0), zone


def test_what_an_expression_implies_of_its_columns_is_rechecked(table: IndexedTable) -> None:
    table.create_index("by_city", "lower(city)")
    table.create_index("by_hour", "date_trunc('HOUR', at)")
    assert table.where("city = 'Rome'").count() == 16
    between = table.where("at >= TIMESTAMP'2024-01-01 10:10:00Z' AND at < TIMESTAMP'2024-01-01 13:00:00Z'")
    assert between.count() == 6
    whole = table.where("date_trunc('HOUR', at) = TIMESTAMP'2024-01-01 10:00:00Z'")
    assert (whole.count(), whole.files_scanned) == (2, 0)


def test_a_row_for_which_an_expression_raises_raises_in_the_question_that_asks_for_it(
    table: IndexedTable,
) -> None:
    table.create_index("numbers", "CAST(city AS INT)")
    with pytest.raises(EvaluationError, match="CAST_INVALID_INPUT"):
        table.where("CAST(city AS INT) = 12").count()
    assert table.where("CAST(city AS INT) = 12 AND city = '12'").count() == 16
    assert table.verify().problems == []


def test_an_index_follows_the_table_through_removed_files_and_hidden_rows(table: IndexedTable) -> None:
    from deltalake import DeltaTable

    table.create_index("by_city", "lower(city)")
    DeltaTable(table.path).delete("k < 6 AND part = 'a'")
    assert table.where("lower(city) = 'rome'").count() == 45
    table.repair()
    assert table.where("lower(city) = 'rome'").count() == 45


def test_an_index_of_a_part_leaves_the_other_files_to_a_scan(table: IndexedTable) -> None:
    assert table.create_index("of_a", "k", only="part = 'a'").only == "part = 'a'"
    assert table.where("k = 7").count() == 2


def test_names_are_told_dropped_and_described(table: IndexedTable) -> None:
    table.create_index("by_city", "lower(city)", options={"counts": "on"})
    table.create_index("k", "k")
    assert {index.name for index in table.indexes()} == {"by_city", "k"}
    assert table.describe_index("BY_CITY").options == {"counts": "on"}
    assert table.drop_index("by_city")
    assert not table.drop_index("by_city", if_exists=True)
    assert [index.name for index in table.indexes()] == ["k"]
    assert table.where("lower(city) = 'rome'").count() == 48


def test_a_condition_on_the_values_of_an_expression_alone_is_chosen_once(table: IndexedTable) -> None:
    table.create_index("late", "k > 40")
    of_term_alone = "length(CAST(k > 40 AS STRING)) > 2 AND k >= NULL AND (k > 40) IS TRUE"
    assert table.where(of_term_alone).count() == 0
    assert table.where(f"NOT ({of_term_alone})").count() == 82


def test_an_unknown_index_is_refused_with_those_that_there_are(table: IndexedTable) -> None:
    table.create_index("by_city", "lower(city)")
    with pytest.raises(UnknownIndexError) as refused:
        table.drop_index("by_citi")
    assert refused.value.hint == "It has: by_city. Did you mean by_city?"


def test_explain_names_the_index_that_served_each_condition_and_those_that_could_have(
    table: IndexedTable,
) -> None:
    table.create_index("by_city", "lower(city)")
    table.create_index("by_letter", "substr(lower(city), 1, 1)")
    table.create_index("k", "k")
    account = table.where("lower(city) = 'rome' AND k < 10 AND part = 'a'").explain()
    assert account["conditions"] == [
        {"condition": "lower(city) = 'rome'", "by": ["by_city"], "also": []},
        {"condition": "k < 10", "by": ["k"], "also": []},
        {"condition": "part = 'a'", "by": [], "also": []},
    ]
    account = table.where("city = 'Rome'").explain()
    assert account["conditions"] == [
        {"condition": "city = 'Rome'", "by": ["by_city", "by_letter"], "also": []}
    ]


def test_explain_names_one_index_for_the_conditions_that_it_serves_together(table: IndexedTable) -> None:
    table.create_index("city_and_k", ["city", "k"])
    answer = table.where("city = 'Rome' AND k < 10 AND at IS NOT NULL")
    assert answer.explain()["conditions"] == [
        {"condition": "city = 'Rome' AND k < 10", "by": ["city_and_k"], "also": []},
        {"condition": "NOT (at IS NULL)", "by": [], "also": []},
    ]
    assert answer.count() == 4


def test_an_index_kept_in_another_time_zone_is_not_used_and_explain_says_so(table: IndexedTable) -> None:
    table.create_index("by_hour", "hour(at)", zone="Asia/Kathmandu")
    condition = "hour(at) = 10"
    answer = table.where(condition)
    assert (answer.count(), answer.files_scanned) == (4, 2)
    (reason,) = answer.explain()["not_used"]
    assert reason == {
        "index": "by_hour",
        "reason": "it keeps values in time zone Asia/Kathmandu, and the question is asked in UTC",
    }
    there = table.where(condition, zone="Asia/Kathmandu")
    assert (there.count(), there.files_scanned, there.explain()["not_used"]) == (4, 0, [])


@pytest.mark.parametrize(
    ("on", "kind", "condition", "served"),
    [
        (["hour(at)", "city"], "bitmap", "hour(at) = 10 AND city = 'Rome'", False),
        (["city", "hour(at)"], "bitmap", "city = 'Rome' AND hour(at) = 10", True),
        (["city", "hour(at)"], "bitmap", "hour(at) = 10", True),
        (["k", "hour(at)"], "column_stats", "hour(at) = 10", False),
    ],
)
def test_explain_names_the_time_zone_of_an_index_of_any_kind_that_is_not_used(
    table: IndexedTable, on: list[str], kind: str, condition: str, served: bool
) -> None:
    table.create_index("by_hour", on, kind, zone="Asia/Kathmandu")
    reason = "it keeps values in time zone Asia/Kathmandu, and the question is asked in UTC"
    told = [] if served else [{"index": "by_hour", "reason": reason}]
    assert table.where(condition).explain()["not_used"] == told
    assert table.where(condition, zone="Asia/Kathmandu").explain()["not_used"] == []


def test_an_index_tells_its_time_zone_if_its_values_depend_on_it(table: IndexedTable) -> None:
    zones = {
        "hour": table.create_index("hour", "hour(at)").zone,
        "both": table.create_index("both", ["city", "hour(at)"]).zone,
        "stats": table.create_index("stats", ["k", "hour(at)"], "column_stats").zone,
        "apart": table.create_index("apart", "minute(at)", zone="Asia/Kathmandu").zone,
        "city": table.create_index("city", "lower(city)").zone,
        "plain": table.create_index("plain", "at", zone="Asia/Kathmandu").zone,
    }
    depend = dict.fromkeys(("hour", "both", "stats"), "UTC") | {"apart": "Asia/Kathmandu"}
    assert zones == depend | dict.fromkeys(("city", "plain"))
    assert {index.name: index.zone for index in table.indexes()} == zones


def test_days_of_another_time_zone_bound_the_times_of_a_day(table: IndexedTable) -> None:
    table.create_index("by_day", "date_trunc('DAY', at)", zone="Asia/Kathmandu")
    answer = table.where("date_trunc('DAY', at) = TIMESTAMP'2024-01-01 00:00:00'")
    assert (answer.count(), answer.explain()["not_used"]) == (48, [])
    assert answer.explain()["conditions"][0]["by"] == ["by_day"]


@pytest.mark.parametrize("was_part", [False, True])
def test_counts_of_terms_are_taken_back_when_a_column_of_theirs_changes_its_place(
    tmp_path: Path, was_part: bool
) -> None:
    schema = pa.schema([("k", pa.int64()), ("city", pa.string())])
    data = pa.table({"k": [1, 2, 3], "city": ["Rome", "Paris", None]}, schema=schema)
    shapes = [((), data, None), (("city",), data.select(["k"]), {"city": "Rome"})]
    (before, old, was), (after, new, now) = reversed(shapes) if was_part else shapes
    builder = DeltaBuilder(str(tmp_path / "t")).create(schema, before)
    builder.commit([builder.data_file(old, "old", was)])
    table = tailbit.open(builder.path)
    table.create_index("by_city", "lower(city)")
    table.create_index("both", ["k", "city"])
    metadata = {"metaData": builder.metadata_action(schema, after)}
    builder.commit([metadata, builder.remove("old"), builder.data_file(new, "new", now)])
    Drive(builder.path, f"{builder.path}/_tailbit").drain()
    assert table.verify().problems == []
    assert table.where().facets("city") == ({"Rome": 1, "Paris": 1, None: 1} if was_part else {"Rome": 3})


def test_a_rebuild_makes_another_index_beside_the_present_one_and_takes_its_place(
    table: IndexedTable,
) -> None:
    from tailbit.index.store.table import MetadataTable

    def ids() -> list[str]:
        definitions = MetadataTable.open(table.index_path).state.settings.definitions
        return [definition.id for definition in definitions]

    table.create_index("by_city", "lower(city)")
    (before,) = ids()
    assert table.rebuild_index("by_city").state == "complete"
    (after,) = ids()
    assert after != before
    answer = table.where("lower(city) = 'rome'")
    assert (answer.count(), answer.files_scanned, table.verify().problems) == (48, 0, [])


def test_a_term_and_a_condition_may_name_their_table(table: IndexedTable) -> None:
    name = Path(table.path).name
    made = table.create_index("i", f"LOWER( {name}.city )", only=f"{name}.part = 'a'")
    assert made.terms == (f"LOWER( {name}.city )",)
    answer = table.where("lower(city) = 'rome' AND part = 'a'")
    assert answer.explain()["conditions"][0]["by"] == ["i"]
    assert answer.files_scanned == 0
    table.rebuild_index("i")
    assert table.where("lower(city) = 'rome' AND part = 'a'").files_scanned == 0


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of one file with the indexes `k` and `by_city`."""
    path = str(tmp_path / "trips")
    write_deltalake(path, pa.table({"city": ["Rome", "rome", None], "k": [1, 2, 3]}))
    tailbit.open(path).create_index("k", "k")
    tailbit.open(path).create_index("by_city", "lower(city)")
    return path


def names(path: str) -> list[str]:
    return [index.name for index in tailbit.open(path).indexes()]


@pytest.mark.parametrize("ended", [False, True])
def test_an_index_that_another_process_rebuilds_meanwhile_stays_dropped(path: str, ended: bool) -> None:
    beside = MetadataTable.open(f"{path}/_tailbit")
    rebuild(MetadataTable.open(f"{path}/_tailbit"), "by_city", tailbit.open(path).where()._selection.schema)
    if ended:
        tailbit.open(path).repair()
    drop(beside, "by_city")
    tailbit.open(path).repair()
    assert names(path) == ["k"]
    assert (tailbit.open(path).where("lower(city) = 'rome'").count(), names(path)) == (2, ["k"])
    assert tailbit.open(path).verify().problems == []


def test_of_two_drops_at_once_the_second_is_told_that_there_is_none(path: str) -> None:
    beside = MetadataTable.open(f"{path}/_tailbit")
    assert tailbit.open(path).drop_index("by_city")
    with pytest.raises(UnknownIndexError):
        drop(beside, "by_city")
    assert not tailbit.open(path).drop_index("by_city", if_exists=True)
    assert names(path) == ["k"]


def write(path: str, first: int) -> None:
    keys = list(range(first, first + 10))
    write_deltalake(path, pa.table({"k": keys, "s": [f"S{k % 3}" for k in keys]}), mode="append")


@pytest.mark.parametrize(
    ("on", "kind"), [("s", "bitmap"), ("lower(s)", "bitmap"), (["s", "k"], "bitmap"), ("k", "column_stats")]
)
def test_the_last_index_is_dropped_the_stream_goes_on_and_another_is_made(
    tmp_path: Path, on: str | list[str], kind: str
) -> None:
    path = str(tmp_path / "t")
    for first in (0, 10):
        write(path, first)
    table = tailbit.open(path)
    table.create_index("i", on, kind)
    assert table.drop_index("i")
    assert (table.indexes(), tailbit.sql(f"SHOW INDEXES ON delta.`{path}`")) == ([], [])
    assert (table.where("s = 'S1'").count(), table.where().count()) == (7, 20)
    assert table.where().facets("s") == {"S0": 7, "S1": 7, "S2": 6}

    drive = Drive(path, f"{path}/_tailbit", None, StreamSettings())
    write(path, 20)
    DeltaTable(path).delete("k = 1")
    drive.drain()
    answer = table.where("s = 'S1'")
    assert (answer.count(), answer.covered_version) == (9, 3)
    status = status_of(path)
    assert (status["columns"], status["state"], status["files_to_post"]) == ([], "complete", {})
    assert table.verify(derive=10).problems == []
    table.compact()
    table.vacuum()
    assert table.where("s = 'S1'").count() == 9
    with pytest.raises(UnknownIndexError) as refused:
        table.drop_index("i")
    assert refused.value.hint == "It has: none."

    assert table.create_index("i", "upper(s)").state == "complete"
    answer = table.where("upper(s) = 'S1'")
    assert (answer.count(), answer.files_scanned) == (9, 0)
    assert table.verify(derive=10).problems == []


def test_an_index_without_definitions_that_is_damaged_is_made_anew_without_definitions(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "t")
    write(path, 0)
    table = tailbit.open(path)
    table.create_index("s", "s")
    table.drop_index("s")
    for file in Path(path, "_tailbit", "kind=files").iterdir():
        file.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    assert tailbit.open(path).where("s = 'S1'").count() == 3
    tailbit.open(path).repair()
    assert (table.indexes(), tailbit.open(path).verify().problems) == ([], [])
    assert tailbit.open(path).where("s = 'S1'").count() == 3
