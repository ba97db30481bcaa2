"""What is odd in a log stops no answer that does not need it; what contradicts itself is refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.odd_logs import (
    EVERY_ROW,
    ODD_COMMITS,
    ODD_STATISTICS,
    WRONG_COUNTS,
    WRONG_STATISTICS,
    OddLog,
    OddTable,
)
from support.odd_metadata import CONTRADICTIONS
from tailbit.errors import SourceError
from tailbit.index.write import run
from tailbit.tables import open_table
from tailbit.tables.parquet import rows
from tailbit.upkeep.status import status_of


def named(cases: list[OddLog]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def answers_everywhere(case: OddLog, path: Path) -> None:
    """Every way out of every condition gives the rows of the data files, or refuses; with an index too."""
    table = case.write(path)
    if case.rows is None:
        with pytest.raises(SourceError) as refused:
            tailbit.open(table).where("s = 'b'").read()
        assert refused.value.hint
        return
    answers(table, case.rows)
    Drive(table, f"{table}/_tailbit", ["id", "s", "p", "d", "f"]).drain()
    answers(table, case.rows)
    assert tailbit.open(table).verify(derive=9).problems == []


def answers(table: str, rows: dict[str, list[int]]) -> None:
    opened = tailbit.open(table)
    for condition, ids in rows.items():
        answer = opened.where(condition)
        found = answer.read(["id"])["id"].to_pylist()
        assert (condition, sorted(found)) == (condition, ids)
        assert (condition, answer.count()) == (condition, len(ids))
        assert (condition, opened.where(condition).count()) == (condition, len(ids))
        assert sum(map(len, answer.positions().values())) == len(ids)
        assert answer.facets("id") == dict.fromkeys(ids, 1)
        assert answer.explain()["count"] == len(ids)


@named(WRONG_COUNTS)
def test_a_row_count_in_the_log_never_takes_the_place_of_the_footer(case: OddLog, tmp_path: Path) -> None:
    answers_everywhere(case, tmp_path / "t")


@named(ODD_STATISTICS)
def test_statistics_that_cannot_be_are_not_used(case: OddLog, tmp_path: Path) -> None:
    answers_everywhere(case, tmp_path / "t")


@named(WRONG_STATISTICS)
def test_an_index_finds_no_row_that_wrong_statistics_leave_out_without_it(
    case: OddLog, tmp_path: Path
) -> None:
    answers_everywhere(case, tmp_path / "t")
    [reason] = status_of(str(tmp_path / "t"))["not_covered"]
    assert "the log's statistics of column" in reason


def test_true_statistics_of_every_kind_of_column_are_believed(feature_table: str) -> None:
    assert status_of(feature_table)["not_covered"] == {}


@named(ODD_COMMITS)
def test_what_no_answer_needs_stops_none(case: OddLog, tmp_path: Path) -> None:
    answers_everywhere(case, tmp_path / "t")


@named(CONTRADICTIONS)
def test_metadata_and_protocol_that_contradict_themselves_are_refused_by_name(
    case: OddLog, tmp_path: Path
) -> None:
    answers_everywhere(case, tmp_path / "t")


def test_what_of_a_log_was_set_aside_is_said_in_explain_and_status(tmp_path: Path) -> None:
    cut = OddLog("cut", lambda table: table.first.update(stats='{"numRecords": 3, "minV'))
    table = cut.write(tmp_path / "t")
    said = ["statistics of 1 file could not be read and were not used"]
    assert tailbit.open(table).where("id > 0").explain()["set_aside"] == said
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").write_bytes(b"")
    said.insert(0, "commit 1 of the log holds no action")
    assert tailbit.open(table).where("id > 0").explain()["set_aside"] == said
    Drive(table, f"{table}/_tailbit", ["id"]).drain()
    assert status_of(table)["set_aside"] == said
    assert tailbit.open(table).where("id > 0", version=0).explain()["set_aside"] == []


def test_nothing_is_said_of_a_log_that_is_in_order(tmp_path: Path) -> None:
    table = OddLog("in order", lambda _: None).write(tmp_path / "t")
    assert tailbit.open(table).where("id > 0").explain()["set_aside"] == []


def test_the_footer_of_a_file_is_read_for_its_row_count_once_in_a_process(tmp_path: Path) -> None:
    table = OddLog("in order", lambda _: None).write(tmp_path / "t")
    opened = tailbit.open(table)
    assert opened.where("p = 'x'").count() == 3
    (tmp_path / "t" / "a.parquet").unlink()
    assert opened.where("true").count() == 4
    assert tailbit.open(table).where("p IN ('x', 'y')").count() == 4


def test_a_view_of_files_with_wrong_counts_and_sizes_shows_their_rows(tmp_path: Path) -> None:
    def change(table: OddTable) -> None:
        table.first.update(size=7, stats={"numRecords": 1})

    table = OddLog("wrong", change).write(tmp_path / "t")
    for number, condition in enumerate(("true", "id > 1", "p = 'x'", "id = 2")):
        ids = EVERY_ROW.get(condition, [2, 3, 4])
        view = tailbit.open(table).where(condition).to_delta(str(tmp_path / f"view {number}"))
        assert sorted(pa.table(DeltaTable(view).scan(["id"]))["id"].to_pylist()) == ids


def test_a_row_space_takes_no_more_rows_than_it_has_room_for_whatever_the_log_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "ROWS_PER_SPACE", 10)
    builder = DeltaBuilder(str(tmp_path / "t")).create(pa.schema([("k", pa.int64())]))
    adds = [builder.data_file(pa.table({"k": range(n * 6, n * 6 + 6)})) for n in range(4)]
    for add in adds:
        add["add"]["stats"] = '{"numRecords":0}'
    builder.commit(adds)
    drive = Drive(builder.path, f"{builder.path}/_tailbit", ["k"])
    drive.drain()
    spaces = [record.space for record in drive.index.state.recorded.live()]
    assert len(set(spaces)) == 4
    answer = tailbit.open(builder.path).where("k >= 5 AND k < 20")
    assert (answer.count(), answer.files_scanned) == (15, 0)


def test_an_answer_of_covered_files_asks_no_footer_for_its_rows(tmp_path: Path) -> None:
    table = OddLog("in order", lambda _: None).write(tmp_path / "t")
    Drive(table, f"{table}/_tailbit", ["id", "p"]).drain()
    rows._COUNTS.clear()
    answer = tailbit.open(table).where("true")
    assert answer.count() == 4
    assert answer.to_delta(str(tmp_path / "view"))
    assert not rows._COUNTS.items()


@pytest.mark.parametrize("form", ["classic", "multipart", "v2-json", "v2-parquet"])
def test_log_checkpoints_may_lack_what_no_answer_needs(form: str, tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path / "t")).create(
        pa.schema([("k", pa.int64())]), features=["v2Checkpoint"]
    )
    adds = [builder.data_file(pa.table({"k": [n, n]})) for n in range(3)]
    adds[0]["add"] |= {"size": None, "stats": '{"numRecords": 2, "minV'}
    adds[1]["add"] |= {"modificationTime": None, "stats": '{"numRecords":-1}'}
    adds[2]["add"] |= {"size": -7, "stats": None}
    builder.commit(adds)
    builder.checkpoint(form, 2)
    for commit in builder.log.glob("*.json"):
        if "checkpoint" not in commit.name:
            commit.unlink()
    for _ in range(2):
        opened = tailbit.open(builder.path)
        assert [opened.where(text).count() for text in ("true", "k > 0", "k = 0")] == [6, 4, 2]
        assert set_aside_of(builder.path) == "statistics of 2 files could not be read and were not used"
        Drive(builder.path, f"{builder.path}/_tailbit", ["k"]).drain()


def set_aside_of(path: str) -> str:
    """The one line of what was set aside of the log of a table."""
    [line] = open_table(path).snapshot().set_aside()
    return line
