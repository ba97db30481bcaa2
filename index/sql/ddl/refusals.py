"""Refusal of statements, with the place in the text and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tailbit.base.errors import StatementError
from tailbit.index.sql.refusals import placed

USAGE = {
    "CREATE": "Write CREATE INDEX [IF NOT EXISTS] name ON table [USING kind] (term, ...) "
    "[OPTIONS (key = 'value', ...)] [WHERE condition].",
    "DROP": "Write DROP INDEX [IF EXISTS] name ON table.",
    "ALTER": "Write ALTER INDEX name ON table [PARTITION (column = value, ...)] REBUILD.",
    "REFRESH": "Write REFRESH INDEX name ON table.",
    "SHOW": "Write SHOW INDEXES FROM table.",
    "DESCRIBE": "Write DESCRIBE INDEX name ON table.",
    "DESC": "Write DESCRIBE INDEX name ON table.",
}
"""How each statement is written, by its first word."""
_OWN_FORM = "Leave it out: an index has a form of its own, docs/index-format.md."
MEANINGLESS = {
    ("IN", "TABLE"): "Leave it out: an index is no table to ask; DESCRIBE INDEX shows what it holds.",
    ("PARTITIONED", "BY"): "Leave it out: an index follows the partitions of its table, and WHERE on "
    "partition columns makes it of a part.",
    ("ROW", "FORMAT"): _OWN_FORM,
    ("STORED", "AS"): _OWN_FORM,
    ("STORED", "BY"): _OWN_FORM,
    ("LOCATION",): "Leave it out: an index lies in TABLE/_tailbit, or where --index says.",
    ("TBLPROPERTIES",): "Leave it out, or write IDXPROPERTIES (...) for notes that are kept.",
}
"""Clauses of Hive that have no meaning here, and what serves instead."""


def refuse_statement(text: str, reason: str, at: int | None = None, hint: str | None = None) -> NoReturn:
    """Raise a StatementError with the place in the text (characters from 1) and what to write instead."""
    place = "" if at is None else placed(text, at)
    raise StatementError(statement=text, reason=f"{reason}{place}", **({"hint": hint} if hint else {}))


def either(words: Sequence[str]) -> str:
    """Join words as a choice.

    >>> either(["ON"]), either(["FROM", "ON", "IN"])
    ('ON', 'FROM, ON or IN')
    """
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
