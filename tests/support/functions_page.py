"""`docs/functions.md`, made from the expressions that Spark judges: `python -m support.functions_page FILE`."""

# ruff: noqa: E501

from __future__ import annotations

import sys
from pathlib import Path

from support.function_cells import CELLS, COLUMNS, rows, schema
from tailbit.errors import PredicateError
from tailbit.index.functions.casting import is_castable
from tailbit.index.functions.tree import Expression
from tailbit.index.sql.expressions import ExpressionReader, OperandReader
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.tables.model import DataType

_HEAD = """# Operators and functions

A predicate may use what stands here, in Spark SQL's grammar and with Spark 4.2's values and errors, ANSI mode on. This
page is made from `tests/support/function_cells.py` (`make functions-page`), and a test compares it. Spark judges each
cell of (expression, row) over columns of edge values: its value and type, or the class of its error
(`tests/integration/test_functions.py`). What does not stand here is refused by name.

A condition on one indexed column is evaluated once for each distinct value of the column; on partition columns once for
each partition; anything else on the rows that the other conditions leave. A value that raises is an `EvaluationError`
where the answer for a visible row depends on it. A constant part that raises, such as `1 % 0`, is refused whatever the
rows hold, unless it stands in CASE, `if`, `coalesce` or their like: so does Spark, but for `false AND ...`.
`LIKE 'abc%'` and comparisons of a column with constants are ranges, which the log's statistics are asked for too. So are
those of `year`, `CAST(time AS DATE)`, `to_date`, `trunc`, `date_trunc` and `last_day` of one date or time, but for
instants where clocks change; of `floor`, `ceil`, `round` and casts of one number that cannot raise; of `left(s, n)` and
`substring(s, 1, n)`; and of `/`, `*`, `+` and `-` of a double and a constant. (A time of the first year of 64 bits, -290308,
is less than all others there, where `date_trunc` would raise.)

Patterns of `LIKE` and `RLIKE`, formats, units and the digits of `round` are constants. Not read: shifts
of bits, `RLIKE` with look-around, back references, possessive quantifiers, `\\b`, `\\p` and flags but `(?i)` at the
beginning; texts from floating point numbers. `regexp_extract` and `regexp_replace` repeat no group, and raise NOT_READ_EXACTLY
for a text with characters beyond U+FFFF. `lower` and `upper` raise NOT_READ_EXACTLY for characters that are newer than the Unicode of this Python,
and so does every function of characters for a text whose bytes are no UTF-8. (Comparisons, `left`, `substring` from the
beginning compared with constants, `LIKE 'a%b'`, and what joins, finds or counts bytes take such texts as Spark does.)

Where clocks change, a comparison of a cast time with one constant asks what Spark asks: the constant is cast instead. So
`ntz = TIMESTAMP'2021-03-28 03:30:00'` is FALSE for 02:30 of that day, which Berlin's clocks jumped over, but TRUE in a list
of two constants, for which the column is cast; and `CAST(ts AS DATE) = d` asks for the instants from the beginning of d to
that of the next day. Spark also does so with a cast in a branch of CASE or `if`, or beside nothing but NULL in `coalesce`:
there the time is cast here.

| operator or function | expressions | cells judged | results | example |
|---|---|---|---|---|
"""
_NAMES = (
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "decimal(10,2)",
    "string",
    "binary",
    "boolean",
)
_TYPES = (*_NAMES, "date", "timestamp", "timestamp_ntz")


def read(text: str) -> Expression | None:
    """The bound expression of a cell; None where it is refused."""
    try:
        tree = parse_predicate(text)
        return ExpressionReader(OperandReader(text, schema(), "UTC"), "UTC", 0).read(tree)
    except PredicateError:
        return None


def page() -> str:
    count = rows().num_rows
    lines = []
    for name, texts in CELLS.items():
        found = {text: expression for text in texts if (expression := read(text)) is not None}
        kinds = sorted({e.type.name for e in found.values()})
        cells = [
            f"`{name}`",
            str(len(found)),
            str(len(found) * count),
            ", ".join(kinds),
            f"`{next(iter(found))}`",
        ]
        lines.append("| " + " | ".join(cell.replace("||", "\\|\\|") for cell in cells) + " |")
    return f"{_HEAD}" + "\n".join(lines) + "\n" + _casts()


def _casts() -> str:
    lines = ["", "## Casts of columns", "", "| from | to |", "|---|---|"]
    for name in _TYPES:
        to = [other.partition("(")[0] for other in _TYPES if is_castable(_type(name), _type(other))]
        lines.append(f"| {name.partition('(')[0]} | {', '.join(to)} |")
    return "\n".join(lines) + "\n"


def _type(name: str) -> DataType:
    return DataType("decimal", 10, 2) if name.startswith("decimal") else DataType(name)


assert set(_TYPES) <= {type_ for type_, _, _ in COLUMNS.values()}

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
