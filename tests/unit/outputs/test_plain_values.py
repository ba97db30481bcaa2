"""Values of every type as JSON, CSV and cells of a table: nothing is lost, and JSON is JSON."""

from __future__ import annotations

import csv
import datetime
import io
import json
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import EVERY_TYPE, eight_flights
from tailbit.api import IndexedTable
from tailbit.cli.render import write_rows
from tailbit.errors import UsageError
from tailbit.outputs.display import SHOWN_VALUES, Facets, cell, json_value, plain_rows, plain_values
from tailbit.tables.date_text import date_texts

DATE, TIME, NTZ = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")
STRUCT = pa.struct([("a", pa.int32()), ("d", DATE)])
LEAST, MOST = -(2**63), 2**63 - 1

CASES: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "struct keys": (
        pa.map_(STRUCT, pa.string()),
        [[({"a": 1, "d": 0}, "x"), ({"a": None, "d": None}, None)], [], None],
        [
            [
                {"key": {"a": 1, "d": "1970-01-01"}, "value": "x"},
                {"key": {"a": None, "d": None}, "value": None},
            ],
            [],
            None,
        ],
    ),
    "array keys": (
        pa.map_(pa.list_(pa.int32()), pa.list_(NTZ)),
        [[([1, None], [0])], [([], None)]],
        [[{"key": [1, None], "value": ["1970-01-01 00:00:00.000000"]}], [{"key": [], "value": None}]],
    ),
    "map keys": (
        pa.map_(pa.map_(pa.string(), DATE), pa.int8()),
        [[([("k", 1)], 5)]],
        [[{"key": {"k": "1970-01-02"}, "value": 5}]],
    ),
    "plain keys": (pa.map_(DATE, pa.bool_()), [[(-1, True)], []], [{"1969-12-31": True}, {}]),
    "boolean keys": (pa.map_(pa.bool_(), pa.int8()), [[(True, 1), (False, 2)]], [{"true": 1, "false": 2}]),
    "float keys": (
        pa.map_(pa.float64(), pa.float64()),
        [[(float("nan"), float("inf")), (-0.0, float("-inf")), (0.0, 0.5)]],
        [{"NaN": "Infinity", "-0.0": "-Infinity", "0.0": 0.5}],
    ),
    "binary keys": (pa.map_(pa.binary(), pa.binary()), [[(b"\xff", b"")]], [{"ff": ""}]),
    "decimals": (pa.decimal128(38, 26), [Decimal("1e-26"), None], ["0." + "0" * 25 + "1", None]),
    "dates": (
        DATE,
        [-719_529, -719_163, 2_932_897, 2**31 - 1, -(2**31)],
        ["-0001-12-31", "0000-12-31", "10000-01-01", "5881580-07-11", "-5877641-06-23"],
    ),
    "times": (
        TIME,
        [2**62, MOST, LEAST, LEAST + 1, -62_198_755_200_000_001],
        [
            "148108-07-06 14:00:27.387904Z",
            "294247-01-10 04:00:54.775807Z",
            "-290308-12-21 19:59:05.224192Z",
            "-290308-12-21 19:59:05.224193Z",
            "-0002-12-31 23:59:59.999999Z",
        ],
    ),
    "lists of maps": (
        pa.list_(pa.map_(pa.string(), pa.list_(STRUCT))),
        [[[("k", [{"a": 1, "d": 2}])], None, []], None, []],
        [[{"k": [{"a": 1, "d": "1970-01-03"}]}, None, {}], None, []],
    ),
    "huge": (pa.int64(), [MOST, LEAST], [MOST, LEAST]),
    "nothing": (pa.null(), [None, None], [None, None]),
    "empty struct": (pa.struct([]), [{}, None], [{}, None]),
}


def strict(text: str) -> Any:
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def written(table: pa.Table, form: str, folder: Path) -> str:
    write_rows(table.schema, [table], form, str(folder / "out"))
    return (folder / "out").read_text()


@pytest.mark.parametrize("name", CASES)
def test_values_of_every_type_are_plain_in_every_output(name: str, tmp_path: Path) -> None:
    type_, values, expected = CASES[name]
    table = pa.table({"n": range(len(values)), "c": pa.array(values, type_)})
    lines = written(table, "json", tmp_path).splitlines()
    assert [strict(line)["c"] for line in lines] == expected
    cells = [line.split("\t")[1] for line in written(table, "table", tmp_path).splitlines()]
    assert cells == ["c", *map(cell, expected)]
    found = [row["c"] for row in csv.DictReader(io.StringIO(written(table, "csv", tmp_path)))]
    texts = ["" if v is None else v if isinstance(v, str) else json.dumps(v) for v in expected]
    assert found == texts


