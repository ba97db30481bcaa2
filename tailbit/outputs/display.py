"""Answers, facets and explanations as HTML for notebooks, which ask an object for its `_repr_html_`.

All text is escaped. Nothing is loaded from anywhere: a notebook shows it without a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.base.lazy import lazy
from tailbit.base.wording import counted
from tailbit.outputs.frames import to_pandas, to_polars
from tailbit.outputs.plain_values import cell, json_value, plain_rows

if TYPE_CHECKING:
    import html
else:
    html = lazy("html")

SHOWN_ROWS = 10
SHOWN_VALUES = 30
_BAR_PX = 240


class Facets(dict[Any, int]):
    """A dict of value to row count that a notebook shows as bars."""

    def _repr_html_(self) -> str:
        """Render a bar per value, its length in proportion to the most frequent value's rows."""
        most = max(self.values(), default=0)
        rows = [
            (html.escape(cell(json_value(value))), f"{n:,}", _bar(n, most))
            for value, n in list(self.items())[:SHOWN_VALUES]
        ]
        return _table(("value", "rows", ""), rows) + _not_shown(len(self) - len(rows), "value")


class Measured(Facets):
    """A dict of value to `count` and measures by name.

    `table`: the same as an Arrow table: the values, `count`, and each measure in the type that Spark gives
    it.
    """

    def __init__(self, records: dict[Any, Any], table: pa.Table) -> None:
        super().__init__(records)
        self.table = table

    def to_arrow(self) -> pa.Table:
        """Return the facets and measures as a table, `table`."""
        return self.table

    def to_pandas(self) -> Any:
        """Return the table as a DataFrame of pandas."""
        return to_pandas(self.table)

    def to_polars(self) -> Any:
        """Return the table as a DataFrame of polars."""
        return to_polars(self.table)

    def _repr_html_(self) -> str:
        """Render a row per value."""
        shown = self.table.slice(0, SHOWN_VALUES)
        rows = [[html.escape(cell(value)) for value in row.values()] for row in plain_rows([shown])]
        remark = _not_shown(self.table.num_rows - len(rows), "value")
        return _table([html.escape(name) for name in self.table.column_names], rows) + remark


class Explanation(dict[str, Any]):
    """The account of an answer, a dict that a notebook shows as a table of files."""

    def _repr_html_(self) -> str:
        """Render what the account says of each file, and from which source each was answered."""
        files = self["files"]
        header = ("path", "covered", "outcome", "by", "rows", "matching")
        rows = [[html.escape(cell(file[name])) for name in header] for file in files[:SHOWN_VALUES]]
        covered = self["covered_version"]
        note = (
            f"version {self['version']}, covered up to {'-' if covered is None else covered}; "
            f"{self['predicate']}; {counted(self['count'], 'row')}; "
            f"{self['files_scanned']} of {counted(len(files), 'file')} read"
        )
        return _note(note) + _table(header, rows) + _not_shown(len(files) - len(rows), "file")


def answer_html(note: str, count: int, rows: pa.Table) -> str:
    """Render an answer: its description, its number of rows, and its first rows."""
    shown = [[html.escape(cell(value)) for value in row.values()] for row in plain_rows([rows])]
    more = counted(count, "row") + (f", the first {len(shown)} shown" if count > len(shown) else "")
    return _note(note) + _table([html.escape(name) for name in rows.column_names], shown) + _note(more)


def _bar(n: int, most: int) -> str:
    width = max(1, round(_BAR_PX * n / most)) if most else 0
    return f'<div style="background:#4c78a8;height:0.8em;width:{width}px"></div>'


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{value}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _not_shown(count: int, noun: str) -> str:
    """Render how many more there are than are shown; nothing if there are none."""
    return _note(f"and {counted(count, f'more {noun}')}") if count else ""


def _note(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"
