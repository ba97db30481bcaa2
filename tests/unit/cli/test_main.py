"""The command line: what it prints, its exit statuses, and what a question's process never loads."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.forked import command
from support.tables import EVERY_TYPE, PLAIN_TYPES, break_bitmaps, index_files, index_of, tamper, truncated
from support.waiting import HANG_S, signalled, wait_until
from tailbit.cli.main import cli
from tailbit.cli.options import split_columns
from tailbit.errors import (
    DataFileError,
    IndexerRunningError,
    NoIndexError,
    StorageError,
    StreamError,
    TailbitError,
)

TOOL = os.path.join(os.path.dirname(sys.executable), "tailbit")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files of ten rows, the first two indexed by v; not to be changed."""
    path = str(tmp_path_factory.mktemp("cli") / "t")
    for first in (0, 10, 20):
        keys = list(range(first, first + 10))
        rows = pa.table({"k": pa.array(keys, pa.int64()), "v": [f"v{k % 3}" for k in keys]})
        write_deltalake(path, rows, mode="append")
        if first == 10:
            index_of(path, ["v"])
    return path


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("cli") / "every_type")
    write_deltalake(path, EVERY_TYPE)
    return path


def asked(*arguments: str) -> Result:
    """A command in this process; TailbitErrors come back as `Result.exception`."""
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("predicate", ["-1 < k", "-(1) < k", "- 1.5 < k", "-1 NOT IN (2)", "-.5 < k"])
def test_a_predicate_may_begin_with_a_minus_sign(table: str, predicate: str) -> None:
    assert said("count", table, predicate) == said("count", table, "--", predicate) == "30\n"


def said(*arguments: str) -> str:
    result = asked(*arguments)
    assert result.exit_code == 0, result.exception or result.output
    return result.stdout