@pytest.mark.parametrize("name", CASES)
def test_a_part_of_a_column_has_its_own_values(name: str) -> None:
    type_, values, expected = CASES[name]
    whole = pa.array([*values, *values], type_)
    for start in range(len(whole)):
        assert plain_values(whole.slice(start, 2)) == [*expected, *expected][start : start + 2]


def test_a_map_that_holds_a_key_twice_is_refused_and_never_cut(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int32()))})
    for form in ("json", "csv", "table"):
        with pytest.raises(UsageError, match="'k' twice"):
            written(table, form, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_table_with_maps_of_any_key_is_read_as_duckdb_reads_its_files(tmp_path: Path) -> None:
    import tailbit

    builder = DeltaBuilder(str(tmp_path)).create(pa.schema([("m", pa.map_(STRUCT, pa.list_(DATE)))]))
    rows = pa.table({"m": pa.array([[({"a": 1, "d": 5}, [0])], None, []], pa.map_(STRUCT, pa.list_(DATE)))})
    builder.commit([builder.data_file(rows, "f.parquet")])
    judged = duckdb.sql(f"SELECT to_json(map_entries(m)) FROM '{tmp_path}/f.parquet'").fetchall()
    found = [row["m"] for row in plain_rows([tailbit.open(str(tmp_path)).where().read()])]
    assert found == [None if text is None else strict(text) for (text,) in judged]


@given(st.lists(st.none() | st.integers(-(10**17), 10**17)))
def test_times_are_spelled_as_duckdb_spells_them(micros: list[int | None]) -> None:
    values = pa.table({"n": range(len(micros)), "t": pa.array(micros, NTZ)})
    years = "year(t), strftime(t, '-%m-%d %H:%M:%S.%f')"
    judged = duckdb.from_arrow(values).query("v", f"SELECT {years} FROM v ORDER BY n").fetchall()
    expected = [None if y is None else f"{'-' * (y < 0)}{abs(y):04d}{rest}" for y, rest in judged]
    assert date_texts(values["t"].combine_chunks()) == expected


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1))
def test_a_date_is_spelled_so_that_its_day_comes_back(days: list[int]) -> None:
    texts = date_texts(pa.array(days, DATE))
    assert np.array(texts, "datetime64[D]").astype(np.int64).tolist() == days


LEAVES: tuple[tuple[pa.DataType, st.SearchStrategy[Any]], ...] = (
    (pa.int64(), st.integers(LEAST, MOST)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(max_size=4)),
    (pa.binary(), st.binary(max_size=3)),
    (pa.bool_(), st.booleans()),
    (DATE, st.dates()),
    (NTZ, st.datetimes()),
    (pa.decimal128(12, 9), st.decimals(-999, 999, places=9).map(lambda number: number + 0)),
)


@st.composite
def columns(draw: st.DrawFn, depth: int = 3) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """A type, maps with keys of any type among them, and a strategy for its values."""
    kind = draw(st.sampled_from(["leaf", "list", "struct", "map"] if depth else ["leaf"]))
    if kind == "leaf":
        type_, values = draw(st.sampled_from(LEAVES))
        return type_, st.none() | values
    inner, values = draw(columns(depth=depth - 1))
    if kind == "list":
        return pa.list_(inner), st.none() | st.lists(values, max_size=3)
    other, others = draw(columns(depth=depth - 1))
    if kind == "struct":
        fields = st.fixed_dictionaries({"x": values, "Y y": others})
        return pa.struct([("x", inner), ("Y y", other)]), st.none() | fields
    keys = values.filter(lambda key: key is not None)
    pairs = st.lists(st.tuples(keys, others), max_size=3, unique_by=lambda pair: repr(pair[0]))
    return pa.map_(inner, other), st.none() | pairs


def by_hand(value: Any, type_: pa.DataType) -> Any:
    """A value as the JSON output has it, one by one from what Python sees."""
    if value is None:
        return None
    if pa.types.is_list(type_):
        return [by_hand(v, type_.value_type) for v in value]
    if pa.types.is_struct(type_):
        return {f.name: by_hand(value[f.name], f.type) for f in type_}
    if pa.types.is_map(type_):
        pairs = [(by_hand(k, type_.key_type), by_hand(v, type_.item_type)) for k, v in value]
        if pa.types.is_nested(type_.key_type):
            return [{"key": k, "value": v} for k, v in pairs]
        return {cell(k): v for k, v in pairs}
    if isinstance(value, datetime.datetime):
        return f"{value.year:04d}-{value:%m-%d %H:%M:%S}.{value.microsecond:06d}"
    return json_value(value)


