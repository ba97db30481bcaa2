"""What the commands that sum up a column print."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from support.tables import index_of
from tailbit.cli.main import cli
from tailbit.errors import AggregateError, ColumnTypeError, UsageError


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Version 0 has ten rows of January, version 1 five of March."""
    path = str(tmp_path_factory.mktemp("cli") / "t")
    for first, month, rows in ((0, 1, 10), (10, 3, 5)):
        keys = list(range(first, first + rows))
        days = [datetime.date(2026, month, 1 + k % 3) for k in keys]
        columns = {"k": pa.array(keys, pa.int64()), "v": [f"v{k % 3}" for k in keys], "d": days}
        write_deltalake(path, pa.table(columns), mode="append")
        index_of(path, ["k", "v"])
    return path


def said(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def json_of(*arguments: str) -> Any:
    return json.loads(said(*arguments, "--json"))


def test_a_summary_has_a_line_a_fact(table: str) -> None:
    assert said("summary", table, "k", "--where", "v = 'v1'").splitlines() == [
        *("k\tvalue", "rows\t5", "nulls\t0", "distinct\t5", "min\t1", "max\t13", "sum\t35", "avg\t7.0")
    ]
    assert json_of("summary", table, "d") == {
        "column": "d",
        "version": 1,
        "rows": 15,
        "nulls": 0,
        "distinct": 6,
        "sum": None,
        "avg": None,
        "min": "2026-01-01",
        "max": "2026-03-03",
    }


def test_a_histogram_has_bins_of_one_width_or_parts_of_dates(table: str) -> None:
    assert said("histogram", table, "k", "--bins", "2") == "low\thigh\tcount\n0\t7.0\t7\n7.0\t14\t8\n"
    assert json_of("histogram", table, "d", "--by", "month", "--where", "k <> 0") == {
        "column": "d",
        "version": 1,
        "by": "month",
        "parts": [{"begin": "2026-01-01", "count": 9}, {"begin": "2026-03-01", "count": 5}],
    }
    with pytest.raises(UsageError, match="fortnight"):
        said("histogram", table, "d", "--by", "fortnight")
    with pytest.raises(ColumnTypeError, match="numbers"):
        said("histogram", table, "v")


def test_transitions_tell_what_left_and_what_came(table: str) -> None:
    assert said("transitions", table, "v", "--from", "0", "--to", "1") == (
        "v\tleft\tcame\nv1\t0\t2\nv2\t0\t2\nv0\t0\t1\n"
    )
    assert json_of("transitions", table, "v", "--from", "1", "--to", "0")["transitions"][0] == {
        "value": "v1",
        "left": 2,
        "came": 0,
    }


def test_facets_of_two_columns_have_a_column_each(table: str) -> None:
    assert said("facets", table, "v,d", "--top", "2").splitlines() == [
        *("v\td\tcount", "v0\t2026-01-01\t4", "v1\t2026-01-02\t3")
    ]
    found = json_of("facets", table, "v,d", "--where", "k = 1")
    assert found["facets"] == [{"value": ["v1", "2026-01-02"], "count": 1}]


def test_a_sum_beyond_its_type_is_refused_by_name(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"n": pa.array([2**62, 2**62], pa.int64())}))
    with pytest.raises(AggregateError, match="sum of column n overflows"):
        said("summary", str(tmp_path / "t"), "n")


def test_expressions_stand_where_columns_do(table: str) -> None:
    asked = "concat(v, ', ', upper(v)), k % 2"
    facets = json_of("facets", table, asked, "--sum", "k * 2, k", "--top", "1")["facets"]
    assert facets == [{"value": ["v0, V0", 0], "count": 3, "sum(k * 2)": 36, "sum(k)": 18}]
    tab = json_of("crosstab", table, "upper(v)", "month(d)")
    assert (tab["rows"]["values"], tab["columns"]["values"]) == (["V0", "V1", "V2"], [1, 3])
    assert tab["counts"] == [[4, 1], [3, 2], [3, 2]]
    assert json_of("summary", table, "k % 3")["distinct"] == 3
    moved = json_of("transitions", table, "upper(v)", "--from", "0", "--to", "1")["transitions"]
    assert {move["value"]: (move["left"], move["came"]) for move in moved} == {
        "V0": (0, 1),
        "V1": (0, 2),
        "V2": (0, 2),
    }