def json_of(*arguments: str) -> Any:
    """Strict JSON: NaN and the like are refused."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(said(*arguments), parse_constant=refuse)


def test_count_prints_the_number(table: str) -> None:
    assert said("count", table, "v = 'v1'") == "10\n"
    assert said("count", table) == "30\n"
    assert said("count", table, "v = 'v1'", "--version", "1") == "7\n"


def test_count_as_json_has_the_promised_keys(table: str) -> None:
    assert json_of("count", table, "v = 'v1'", "--json") == {
        "count": 10,
        "version": 2,
        "covered_version": 1,
        "files": 3,
        "files_scanned": 1,
        "damaged": [],
    }


def test_facets_print_the_most_frequent_first(table: str) -> None:
    assert said("facets", table, "v") == "v\tcount\nv0\t10\nv1\t10\nv2\t10\n"
    found = json_of("facets", table, "v", "--where", "k < 11", "--top", "2", "--json")
    assert found == {
        "column": "v",
        "version": 2,
        "facets": [{"value": "v0", "count": 4}, {"value": "v1", "count": 4}],
    }


@pytest.mark.parametrize("column", PLAIN_TYPES)
def test_facets_of_every_type_are_strict_json_and_plain_text(every_type: str, column: str) -> None:
    found = json_of("facets", every_type, column, "--json")
    assert sum(f["count"] for f in found["facets"]) == 6
    assert said("facets", every_type, column).startswith(f"{column}\tcount\n")


def test_values_that_json_lacks_are_text(every_type: str) -> None:
    def values(column: str) -> list[Any]:
        return [f["value"] for f in json_of("facets", every_type, column, "--json")["facets"]]

    assert values("amount") == [1.5, None, "-Infinity", "Infinity", "NaN"]
    assert values("price") == [None, "9.99", "-1.50", "0.00"]
    assert values("day") == [None, "0001-01-01", "2013-01-31", "9999-12-31"]
    assert values("raw")[:3] == ["61", None, ""]
    assert "2013-01-01 05:00:00.000000Z" in values("moment")
    assert "2013-01-01 05:00:00.000001" in values("local")
    assert values("flag") == [True, False, None]


def test_rows_are_read_as_json_lines(every_type: str) -> None:
    lines = said("read", every_type, "id IN (0, 1)", "--format", "json").splitlines()
    first, second = [json.loads(line, parse_constant=lambda c: pytest.fail(c)) for line in lines]
    assert first["place"] == {"city": "Oslo", "at": {"x": 1}}
    assert (first["tags"], first["counts"], second["counts"]) == (["a", None], {"k": 1}, {})
    assert (first["price"], first["raw"], second["amount"]) == ("9.99", "00ff", "NaN")
    assert first["moment"] == "2013-01-01 05:00:00.000000Z"
    assert (second["name"], second["place"]) == ("", None)


def test_rows_are_read_in_the_order_asked_for(every_type: str) -> None:
    asked_for = (
        "--order-by",
        "id DESC",
        "--offset",
        "1",
        "--limit",
        "2",
        "--columns",
        "id",
        "--format",
        "csv",
    )
    assert said("read", every_type, "id < 5", *asked_for).splitlines() == ['"id"', "3", "2"]


def test_rows_are_read_as_csv_that_tells_null_from_empty(every_type: str) -> None:
    text = said(
        "read", every_type, "id IN (1, 2, 5)", "--columns", "id,name,raw,price,place", "--format", "csv"
    )
    assert text.splitlines()[1:3] == ['1,"","",,', '2,,,0.00,"{""city"": null, ""at"": null}"']
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[2]["name"] == "ä\t\"'"
    assert json.loads(rows[1]["place"]) == {"city": None, "at": None}


def test_rows_are_written_to_files_in_every_format(every_type: str, tmp_path: Path) -> None:
    for form in ("table", "json", "csv", "parquet", "arrow"):
        out = tmp_path / f"rows.{form}"
        assert said("read", every_type, "id < 5", "--format", form, "-o", str(out)) == ""
        assert out.stat().st_size > 0
    found = pq.read_table(tmp_path / "rows.parquet")
    assert (
        found.drop_columns(["score", "amount"]).to_pylist()
        == EVERY_TYPE.take([0, 1, 2, 3, 4]).drop_columns(["score", "amount"]).to_pylist()
    )
    assert len((tmp_path / "rows.json").read_text().splitlines()) == 5
    assert (tmp_path / "rows.table").read_text().splitlines()[0].startswith("id\tflag")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"rows.{f}" for f in ("arrow", "csv", "json", "parquet", "table")
    ]


def test_arrow_in_a_file_and_in_a_pipe_holds_the_rows_that_are_read(every_type: str, tmp_path: Path) -> None:
    read = ("read", every_type, "id < 5", "--format", "arrow")
    out = str(tmp_path / "rows.arrow")
    said(*read, "-o", out)
    expected = str(tailbit.open(every_type).where("id < 5").read().to_pylist())
    assert str(pa.ipc.open_file(out).read_all().to_pylist()) == expected
    assert str(pa.ipc.open_stream(asked(*read).stdout_bytes).read_all().to_pylist()) == expected


def test_a_terminal_is_not_given_the_bytes_of_arrow(table: str) -> None:
    """A pseudo-terminal stands for it."""
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [TOOL, "read", table, "--format", "arrow"],
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert "needs -o FILE" in done.stderr


def test_facets_are_written_in_every_format(every_type: str, tmp_path: Path) -> None:
    facets = ("facets", every_type, "day", "--top", "2")
    assert (
        said(*facets, "--format", "json") == '{"day": null, "count": 3}\n{"day": "0001-01-01", "count": 1}\n'
    )
    assert said(*facets, "--format", "csv") == '"day","count"\n,3\n0001-01-01,1\n'
    for form in ("table", "parquet", "arrow"):
        said(*facets, "--format", form, "-o", str(tmp_path / form))
    assert (tmp_path / "table").read_text() == "day\tcount\nNULL\t3\n0001-01-01\t1\n"
    expected = tailbit.open(every_type).where().facet_table("day").slice(0, 2)
    assert expected.schema == pa.schema([("day", pa.date32()), ("count", pa.int64())])
    assert pq.read_table(tmp_path / "parquet").equals(expected)
    assert pa.ipc.open_file(str(tmp_path / "arrow")).read_all().equals(expected)


def test_no_rows_still_make_a_header_a_schema_and_an_empty_file(every_type: str, tmp_path: Path) -> None:
    nothing = ("read", every_type, "id > 99", "--columns", "id,name")
    assert said(*nothing, "--format", "csv") == '"id","name"\n'
    assert said(*nothing, "--format", "json") == ""
    said(*nothing, "--format", "parquet", "-o", str(tmp_path / "none.parquet"))
    assert pq.read_schema(tmp_path / "none.parquet").names == ["id", "name"]


def test_a_file_that_fails_half_way_does_not_appear(table: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    write_deltalake(copy, pa.table({"k": [1]}))
    write_deltalake(copy, pa.table({"k": [2]}), mode="append")
    sorted(Path(copy).glob("*.parquet"))[-1].unlink()
    for form in ("csv", "parquet"):
        result = asked("read", copy, "--format", form, "-o", str(tmp_path / "out"))
        assert isinstance(result.exception, TailbitError)
    assert not list(tmp_path.glob("out*"))
    result = asked("read", table, "--format", "csv", "-o", str(tmp_path / "no" / "such" / "folder"))
    assert "UsageError" in repr(result.exception)


@pytest.mark.parametrize("form", ["table", "json"])
def test_bytes_that_are_no_utf_8_are_shown_replaced_inside_of_nested_values_too(
    tmp_path: Path, form: str
) -> None:
    text = pa.array([b"a\xff", b"b"], pa.binary()).cast(pa.string(), safe=False)
    builder = DeltaBuilder(str(tmp_path)).create(
        pa.schema([("s", pa.string()), ("n", pa.list_(pa.string()))])
    )
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text)
    builder.commit([builder.data_file(pa.table({"s": text, "n": nested}))])
    for column in ("s", "n"):
        assert "a\ufffd" in said("read", str(tmp_path), "--columns", column, "--format", form)


@pytest.fixture(scope="module")
def dotted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A field s.a beside columns named `s.a` and, with its backticks, "`s.a`"; not to be changed."""
    path = str(tmp_path_factory.mktemp("dotted") / "t")
    struct = pa.array([{"a": 1, "B": 2}], pa.struct([("a", pa.int64()), ("B", pa.int64())]))
    write_deltalake(path, pa.table({"s": struct, "s.a": [3], "`s.a`": [4], "s.b": [5], "count": [6]}))
    return path