@given(st.data())
def test_values_of_random_nested_types_are_strict_json_and_whole(data: st.DataObject) -> None:
    type_, values = data.draw(columns())
    array = pa.array(data.draw(st.lists(values, max_size=4)), type_)
    start = data.draw(st.integers(0, len(array)))
    part = array.slice(start)
    found = plain_values(part)
    assert found == [by_hand(v, type_) for v in part.to_pylist()]
    assert strict(json.dumps(found)) == found


class Read(HTMLParser):
    """The cells and other texts of a page, and the widths of its bars; every tag must be closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.notes: list[str] = []
        self.widths: list[int] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
        elif tag == "div":
            self.widths.append(int((dict(attrs)["style"] or "").rpartition("width:")[2].rstrip("px")))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "p":
            self.notes.append(data)
        else:
            self.cells[-1] += data


@pytest.fixture
def flights(tmp_path: Path) -> IndexedTable:
    eight_flights(str(tmp_path / "flights"))
    return tailbit.open(tmp_path / "flights")


def test_an_answer_shows_what_it_is_its_first_rows_and_how_many_there_are(flights: IndexedTable) -> None:
    answer = flights.where("carrier = 'DL' OR dep_delay < 0")
    page = Read(answer._repr_html_())
    assert page.notes == [repr(answer), "3 rows"]
    assert page.cells == [
        *("flight", "carrier", "dest", "dep_delay"),
        *("2", "AA", "LAX", "-2"),
        *("6", "DL", "SFO", "12"),
        *("8", "UA", "SFO", "-4"),
    ]


def test_an_answer_of_many_rows_shows_the_first_and_says_so(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path)).create(pa.schema([("k", pa.int64())]))
    builder.commit([builder.data_file(pa.table({"k": pa.array(range(2000), pa.int64())}))])
    page = Read(tailbit.open(tmp_path).where()._repr_html_())
    assert page.cells == ["k", *map(str, range(10))]
    assert page.notes[-1] == "2,000 rows, the first 10 shown"


def test_an_answer_of_a_table_without_columns_shows_its_rows_by_number_alone(tmp_path: Path) -> None:
    DeltaBuilder(str(tmp_path)).create(pa.schema([]))
    page = Read(tailbit.open(tmp_path).where()._repr_html_())
    assert (page.cells, page.notes[-1]) == ([], "0 rows")


def test_values_of_every_type_are_shown_and_nothing_of_them_is_markup(tmp_path: Path) -> None:
    rows = EVERY_TYPE.set_column(6, "name", pa.array(["<b>&amp;</b>", "", None, "'\"", "a", "b"]))
    builder = DeltaBuilder(str(tmp_path)).create(rows.schema)
    builder.commit([builder.data_file(rows)])
    answer = tailbit.open(tmp_path).where("name = '<b>&amp;</b>'")
    page = Read(answer._repr_html_())
    assert page.cells[len(rows.column_names) + 6] == "<b>&amp;</b>"
    assert len(page.cells) == 2 * len(rows.column_names)
    assert "<b>" in page.notes[0]


def test_facets_are_shown_as_bars_as_long_as_their_rows_are_many(flights: IndexedTable) -> None:
    facets = flights.where().facets("carrier")
    page = Read(facets._repr_html_())  # type: ignore[attr-defined]
    assert page.cells == ["value", "rows", "", "UA", "4", "", "AA", "2", "", "NULL", "1", "", "DL", "1", ""]
    assert page.widths == [240, 120, 60, 60]


def test_facets_of_many_values_show_the_most_frequent_and_say_how_many_are_left() -> None:
    page = Read(Facets({n: 100 - n for n in range(SHOWN_VALUES + 5)})._repr_html_())
    assert len(page.widths) == SHOWN_VALUES
    assert page.notes == ["and 5 more values"]
    assert Read(Facets()._repr_html_()).widths == []


def test_facets_and_explanations_are_dicts_as_ever(flights: IndexedTable) -> None:
    answer = flights.where("carrier = 'DL'")
    assert answer.facets("dest") == {"SFO": 1}
    assert repr(answer.facets("dest")) == "{'SFO': 1}"
    assert json.loads(json.dumps(answer.explain()))["count"] == 1


def test_an_explanation_shows_what_became_of_each_file(flights: IndexedTable) -> None:
    page = Read(flights.where("carrier = 'DL'").explain()._repr_html_())  # type: ignore[attr-defined]
    assert page.cells[6:12] == ["a.parquet", "true", "pruned", "carrier = 'DL'", "4", "0"]
    assert page.cells[12:14] == ["b.parquet", "true"]
    assert page.notes[0].startswith("version 2, covered up to 2; carrier = 'DL'; 1 row; 0 of 2 files read")
