"""The helper of Spark's driver as the driver meets it: a process that answers lines of JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.stored import on_disk, put_into
from support.tables import gone, index_files, index_of
from support.waiting import HANG_S
from tailbit.index.kinds.bitmap_index import BITMAP_INDEX
from tailbit.spark import helper as helpers
from tailbit.tables.storage import StorageOptions

FILES, ROWS = 8, 20


class Helper:
    """The process, and its last request's number."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tailbit.spark.helper"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0

    def line(self, data: bytes) -> dict[str, Any]:
        """The head of the reply to a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()
        head: dict[str, Any] = json.loads(self.process.stdout.readline())
        return head

    def ask(self, want: str, path: str, *where: str, **fields: Any) -> dict[str, Any]:
        """The reply to a request at the head, or as `fields` say; `rows` of an Arrow stream."""
        self.number += 1
        table = DeltaTable(path) if Path(path).exists() else None
        asked = {"id": self.number, "want": want, "root": path, "where": where, "budget_ms": 60_000}
        if table is not None:
            asked |= {"table": str(table.metadata().id), "version": table.version()}
        head = self.line(json.dumps(asked | fields).encode())
        assert head.pop("id") == self.number
        if "arrow" in head:
            assert self.process.stdout is not None
            data = self.process.stdout.read(head.pop("arrow"))
            head["rows"] = pa.ipc.open_stream(data).read_all()
        return head

    def reason(self, want: str, path: str, *where: str, **fields: Any) -> str:
        """Why a request is declined."""
        return str(self.ask(want, path, *where, **fields)["declined"])


@pytest.fixture(scope="module")
def helper() -> Iterator[Helper]:
    started = Helper()
    yield started
    assert started.process.stdin is not None
    assert started.process.stdout is not None
    started.process.stdin.close()
    assert started.process.wait(HANG_S) == 0
    started.process.stdout.close()


def rows(n: int) -> pa.Table:
    keys = [f"k{n}-{row % 5}" for row in range(ROWS)]
    values = [None if row == 3 else row % 4 for row in range(ROWS)]
    return pa.table({"k": keys, "v": pa.array(values, pa.int64()), "d": [row / 2 for row in range(ROWS)]})


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Eight files with keys of their own; k and v are indexed, d is an indexed double."""
    path = str(tmp_path / "a table")
    for n in range(FILES):
        write_deltalake(path, rows(n), mode="append")
    index_of(path, ["k", "v", "d"])
    return path


def paths_with(path: str, condition: str) -> set[str]:
    """The data files of the head that hold a matching row, by DuckDB, relative to the table."""
    files = [unquote(uri.removeprefix("file://")) for uri in DeltaTable(path).file_uris()]
    found = duckdb.sql(
        f"SELECT DISTINCT filename FROM read_parquet({files}, filename=true) WHERE {condition}"
    )
    return {Path(name).name for (name,) in found.fetchall()}


def number_of(path: str, condition: str, version: int | None = None) -> int:
    judged = DeltaTable(path, version=version).to_pyarrow_table()
    (count,) = duckdb.sql(f"SELECT count(*) FROM judged WHERE {condition}").fetchall()[0]
    assert judged.num_rows
    return int(count)


def test_files_are_those_that_hold_a_matching_row(helper: Helper, table: str) -> None:
    reply = helper.ask("files", table, "k = 'k3-1'")
    assert set(reply["keep"]) == paths_with(table, "k = 'k3-1'") != set()
    assert (reply["used"], reply["total"]) == ([0], FILES)
    assert reply["table"] == str(DeltaTable(table).metadata().id)


def test_a_conjunct_that_is_not_understood_falls_out_of_files(helper: Helper, table: str) -> None:
    reply = helper.ask("files", table, "no_such(k) = 1", "k = 'k3-1'", "nowhere = 1", "k) OR (k")
    assert (set(reply["keep"]), reply["used"]) == (paths_with(table, "k = 'k3-1'"), [1])
    assert helper.reason("files", table, "no_such(k) = 1") == "nothing-understood"


def test_files_with_more_than_half_of_the_bytes_are_declined(helper: Helper, table: str) -> None:
    assert helper.reason("files", table, "k LIKE 'k%'") == "keeps-all"


@pytest.mark.parametrize("condition", ["k = 'k3-1'", "v = 2", "v IS NULL", "k = 'none'", "NOT (v <=> 2)"])
def test_a_count_is_that_of_another_engine(helper: Helper, table: str, condition: str) -> None:
    judged = condition.replace("<=>", "IS NOT DISTINCT FROM")
    assert helper.ask("count", table, condition)["count"] == number_of(table, judged)