DOTTED = {"s.a": 1, "s.B": 2, "`s.a`": 3, "```s.a```": 4, "`s.b`": 5}


def test_no_two_columns_have_one_name_in_any_output(dotted: str, tmp_path: Path) -> None:
    read = ("read", dotted, "--columns", ",".join(DOTTED))
    assert tailbit.open(dotted).where().read(list(DOTTED)).to_pylist() == [DOTTED]
    assert json.loads(said(*read, "--format", "json")) == DOTTED
    assert list(csv.DictReader(io.StringIO(said(*read, "--format", "csv")))) == [
        {name: str(value) for name, value in DOTTED.items()}
    ]
    assert said(*read).splitlines()[0].split("\t") == list(DOTTED)
    said(*read, "--format", "parquet", "-o", str(tmp_path / "rows.parquet"))
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == [DOTTED]


def test_a_name_that_is_given_apart_asks_for_the_same_column_again(dotted: str) -> None:
    answer = tailbit.open(dotted).where()
    assert [answer.read([name]).column(0).to_pylist() for name in DOTTED] == [[v] for v in DOTTED.values()]


def test_a_column_read_alone_keeps_its_own_name(dotted: str) -> None:
    assert tailbit.open(dotted).where().read(["`s.a`", "s"]).column_names == ["s.a", "s"]
    assert tailbit.open(dotted).where().read().column_names == ["s", "s.a", "`s.a`", "s.b", "count"]


