"""What a notebook shows of answers, facets and explanations."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import EVERY_TYPE, eight_flights
from tailbit.api import IndexedTable
from tailbit.outputs.display import SHOWN_VALUES, Facets


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