def test_a_count_without_a_condition_is_of_all_rows(helper: Helper, table: str) -> None:
    assert helper.ask("count", table)["count"] == FILES * ROWS


def test_an_answer_is_of_the_version_that_is_asked(helper: Helper, table: str) -> None:
    counts = {version: helper.ask("count", table, "v = 2", version=version)["count"] for version in (2, 7, 4)}
    assert counts == {version: number_of(table, "v = 2", version) for version in counts}
    assert len(set(counts.values())) == 3
    assert helper.reason("count", table, "v = 2", version=99) == "no-version"


def test_groups_have_the_types_of_the_columns_and_counts_of_another_engine(
    helper: Helper, table: str
) -> None:
    reply = helper.ask("groups", table, "k LIKE 'k2%'", by=["v"])["rows"]
    assert reply.schema == pa.schema([("v", pa.int64()), ("count", pa.int64())])
    judged = duckdb.sql("SELECT v FROM judged WHERE k LIKE 'k2%'", connection=_with(table)).fetchall()
    assert dict(zip(*reply.to_pydict().values(), strict=True)) == Counter(v for (v,) in judged)


def test_measures_are_those_of_another_engine(helper: Helper, table: str) -> None:
    measures = [["min", "k"], ["max", "v"], ["distinct", "v"], ["count", "v"]]
    reply = helper.ask("groups", table, "k LIKE 'k2%'", measures=measures)["rows"]
    text = "SELECT count(*), min(k), max(v), count(DISTINCT v), count(v) FROM judged WHERE k LIKE 'k2%'"
    assert [tuple(reply.to_pylist()[0].values())] == duckdb.sql(text, connection=_with(table)).fetchall()
    grouped = helper.ask("groups", table, by=["v"], measures=[["max", "k"]])["rows"].to_pylist()
    text = "SELECT v, count(*), max(k) FROM judged GROUP BY v"
    judged = duckdb.sql(text, connection=_with(table)).fetchall()
    assert {tuple(row.values()) for row in grouped} == {*judged}
    assert helper.reason("groups", table, by=["v"], measures=[["distinct", "k"]]) == "not-exact"


def test_rows_are_those_of_another_engine_and_are_declined_where_they_are_many(
    helper: Helper, table: str
) -> None:
    reply = helper.ask("rows", table, "k = 'k1-2'", "no_such(k) = 5", columns=["v", "k"], most=100)
    text = "SELECT v, k FROM judged WHERE k = 'k1-2'"
    judged = duckdb.sql(text, connection=_with(table)).fetchall()
    assert reply["used"] == [0]
    assert Counter(map(tuple, map(dict.values, reply["rows"].to_pylist()))) == Counter(judged)
    assert helper.reason("rows", table, "k = 'k1-2'", columns=["v"], most=1) == "many-rows"
    assert helper.reason("rows", table, "d = 2", columns=["v"], most=100) == "floating-point"
    assert helper.reason("rows", table, "k = 'k1-2'", most=100) == "malformed"


def test_rows_that_are_declined_have_the_files_in_their_place(helper: Helper, table: str) -> None:
    asked = {"columns": ["v"], "most": 1, "or_files": True}
    reply = helper.ask("rows", table, "k = 'k1-2'", **asked)
    assert reply["declined"] == "many-rows"
    assert set(reply["instead"]["keep"]) == paths_with(table, "k = 'k1-2'") != set()
    version = DeltaTable(table).version()
    assert (reply["instead"]["total"], reply["instead"]["version"]) == (FILES, version)
    nothing = helper.ask("rows", table, "k LIKE 'k%'", **asked)
    assert (nothing["declined"], nothing["instead"]["declined"]) == ("many-rows", "keeps-all")
    assert "instead" not in helper.ask("rows", table, "k LIKE 'k%'", **{**asked, "or_files": False})


def test_rows_may_be_the_first_by_a_column_with_those_of_the_last_value(helper: Helper, table: str) -> None:
    keys = [key for n in range(FILES) for key in rows(n)["k"].to_pylist()]
    first = {"by": "k", "most": 2, "distinct": False, "descending": True, "nulls_first": False}
    asked = {"columns": ["k"], "most": ROWS, "first": first}
    reply = helper.ask("rows", table, **asked)
    least = sorted(keys, reverse=True)[1]
    assert Counter(reply["rows"]["k"].to_pylist()) == Counter(key for key in keys if key >= least)
    assert reply["first"]
    assert set(helper.ask("files", table, **asked)["keep"]) == paths_with(table, f"k >= '{least}'")
    assert helper.reason("rows", table, **{**asked, "first": {**first, "by": "d"}}) == "many-rows"
    assert helper.reason("rows", table, **{**asked, "first": {**first, "most": "2"}}) == "malformed"