def test_facets_of_a_column_named_count_have_two_names_in_their_header(dotted: str) -> None:
    assert said("facets", dotted, "count").splitlines() == ["`count`\tcount", "6\t1"]


def test_facets_never_give_two_columns_one_name(tmp_path: Path) -> None:
    columns = {"Count": [1, 1, 2], "`Count`": [5, 6, 7], "i": [1, 1, 1]}
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    builder = DeltaBuilder(str(tmp_path)).create(rows.schema)
    builder.commit([builder.data_file(rows)])
    first = said("facets", str(tmp_path), "count,```Count```", "--format", "json").splitlines()[0]
    assert json.loads(first) == {"``Count``": 1, "`Count`": 5, "count": 1}
    assert said("facets", str(tmp_path), "i,i", "--format", "csv").splitlines()[0] == '"i","`i`","count"'


def test_a_table_shows_twenty_rows_unless_told_otherwise(table: str) -> None:
    assert len(said("read", table).splitlines()) == 21
    assert len(said("read", table, "--limit", "25").splitlines()) == 26
    assert len(said("read", table, "--format", "csv").splitlines()) == 31
    assert said("read", table, "--limit", "0", "--columns", "v,k") == "v\tk\n"


def test_positions_are_tab_separated_or_json(table: str) -> None:
    lines = [line.split("\t") for line in said("positions", table, "k IN (3, 12)").splitlines()]
    assert [p for _, p in lines] == ["3", "2"] or [p for _, p in lines] == ["2", "3"]
    found = json_of("positions", table, "k IN (3, 12)", "--json")
    assert found["version"] == 2
    assert sorted(found["positions"].values()) == [[2], [3]]
    assert said("positions", table, "k > 99") == ""


def test_explain_prints_a_line_per_file_or_json(table: str) -> None:
    text = said("explain", table, "v = 'v1' AND k < 5")
    assert text.splitlines()[:2] == ["version 2, covered up to 1", "predicate: v = 'v1' AND k < 5"]
    assert text.splitlines()[3].startswith("postings of v: sparse, ")
    assert len(text.splitlines()) == 3 + 1 + 2 + 1 + 3
    found = json_of("explain", table, "v = 'v1' AND k < 5", "--json")
    assert {f["outcome"] for f in found["files"]} == {"rechecked", "pruned"}
    told = {"path", "covered", "outcome", "reason", "by", "rows", "matching", "row_groups", "row_groups_read"}
    assert set(found["files"][0]) == told
    text = said("explain", table, "k < 5", "--facets", "v")
    assert "facets by data: 5 rows, took " in text
    assert [step["way"] for step in json_of("explain", table, "--facets", "v", "--json")["facets"]][
        -1
    ] == "data"


def test_status_and_verify_print_facts_or_json(table: str) -> None:
    assert "covered version   1" in said("status", table)
    assert "encoding          v: sparse, " in said("status", table)
    status = json_of("status", table, "--json")
    assert (status["state"], status["covered_version"], status["head"]) == ("complete", 1, 2)
    assert said("verify", table).splitlines()[-1] == "sound"
    report = json_of("verify", table, "--json", "--samples", "7")
    assert report == {
        "sound": True,
        "state": "complete",
        "version": 1,
        "files": 2,
        "spaces": 1,
        "postings": 3,
        "positions": 20,
        "counts": 3,
        "sampled": 7,
        "derived": 0,
        "files_read": 5,
        "problems": [],
        "notes": [],
    }


