"""Values of every type in the forms that JSON, text and HTML can hold.

A date, time or decimal becomes text in full, bytes become hex digits, a float that is not finite becomes
"NaN", "Infinity" or "-Infinity", a struct becomes an object. A map becomes an object, with keys as text, if
its keys are of a plain type; a map with keys that are structs, arrays or maps becomes a list of objects with
`key` and `value`, since an object cannot have such keys. The choice depends on the type alone.

Notebooks ask answers, facets and explanations for HTML by `_repr_html_`. All text is escaped. Nothing is
loaded from anywhere: a notebook shows it without a network.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.base.errors import UsageError
from tailbit.base.lazy import lazy
from tailbit.base.wording import counted
from tailbit.outputs.frames import to_pandas, to_polars
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.date_text import date_texts, is_date_or_time, within_arrow

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


BATCH_ROWS = 10_000


def plain_rows(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    """Yield rows of JSON-able values.

    Raises:
        UsageError: a map holds one key twice.
    """
    for table in tables:
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            names = batch.schema.names
            for row in zip(*map(plain_values, batch.columns), strict=True):
                yield dict(zip(names, row, strict=True))


def plain_values(values: pa.Array) -> list[Any]:
    """Return the JSON-able values of a column.

    Raises:
        UsageError: a map holds one key twice.
    """
    type_ = values.type
    if pa.types.is_struct(type_):
        return _structs(values)
    if pa.types.is_map(type_):
        return _maps(values)
    if pa.types.is_list(type_):
        return _lists(values, plain_values(_inside(values, values.values)))
    if is_date_or_time(type_):
        return date_texts(values)
    if pa.types.is_string(type_):
        return _texts(values)
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        listed: list[Any] = values.to_pylist()
        return listed
    return [json_value(value) for value in values.to_pylist()]


def _texts(values: pa.Array) -> list[str | None]:
    """Decode text; bytes that are not UTF-8 are replaced."""
    try:
        texts: list[str | None] = values.to_pylist()
    except UnicodeDecodeError:
        data = pc.cast(values, pa.binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "replace") for value in data]
    return texts


def _structs(values: pa.StructArray) -> list[dict[str, Any] | None]:
    names = [field.name for field in values.type]
    fields = [plain_values(values.field(n)) for n in range(len(names))]
    rows = zip(*fields, strict=True) if fields else iter([()] * len(values))
    valid = pc.is_valid(values).to_pylist()
    return [dict(zip(names, row, strict=True)) if ok else None for row, ok in zip(rows, valid, strict=True)]


def _inside(values: pa.ListArray, flat: pa.Array) -> pa.Array:
    """Return the elements that belong to a slice of lists, out of all elements of the parent array."""
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return flat.slice(first, last - first)


def _lists(values: pa.ListArray, elements: Sequence[Any]) -> list[list[Any] | None]:
    ends = values.offsets.to_pylist()
    first, valid = ends[0], pc.is_valid(values).to_pylist()
    return [
        list(elements[start - first : end - first]) if ok else None
        for start, end, ok in zip(ends[:-1], ends[1:], valid, strict=True)
    ]


def _maps(values: pa.MapArray) -> list[Any]:
    keys, items = plain_values(_inside(values, values.keys)), plain_values(_inside(values, values.items))
    whole = _with_pairs if pa.types.is_nested(values.type.key_type) else _with_keys
    pair_lists = _lists(values, list(zip(keys, items, strict=True)))
    return [None if pairs is None else whole(pairs) for pairs in pair_lists]


def _with_pairs(pairs: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs]


def _with_keys(pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    record = {cell(key): value for key, value in pairs}
    if len(record) != len(pairs):
        names = [cell(key) for key, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        hint = "Read it with --format parquet, or leave it out."
        raise UsageError(reason=f"a map holds the key {twice!r} twice", hint=hint)
    return record


def json_value(value: Any) -> Any:
    """Convert a Python value to a JSON-able one."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return {cell(json_value(k)): json_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(v) for v in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "microseconds").replace("+00:00", "Z")
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def cell(value: Any) -> str:
    """Format a JSON-able value as one cell of a table."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)


def csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column that pyarrow's CSV writer writes correctly, converted to text only if needed."""
    if not _needs_text(column):
        return column
    chunks = [arrow_array(map(_csv_text, plain_values(chunk)), pa.string()) for chunk in column.chunks]
    return pa.chunked_array(chunks, pa.string())


_PLAIN_SCALE = 6
"""Greatest scale at which a decimal is never written with an exponent."""


def _needs_text(column: pa.ChunkedArray) -> bool:
    type_ = column.type
    if is_date_or_time(type_):
        return not within_arrow(column)
    if pa.types.is_decimal(type_):
        return bool(type_.scale > _PLAIN_SCALE)
    return bool(pa.types.is_nested(type_) or pa.types.is_binary(type_))


def _csv_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