def test_rows_come_with_what_they_take_and_what_a_scan_takes(helper: Helper, table: str) -> None:
    reply = helper.ask("rows", table, "k = 'k1-2'", columns=["v"], most=100)
    assert (reply["files"], reply["of"]) == (1, FILES)
    assert 0 < reply["rows_ms"] <= 0.7 * reply["spark_ms"]
    assert helper.reason("rows", table, "k = 'k1-2'", columns=["v"], most=100, share=0) == "no-gain"


def _with(path: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("judged", DeltaTable(path).to_pyarrow_table())
    return connection


def test_known_names_the_indexed_columns_and_the_covered_version(helper: Helper, table: str) -> None:
    tailbit.open(table).create_index("low", "lower(k)")
    index_of(table)
    reply = helper.ask("known", table)
    assert (set(reply["columns"]), reply["expressions"]) == ({"k", "v", "d"}, ["lower(k)"])
    assert reply["covered"] == FILES - 1


def test_a_table_without_an_index_has_nothing_known_and_serves_nothing(
    helper: Helper, tmp_path: Path
) -> None:
    path = str(tmp_path / "plain")
    write_deltalake(path, rows(0))
    assert helper.ask("known", path)["columns"] == []
    assert {helper.reason(want, path, "v = 2", by=["v"]) for want in ("files", "count", "groups")} == {
        "no-index"
    }


def test_exact_answers_over_floats_are_declined(helper: Helper, table: str) -> None:
    assert helper.reason("count", table, "d = 1.5") == "floating-point"
    assert helper.reason("groups", table, "v = 2", by=["d"]) == "floating-point"


def test_groups_by_a_partition_column_that_depends_on_the_time_zone_are_declined(
    helper: Helper, tmp_path: Path
) -> None:
    path = str(tmp_path / "zoned")
    moments = pa.array([0, 3_600_000_000], pa.timestamp("us", "UTC"))
    write_deltalake(path, pa.table({"v": [1, 2], "at": moments}), partition_by=["at"])
    index_of(path, ["v"])
    assert helper.reason("groups", path, "v > 0", by=["at"]) == "time-zone"
    assert helper.ask("groups", path, "v > 0", by=["v"])["rows"].num_rows == 2


def test_exact_answers_are_declined_where_a_conjunct_is_not_understood(helper: Helper, table: str) -> None:
    assert helper.reason("count", table, "v = 2", "no_such(k) = 1") == "not-understood"


def test_files_that_the_index_lags_behind_are_kept_and_counts_declined(helper: Helper, table: str) -> None:
    before = helper.ask("count", table, "k = 'k3-1'")["count"]
    write_deltalake(table, rows(3), mode="append")
    (added,) = set(DeltaTable(table).file_uris()) - set(DeltaTable(table, version=FILES - 1).file_uris())
    reply = helper.ask("files", table, "k = 'k5-1'")
    assert set(reply["keep"]) == paths_with(table, "k = 'k5-1'") | {Path(added).name}
    assert helper.reason("count", table, "k = 'k3-1'") == "not-covered"
    assert helper.ask("count", table, "k = 'k3-1'", version=FILES - 1)["count"] == before
    index_of(table)
    assert helper.ask("count", table, "k = 'k3-1'")["count"] == number_of(table, "k = 'k3-1'") != before


def test_a_table_recreated_at_its_path_has_another_history(helper: Helper, table: str) -> None:
    assert helper.ask("count", table, "v = 2")["count"]
    old = str(DeltaTable(table).metadata().id)
    shutil.rmtree(Path(table) / "_delta_log")
    for n in range(FILES):
        write_deltalake(table, rows(n + 20), mode="append")
    assert str(DeltaTable(table).metadata().id) != old
    assert helper.reason("files", table, "k = 'k3-1'", table=old) == "other-history"
    assert helper.reason("count", table, "k = 'k23-1'") == "other-history"
    index_of(table)
    assert helper.reason("count", table, "k = 'k3-1'", table=old) == "another-table"
    assert helper.ask("count", table, "k = 'k23-1'")["count"] == number_of(table, "k = 'k23-1'") != 0


@pytest.mark.parametrize("want", ["known", "files", "count", "groups"])
def test_an_answer_is_of_no_other_table_than_the_one_asked(helper: Helper, table: str, want: str) -> None:
    assert helper.reason(want, table, "k = 'k3-1'", by=["v"], table="another") == "another-table"


def test_an_index_dropped_meanwhile_serves_nothing_more(helper: Helper, table: str) -> None:
    assert helper.ask("count", table, "v = 2")["count"]
    shutil.rmtree(tailbit.open(table).index_path)
    assert helper.reason("count", table, "v = 2") == "no-index"


def test_a_damaged_index_counts_nothing_and_its_files_are_kept(helper: Helper, table: str) -> None:
    for file in index_files(table, BITMAP_INDEX):
        gone(file)
    assert helper.reason("count", table, "k = 'k3-1'") == "damaged-index"
    assert helper.reason("files", table, "k = 'k3-1'") == "keeps-all"


def test_a_table_that_is_gone_is_declined(helper: Helper, tmp_path: Path) -> None:
    reply = helper.ask("count", str(tmp_path / "none"), table="x", version=0)
    assert reply["declined"] == "no-table"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"rubbish",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"id": 7, "want": "rows"}',
        b'{"want": "count", "root": "/", "table": "x", "version": 0, "where": "v = 2"}',
        b'{"want": "count", "root": "/", "table": "x", "version": -1, "options": {"a": 1}}',
    ],
    ids=["empty", "words", "bytes", "list", "nothing", "deep", "want", "where", "version"],
)
def test_rubbish_is_declined_and_the_next_request_is_answered(
    helper: Helper, table: str, line: bytes
) -> None:
    assert helper.line(line)["declined"] in ("malformed", "error")
    assert helper.ask("count", table)["count"] == FILES * ROWS