def test_verify_names_the_problem_and_says_one(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"v": ["a", "b"]}))
    index_of(path, ["v"])
    tamper(path, lambda column, key, bits: bits - type(bits)([1]))
    result = asked("verify", path)
    assert "WRONG row space" in result.stdout
    assert command("verify", path).returncode == 1
    report = json.loads(command("verify", path, "--json").stdout)
    assert report["sound"] is False
    assert report["problems"][0].keys() == {"where", "found"}


@pytest.mark.parametrize("command", ["count", "verify", "status", "repair"])
def test_a_file_whose_name_steers_a_terminal_is_told_without_doing_so(tmp_path: Path, command: str) -> None:
    builder = DeltaBuilder(str(tmp_path / "t"))
    builder.create(pa.schema([("v", pa.string())]))
    name = "a\x1b]0;owned\x07\r\nb.parquet"
    builder.commit([builder.data_file(pa.table({"v": ["x", "y"]}), name)])
    if command in ("verify", "repair"):
        index_of(builder.path, ["v"])
    (tmp_path / "t" / name).write_bytes(b"x" * (tmp_path / "t" / name).stat().st_size)
    index_of(builder.path, ["v"])
    done = asked(command, builder.path, *(["v = 'x'"] if command == "count" else []))
    told = done.output
    if isinstance(done.exception, TailbitError):
        told += done.exception.describe()
    assert r"a\x1b]0;owned\x07\r\nb.parquet" in told
    assert not set("\x1b\x07\r") & set(told)


def test_compacting_broken_bitmaps_ends_by_name_and_says_what_to_do(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for n in range(8):
        write_deltalake(path, pa.table({"v": [n, n, 7]}), mode="append")
        index_of(path, ["v"])
    break_bitmaps(path)
    done = command("compact", path)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)
    assert re.match(r"CorruptIndexError: .* a bitmap is damaged.*\n  .*tailbit repair", done.stderr)


def test_compact_and_vacuum_say_what_they_did(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for n in range(9):
        write_deltalake(path, pa.table({"v": [n]}), mode="append")
        index_of(path, ["v"] if n == 0 else None)
    assert json_of("compact", path, "--json")["merged"] >= 1
    assert said("compact", path) == "0 merges\n"
    orphan = Path(path, "_tailbit", "kind=files", "files-0.1.ab.parquet")
    orphan.write_bytes(b"left by a lost race")
    os.utime(orphan, (1, 1))
    named = [f"kind=files/{orphan.name}"]
    assert json_of("vacuum", path, "--json", "--dry-run") == {"deleted": named, "dry_run": True}
    assert said("vacuum", path, "--dry-run") == "1 file would be deleted\n"
    assert json_of("vacuum", path, "--json", "--older-than", "24") == {"deleted": named, "dry_run": False}
    assert said("vacuum", path) == "0 files deleted\n"
    assert not orphan.exists()
    assert said("count", path, "v = 3") == "1\n"


def test_alter_says_what_changed_and_who_posts_it(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1], "v": ["x"], "a b": [2]}))
    index_of(path, ["v"])
    text = said("alter", path, "--add", "k,`a b`", "--drop", "v")
    assert "added: k, `a b`" in text
    assert "dropped: v" in text
    assert f"tailbit run {path}" in text
    assert "nothing to change" in said("alter", path, "--add", "k")
    assert json_of("status", path, "--json")["files_to_post"] == {"k": 1, "`a b`": 1}
    found = json_of("alter", path, "--add", "v", "--json")
    assert found == {"added": ["v"], "dropped": [], "columns": ["k", "`a b`", "v"], "indexer": None}


