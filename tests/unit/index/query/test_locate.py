"""Keys are located in the files and rows where they lie, by postings, by a condition, and by a scan."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import polars
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import (
    EIGHT_FLIGHTS,
    VECTORS,
    eight_flights,
    flipped_pages,
    index_files,
    index_of,
)
from tailbit.cli.keys import keys_of_file
from tailbit.cli.main import cli
from tailbit.errors import ColumnTypeError, UnknownColumnError, UsageError
from tailbit.index.query import locate
from tailbit.index.query.locate import Keys, _ordered
from tailbit.index.query.lookup import KeyRows


@pytest.fixture
def flights(table_path: str) -> tailbit.IndexedTable:
    """Eight flights, and one that the index does not know yet; flights and carriers are indexed."""
    builder = eight_flights(table_path)
    tailbit.open(table_path).alter(add=["flight"])
    tailbit.open(table_path).create_index("pair", ["flight", "carrier"])
    index_of(table_path)
    builder.commit([builder.data_file(EIGHT_FLIGHTS.slice(2, 2), "c.parquet")])
    return tailbit.open(table_path)


def places(located: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in located.to_pylist()]


TWICE_AND_NOWHERE = [(5, "b.parquet", 0), (3, "a.parquet", 2), (3, "c.parquet", 0), (99, None, None)]


@pytest.mark.parametrize(
    "keys",
    [
        [5, 3, 99],
        [5, 3, 5, 99, 3],
        (5, 3, 99),
        [{"flight": 5}, {"flight": 3}, {"flight": 99}],
        pa.table({"flight": pa.array([5, 3, 99], pa.int8())}),
        pa.table({"flight": pa.array([5, 3, 99]).dictionary_encode(), "other": [1, 2, 3]}),
        pa.array([5, 3, 99]),
        polars.DataFrame({"flight": [5, 3, 99]}),
        ["5", "3", "99"],
        [5.0, 3.0, 99.0],
        [Decimal(5), Decimal(3), Decimal(99)],
    ],
    ids=[
        "list",
        "twice",
        "tuple",
        "dicts",
        "narrow",
        "coded",
        "array",
        "polars",
        "texts",
        "doubles",
        "decimals",
    ],
)
def test_each_key_stands_once_for_each_of_its_rows_in_the_order_given(
    flights: tailbit.IndexedTable, keys: Any
) -> None:
    located = flights.locate(keys, on="flight")
    assert [(int(key), *place) for key, *place in places(located)] == TWICE_AND_NOWHERE
    assert located.schema.types[1:] == [pa.string(), pa.int64()]


@pytest.mark.parametrize("on", [["carrier", "flight"], ["flight", "carrier"], ["carrier", "flight", "dest"]])
def test_keys_of_several_columns_are_pairs_not_a_mixture(
    flights: tailbit.IndexedTable, on: Sequence[str]
) -> None:
    keys = pa.table({"carrier": ["UA", "AA", "UA"], "flight": [1, 1, 3], "dest": ["SFO", "SFO", "LAX"]})
    expected = [("a.parquet", 0), (None, None), ("a.parquet", 2), ("c.parquet", 0)]
    assert [row[-2:] for row in places(flights.locate(keys, on=on))] == expected


@pytest.mark.parametrize("scanned", [False, True])
def test_a_tuple_that_an_index_has_the_keys_of_needs_no_data(
    flights: tailbit.IndexedTable, table_path: str, scanned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "is_scanned", lambda *_: scanned)
    for name in ("a.parquet", "b.parquet"):
        Path(table_path, name).unlink()
    assert places(flights.locate([("UA", 8)], on=["carrier", "flight"])) == [("UA", 8, "b.parquet", 3)]


@pytest.mark.parametrize("scanned", [False, True])
@pytest.mark.parametrize("many", [1, 40, 3000])
def test_rows_hidden_among_few_and_among_many_located_ones_are_left_out(
    table_path: str, many: int, scanned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "is_scanned", lambda *_: scanned)
    hidden = [0, 17, 1500, 2998, 2999]
    builder = DeltaBuilder(table_path).create(pa.schema([("k", pa.int64()), ("g", pa.int64())]), **VECTORS)
    rows = pa.table({"k": range(3000), "g": [k % 3 for k in range(3000)]})
    builder.commit([builder.data_file(rows, "f.parquet")])
    (vector,) = builder.stored_vectors(hidden)
    builder.commit(builder.hide("f.parquet", vector))
    index_of(table_path, ["k", "g"])
    opened = tailbit.open(table_path)
    keys = [0, *range(3000 - many, 3000)]
    by_key = {key: position for key, _, position in places(opened.locate(keys, on="k"))}
    assert by_key == {key: None if key in hidden else key for key in keys}
    of_group = [position for _, _, position in places(opened.locate([2], on="g"))]
    assert of_group == [k for k in range(2, 3000, 3) if k not in hidden]


def test_damaged_postings_are_set_aside_and_the_data_is_read(
    flights: tailbit.IndexedTable, table_path: str
) -> None:
    for segment in index_files(table_path, "bitmap_index"):
        flipped_pages(segment)
    assert places(tailbit.open(table_path).locate([5, 3, 99], on="flight")) == TWICE_AND_NOWHERE


def test_long_texts_are_told_apart_by_their_values(table_path: str) -> None:
    texts = ["x" * 300 + end for end in ("a", "b", "c")]
    write_deltalake(table_path, pa.table({"s": texts}))
    index_of(table_path, ["s"])
    located = tailbit.open(table_path).locate([texts[2], "x" * 300, texts[0]], on="s")
    assert located["position"].to_pylist() == [2, None, 0]


def test_a_decimal_of_many_digits_is_found_by_all_of_them(table_path: str) -> None:
    key = Decimal("99999999999999999999.999999999999999999")
    write_deltalake(table_path, pa.table({"d": pa.array([Decimal(1), key], pa.decimal128(38, 18))}))
    assert tailbit.open(table_path).locate([key], on="d")["position"].to_pylist() == [1]


def test_keys_that_are_other_numbers_are_those_of_the_same_value(table_path: str) -> None:
    """Arrow rounds 0.104 to a decimal, and makes 0.30000000000000004 of the decimal 0.3."""
    rows = {"d": pa.array([Decimal("0.10"), Decimal("0.30")], pa.decimal128(9, 2)), "x": [0.1, 0.3]}
    write_deltalake(table_path, pa.table(rows))
    table = tailbit.open(table_path)
    assert table.locate([0.3, 0.1], on="d")["position"].to_pylist() == [1, 0]
    assert table.locate([Decimal("0.3")], on="x")["position"].to_pylist() == [1]
    floats = pa.table({"d": pa.array([0.1], pa.float32())})
    for keys, on in (([0.104], "d"), (floats, None), ([1e15], "d"), ([Decimal("0." + "3" * 30)], "x")):
        with pytest.raises(UsageError, match="do not fit"):
            table.locate(keys, on)


@pytest.mark.parametrize(
    ("name", "places"),
    [("path", "_path _position"), ("Path", "_path _position"), ("_CHANGE", "path position")],
)
def test_a_key_column_named_path_keeps_its_name(table_path: str, name: str, places: str) -> None:
    write_deltalake(table_path, pa.table({name: ["a", "b"], "change": ["c", "d"]}))
    located = tailbit.open(table_path).locate(["b"], on=name)
    assert located.column_names == [name, *places.split()]
    located = tailbit.open(table_path).locate([("b", "d")], on=[name, "change"], since=0)
    assert located.column_names == [
        name,
        "change",
        *places.split(),
        "__change" if name == "_CHANGE" else "_change",
    ]


def test_no_keys_are_located_nowhere(flights: tailbit.IndexedTable) -> None:
    assert len(flights.locate([], on="flight")) == 0


@pytest.mark.parametrize(
    ("keys", "on", "said"),
    [
        ([1, None], "flight", "a key has NULL in flight"),
        (["one"], "flight", "keys of type string do not fit column flight, which is BIGINT"),
        ([1.5], "flight", "keys of type double do not fit column flight"),
        ([1], "carrier", "keys of type int64 do not fit column carrier, which is STRING"),
        ([datetime.date(2026, 1, 1)], "flight", "keys of type date32"),
        ([1, "a"], "flight", "keys are of several types"),
        ([(1, 2)], "flight", "a key has not one value for each of flight"),
        ([1], ["flight", "carrier"], "a key has not one value for each of flight, carrier"),
        ([1], None, "keys have no names"),
        ("UA", "carrier", "keys is 'UA', of type str"),
        (5, "flight", "keys is 5, of type int"),
        (pa.table({"f": [1]}), "flight", "keys have no column flight"),
        (pa.table({"flight": [1]}), [], "no key column is named"),
    ],
)
def test_what_is_no_key_is_refused_by_name(
    flights: tailbit.IndexedTable, keys: Any, on: Any, said: str
) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        flights.locate(keys, on=on)


def test_a_column_that_is_not_there_or_has_no_keys_is_named(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"a": [[1]]}))
    table = tailbit.open(table_path)
    with pytest.raises(UnknownColumnError, match="no column b"):
        table.locate([1], on="b")
    with pytest.raises(ColumnTypeError, match="column a is of type ARRAY"):
        table.locate([1], on="a")


def test_few_rows_are_looked_at_where_postings_have_the_keys(
    flights: tailbit.IndexedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    plain = Keys._read

    def counted(keys: Keys, selection: Any) -> Any:
        seen.append(len(selection.coverage.spaces))
        return plain(keys, selection)

    monkeypatch.setattr(Keys, "_read", counted)
    flights.locate([5], on="flight")
    flights.locate(["SFO"], on="dest")
    assert seen[0] == 0 < seen[1]


def told(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["locate", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_tells_places_and_how_many_keys_have_none(
    flights: tailbit.IndexedTable, table_path: str
) -> None:
    code, out, err = told(table_path, "--on", "flight", "5", "3", "99")
    assert code == 0
    assert out.splitlines()[1:] == ["5\tb.parquet\t0", "3\ta.parquet\t2", "3\tc.parquet\t0", "99\tNULL\tNULL"]
    assert "3 keys: 1 without a row, 1 with several" in err
    _, out, _ = told(table_path, "--on", "carrier,flight", "UA,1")
    assert out.splitlines()[1:] == ["UA\t1\ta.parquet\t0"]


@pytest.mark.parametrize("end", ["csv", "parquet", "json", "arrow"])
def test_the_command_takes_keys_from_a_file(
    flights: tailbit.IndexedTable, table_path: str, tmp_path: Path, end: str
) -> None:
    file, keys = str(tmp_path / f"keys.{end}"), polars.DataFrame({"carrier": ["UA"], "flight": [8]})
    {
        "csv": keys.write_csv,
        "parquet": keys.write_parquet,
        "json": keys.write_ndjson,
        "arrow": keys.write_ipc,
    }[end](file)
    code, out, _ = told(table_path, "--keys", file)
    assert (code, out.splitlines()[1:]) == (0, ["UA\t8\tb.parquet\t3"])


def test_an_empty_cell_of_a_csv_file_is_null_and_a_quoted_one_is_the_empty_text(
    flights: tailbit.IndexedTable, table_path: str, tmp_path: Path
) -> None:
    file = tmp_path / "keys.csv"
    file.write_text("carrier,flight\nUA,8\nUA,\n")
    with pytest.raises(UsageError, match="a key has NULL in flight"):
        flights.locate(keys_of_file(str(file)))
    file.write_text('carrier,flight\n"",8\n')
    assert told(table_path, "--keys", str(file))[1].splitlines()[1:] == ["\t8\tNULL\tNULL"]


MIDNIGHT = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("given", "column", "hint"),
    [
        (MIDNIGHT.replace(tzinfo=None), "at", "with a time zone"),
        (MIDNIGHT, "plain", "without a time zone"),
        (uuid4(), "name", "str(key)"),
        (1.5, "at", "that are timestamp"),
    ],
)
def test_keys_of_another_type_are_refused_with_what_to_give(
    table_path: str, given: object, column: str, hint: str
) -> None:
    at = pa.array([0], pa.timestamp("us", "UTC"))
    rows = {"at": at, "plain": pa.array([0], pa.timestamp("us")), "name": ["a"]}
    write_deltalake(table_path, pa.table(rows))
    with pytest.raises(UsageError) as refused:
        tailbit.open(table_path).locate([given], on=column)
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give keys as arguments, or in a file"),
        (("5",), "name the key columns"),
        (("--on", "", "5"), "name the key columns"),
        (("--keys", "keys.txt"), "keys.txt is no file of keys"),
        (("--keys", "absent.csv"), "absent.csv cannot be read"),
        (("--keys", "keys.csv", "--on", "flight", "5"), "give keys as arguments, or in a file"),
    ],
)
def test_the_command_says_what_it_needs(table_path: str, arguments: tuple[str, ...], said: str) -> None:
    eight_flights(table_path)
    code, _, err = told(table_path, *arguments)
    assert code == 2
    assert said in err


def test_partition_values_of_a_key_are_those_of_the_log_and_no_data_file_is_read(table_path: str) -> None:
    for part, first in (("a", 0), ("b", 5), (None, 10), ("a", 15)):
        rows = {"id": pa.array(range(first, first + 10)), "part": pa.array([part] * 10, pa.string())}
        write_deltalake(table_path, pa.table(rows), mode="append", partition_by=["part"])
    index_of(table_path, ["id"])
    keys = [("a", 3), ("b", 3), ("a", 17), ("b", 14), ("b", 5), ("c", 5), ("a", 16)]
    for file in Path(table_path).glob("part=*/*.parquet"):
        file.unlink()
    found = tailbit.open(table_path).locate(keys, on=["part", "id"])
    where = [(part, row, path and path.split("/")[0], at) for part, row, path, at in places(found)]
    assert where == [
        ("a", 3, "part=a", 3),
        ("b", 3, None, None),
        ("a", 17, "part=a", 2),
        ("b", 14, "part=b", 9),
        ("b", 5, "part=b", 0),
        ("c", 5, None, None),
        ("a", 16, "part=a", 1),
    ]


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_single_days_and_times_of_numpy_are_keys_in_a_list_as_in_an_array(tmp_path: Path, unit: str) -> None:
    path = str(tmp_path / "days")
    day = np.datetime64("2024-01-01", unit)
    at = pa.array(np.array([day]).astype("datetime64[D]" if unit == "D" else "datetime64[us]"))
    write_deltalake(path, pa.table({"at": at}))
    table = tailbit.open(path)
    for keys in ([day], [{"at": day}], np.array([day])):
        assert table.locate(keys, on="at")["position"].to_pylist() == [0]


@pytest.mark.parametrize("count", [500, 5000])
@pytest.mark.parametrize("farthest", [1 << 20, 1 << 31])
def test_rows_are_ordered_by_key_file_and_position_whether_or_not_a_number_holds_all_three(
    farthest: int, count: int
) -> None:
    rng = np.random.default_rng(7)
    keys, absent = rng.integers(0, 1 << 24, count), np.array([3, 1 << 24])
    ranks = rng.permutation(np.arange(1, (1 << 17) + 1))
    places = [
        KeyRows(chosen, rng.integers(0, len(ranks), count // 2), rng.integers(0, farthest, count // 2))
        for chosen in np.split(keys, 2)
    ]
    found = np.column_stack(_ordered(places, ranks, absent)).tolist()
    rows = [row for each in places for row in zip(each.keys, ranks[each.files], each.positions, strict=True)]
    assert found == sorted([*map(list, rows), [3, 0, 0], [1 << 24, 0, 0]])