def test_the_helper_says_that_it_is_ready(helper: Helper) -> None:
    assert helper.line(b'{"id": 7, "want": "ready"}') == {"id": 7, "ready": True}


def test_a_reply_names_its_version(helper: Helper, table: str) -> None:
    assert helper.ask("files", table, "k = 'k3-1'", version=5)["version"] == 5


def test_more_groups_than_are_wanted_are_declined(helper: Helper, table: str) -> None:
    assert helper.ask("groups", table, by=["v"], most=5)["rows"].num_rows == 5
    assert helper.reason("groups", table, by=["v"], most=4) == "many-groups"


def test_nothing_is_computed_for_a_driver_that_waits_no_longer(helper: Helper, table: str) -> None:
    assert helper.reason("count", table, "v = 2", budget_ms=-1) == "late"


def test_a_table_stays_open_after_a_condition_is_declined_and_not_after_another_reason(table: str) -> None:
    """Else a condition that cannot gain costs the opening of its table each time."""
    process, metadata = helpers.Helper(), DeltaTable(table)
    fields = {"id": 1, "root": table, "version": metadata.version(), "want": "files"}

    def open_after(id_: str, condition: str, reason: str) -> list[Any]:
        line = json.dumps({**fields, "table": id_, "where": [condition]}).encode()
        head, _ = process.reply(line, time.monotonic())
        assert head["declined"] == reason
        return [*process._tables.values()]

    own = str(metadata.metadata().id)
    (opened,) = open_after(own, "k LIKE 'k%'", "keeps-all")
    assert open_after(own, "k LIKE 'k%' AND v >= 0", "keeps-all") == [opened]
    assert open_after("another", "k LIKE 'k%'", "another-table") == []


def test_requests_are_answered_beside_each_other(helper: Helper, table: str) -> None:
    assert helper.process.stdin is not None
    assert helper.process.stdout is not None
    metadata = DeltaTable(table)
    fields = {"root": table, "table": str(metadata.metadata().id), "version": metadata.version()}
    asked = {n: {"id": n, "want": "count", "where": [f"v = {n % 4}"], **fields} for n in range(40)}
    helper.process.stdin.write(b"".join(json.dumps(request).encode() + b"\n" for request in asked.values()))
    helper.process.stdin.flush()
    replies = [json.loads(helper.process.stdout.readline()) for _ in asked]
    expected = {value: number_of(table, f"v = {value}") for value in range(4)}
    assert {reply["id"]: reply["count"] for reply in replies} == {n: expected[n % 4] for n in asked}


def test_a_store_that_the_environment_has_no_credentials_for_is_declined_with_what_it_says(
    helper: Helper, s3_root: str, s3: Any, s3_options: dict[str, str], tmp_path: Path
) -> None:
    put_into(s3_root, StorageOptions.of(s3_options), on_disk(tmp_path / "written").path)
    wrong = {**s3_options, "AWS_SECRET_ACCESS_KEY": "another"}
    given = {"table": "x", "version": 0, "options": wrong}
    reply = helper.ask("count", s3_root, "v = 2", **given)
    assert reply["declined"] == "error"
    assert reply["detail"]