def test_a_damaged_index_is_warned_of_and_the_answer_is_right(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"v": ["a", "b"]}))
    index_of(path, ["v"])
    (file,) = index_files(path, "bitmap_index")
    truncated(file)
    result = asked("count", path, "v = 'a'")
    assert (result.exit_code, result.stdout) == (0, "1\n")
    assert f"warning: index file kind=bitmap_index/{file.name}" in result.stderr
    found = json_of("count", path, "v = 'a'", "--json")
    assert (found["count"], found["files_scanned"], len(found["damaged"])) == (1, 1, 1)
    assert command("verify", path).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("count", "{nowhere}"), "NotATableError: no Delta table and no Hudi table and no Iceberg table at"),
        (("count", "{table}", "k = = 1"), "PredicateError: predicate 'k = = 1'"),
        (("count", "{table}", "kk = 1"), "UnknownColumnError: no column kk in the table (nearest: k)"),
        (("count", "{table}", "--version", "77"), "VersionNotFoundError: version 77"),
        (("count", "{table}", "--as-of", "yesterday"), "'yesterday' is not a time"),
        (("count", "{table}", "--as-of", "1999-01-01"), "before the first readable commit"),
        (("count", "{table}", "--as-of", "2999-01-01"), "after the last commit"),
        (("count", "{table}", "--as-of", "2026-01-01", "--version", "1"), "both a version and a time"),
        (("count", "{table}", "k = 1", "--time-zone", "Nowhere"), "zone"),
        (("count", "{table}", "--index", "{nowhere}"), "NoIndexError"),
        (("count", "{table}", "--index", "{table}"), "ForeignIndexError"),
        (("facets", "{table}", "w"), "UnknownColumnError"),
        (("read", "{table}", "--columns", "k,nope"), "UnknownColumnError"),
        (("read", "{table}", "--columns", ""), "no columns are named"),
        (("read", "{table}", "--format", "parquet"), "needs -o FILE"),
        (("facets", "{table}", "v", "--format", "parquet"), "needs -o FILE"),
        (("facets", "{table}", "v", "--json", "-o", "{nowhere}"), "no FILE and no other format"),
        (("status", "{nowhere}"), "NotATableError"),
        (("nonsense",), "No such command"),
        (("count",), "Missing argument"),
        (("count", "{table}", "--version", "-1"), "'-1' is no version"),
        (("alter", "{table}"), "give --add or --drop"),
        (("alter", "{table}", "--add", "nope"), "UnknownColumnError"),
        (("erase", "{table}"), "give a condition by --where, or keys by --keys FILE"),
        (("locate", "{table}", "1", "--on", "k", "--keys", __file__), "give keys as arguments, or in a file"),
        (("erase", "{table}", "--where", "k = 1", "--keys", __file__), "give a condition by --where, or"),
    ],
)
def test_wrong_use_is_named_in_a_few_lines_with_status_2(
    table: str, tmp_path: Path, arguments: Sequence[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = in_process(
        [a.format(table=table, nowhere=tmp_path / "nowhere") for a in arguments], monkeypatch
    )
    assert status == 2, text
    assert message in text
    assert len(text.strip().splitlines()) <= 5


def test_a_table_that_is_not_there_ends_run_with_75_since_a_disk_may_be_mounted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = in_process(["run", str(tmp_path / "nowhere"), "--columns", "k"], monkeypatch)
    assert status == 75
    assert "NotATableError" in text


def in_process(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Status and stderr of `main`, which the console script calls."""
    from tailbit.cli.main import main

    monkeypatch.setattr(sys, "argv", ["tailbit", *arguments])
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), sys.stderr.getvalue()


def test_a_found_problem_is_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1, 2]}))
    (file,) = Path(path).glob("*.parquet")
    file.write_bytes(b"x" * file.stat().st_size)
    status, text = in_process(["count", path, "k = 1"], monkeypatch)
    assert (status, text.startswith("DataFileError")) == (1, True)
    file.unlink()
    status, text = in_process(["read", path], monkeypatch)
    assert (status, "missing" in text) == (1, True)


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_the_help_of_every_command_shows_an_example(name: str) -> None:
    text = said(name, "--help")
    examples = text.split("Usage:")[1].splitlines()[1:]
    assert any(line.strip().startswith(f"tailbit {name}") for line in examples), "on a line of its own"
    assert "\\b" not in text
    assert all(len(line) <= 110 for line in text.splitlines())


def test_help_and_version_and_nothing() -> None:
    assert "tailbit run TABLE" in said("--help")
    assert "tailbit" in said("--version")
    assert asked().exit_code == 2
    assert isinstance(cli, click.Group)


def test_names_in_a_list_of_columns_may_hold_commas_and_backticks() -> None:
    assert split_columns("a, b ,`c,d`,`e``,f`.g") == ["a", "b", "`c,d`", "`e``,f`.g"]
    assert split_columns(None) is None
    assert split_columns(" , ") == []


def test_a_count_loads_no_spark_no_writer_and_no_room_that_it_does_not_enter_and_starts_no_jvm(
    table: str,
) -> None:
    code = (
        "import sys, subprocess, runpy\n"
        "def refuse(*a, **k): raise AssertionError('a process was started')\n"
        "subprocess.Popen.__init__ = refuse\n"
        "import tailbit.cli.main\n"
        f"sys.argv = ['tailbit', 'count', {table!r}, \"v = 'v1' AND k > 3\"]\n"
        "try:\n    tailbit.cli.main.main()\n"
        "finally:\n"
        "    heavy = {'pyspark', 'py4j', 'delta', 'deltalake', 'pandas', 'pyarrow.dataset', 'rich'}\n"
        "    heavy.add('obstore')\n"
        "    rooms = ('grouping', 'analytics', 'write', 'maintenance', 'verification', 'repair', 'advice')\n"
        "    heavy |= {'tailbit.outputs', *(f'tailbit.index.{room}' for room in rooms)}\n"
        "    sys.stderr.write(str(sorted(heavy & set(sys.modules))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "9\n", "[]")


def test_the_console_script_ends_with_the_statuses_it_promises(table: str, tmp_path: Path) -> None:
    script = subprocess.run([TOOL, "count", table, "v = 'v1'"], capture_output=True, text=True, check=True)
    assert (script.stdout, command("count", str(tmp_path)).returncode) == ("10\n", 2)
    done = command("count", table, "nope = 1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("UnknownColumnError: no column nope")


def test_csv_goes_through_a_pipe_and_a_reader_that_leaves_early_is_no_problem(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": range(200_000), "s": ["ä" * 20] * 200_000}))
    for form in ("csv", "json"):
        line = f"'{TOOL}' read '{path}' --format {form} | head -n 2; echo ${{PIPESTATUS[0]}}"
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(["bash", "-c", line], capture_output=True, check=False, env=environment)
        assert done.stderr == b""
        assert done.stdout.splitlines()[-1] == b"0"
        assert "ä".encode() in done.stdout
    line = f"'{TOOL}' positions '{path}' | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
    assert (done.stderr, done.stdout.splitlines()[-1]) == (b"", b"0")


@pytest.fixture
def odd_texts(tmp_path: Path) -> str:
    """Two texts, one of which would break a line."""
    path = str(tmp_path / "odd")
    write_deltalake(path, pa.table({"s": ["x\ny\tz", "é"]}))
    return path


def test_a_line_holds_a_row_whatever_its_texts_hold(odd_texts: str, tmp_path: Path) -> None:
    expected = "s\nx\\ny\\tz\né\n"
    assert command("read", odd_texts).stdout == expected
    assert command("read", odd_texts, "-o", str(tmp_path / "out")).returncode == 0
    assert (tmp_path / "out").read_text() == expected
    assert sorted(command("facets", odd_texts, "s").stdout.splitlines()) == [
        "s\tcount",
        "x\\ny\\tz\t1",
        "é\t1",
    ]


def test_what_the_encoding_of_the_output_lacks_is_spelled_out(odd_texts: str) -> None:
    line, ascii_only = [TOOL, "facets", odd_texts, "s"], os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=ascii_only)
    assert (done.returncode, sorted(done.stdout.splitlines())[0]) == (0, "\\xe9\t1")


@pytest.mark.parametrize("command", ["count", "read", "facets", "explain"])
def test_a_full_disk_is_named(odd_texts: str, command: str) -> None:
    more = {"facets": "s", "explain": "s = 'é'"}.get(command, "TRUE")
    line = f"'{TOOL}' {command} '{odd_texts}' \"{more}\" > /dev/full"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (75, False)
    assert "No space left on device" in done.stderr


def test_an_output_that_is_closed_is_named(odd_texts: str) -> None:
    line = f"'{TOOL}' count '{odd_texts}' >&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "standard output is closed\n")


@pytest.mark.parametrize(
    ("output", "why"), [("", "no file"), ("{}", "no file"), ("{}/none/out", "does not exist")]
)
def test_an_output_that_can_be_no_file_is_wrong_use(
    odd_texts: str, tmp_path: Path, output: str, why: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = command("read", odd_texts, "-o", output.format(tmp_path))
    assert done.returncode == 2
    assert why in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_terminated_read_leaves_no_unfinished_file(odd_texts: str, tmp_path: Path) -> None:
    """The read waits for a data file, a pipe, when it is terminated."""
    os.mkfifo(tmp_path / "pipe")
    script = "import signal, time; from tailbit.cli.render import finished\n"
    script += f"with finished({str(tmp_path / 'out')!r}) as path:\n"
    script += f"    open(path, 'w').close(); open({str(tmp_path / 'pipe')!r}).read()\n"
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        writer = opened_by_its_reader(tmp_path / "pipe", process)
        signalled(process, signal.SIGTERM)
        assert process.wait(HANG_S) == 143
        os.close(writer)
    assert not list(tmp_path.glob("out*"))


def test_ctrl_c_ends_a_question_with_status_130(tmp_path: Path) -> None:
    """The question reads a commit that never ends, a pipe, when it is interrupted."""
    path = str(tmp_path / "t")
    builder = DeltaBuilder(path).create(pa.schema([("k", pa.int64())]))
    builder.commit([builder.data_file(pa.table({"k": [1]}), "f.parquet")])
    pipe = Path(path, "_delta_log", f"{2:020d}.json")
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [TOOL, "count", path, "k = 1 OR k <> 5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        commit = opened_by_its_reader(pipe, process)
        signalled(process, signal.SIGINT)
        out, err = process.communicate(timeout=HANG_S)
        os.close(commit)
    assert (process.returncode, out) == (130, "")
    assert "interrupted" in err
    assert "Traceback" not in err


def opened_by_its_reader(pipe: Path, reader: subprocess.Popen[str]) -> int:
    """The writing end of a pipe, once a process reads from it."""
    ends: list[int] = []

    def opened() -> bool:
        with suppress(OSError):
            ends.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(ends)

    wait_until(opened, lambda: None if reader.poll() is None else reader.communicate()[1])
    return ends[0]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StorageError(path="i", reason="the disk is full"), 75),
        (IndexerRunningError(owner="h, process 1", path="i", age=1.0, limit=30.0), 75),
        (StreamError(reason="Spark's Java process is gone", checkpoint="c"), 75),
        (DataFileError(file="f", reason="it is missing"), 1),
        (NoIndexError(path="i"), 2),
    ],
)
def test_the_exit_status_tells_a_supervisor_whether_to_start_again(
    table: str, monkeypatch: pytest.MonkeyPatch, error: TailbitError, status: int
) -> None:
    import tailbit.upkeep.status

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(tailbit.upkeep.status, "status_of", fail)
    assert in_process(["status", table], monkeypatch) == (status, f"{error.describe()}\n")
