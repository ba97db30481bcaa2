"""Refusal of predicates, with the place in the text and what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

from tailbit.base.errors import PredicateError

OTHER_TABLE = "Ask the other table first, and give its values as a list: IN (1, 2)."
INSTEAD = {
    "INTERVAL": "Add it to a date or time, or take it from one: ts >= now() - INTERVAL 1 DAY 6 HOURS. "
    "A column of that name stands in backticks.",
    "<<": "Write x * 4 for x << 2.",
    ">>": "Write x div 4 for x >> 2, of numbers from 0 on.",
    "several values in parentheses": "For one column write IN ('SFO', 'LAX'); of several columns write "
    "(a = 1 AND b = 2) OR (a = 3 AND b = 4).",
    "a lambda": "Write exists(tags, t -> t = 'a') or forall(tags, t -> t = 'a'); a key of a map is m['k'].",
}
"""What to write in place of an expression that is not read, by what a refusal calls it."""


_TRUTH = (
    "A condition is compared with TRUE or FALSE, or stands alone; between two bounds is written "
    "a > 1 AND a < 9."
)
_CAST = (
    "Compare values of one type, or write try_cast(... AS INT): NULL where a value does not fit. "
    "A number stands without quotes: year = 2026."
)
_OF_TYPES = {
    "does not compare with BOOLEAN": _TRUTH,
    "BOOLEAN does not compare with": _TRUTH,
    "is not a DATE": "Write a date as DATE'2026-01-31'; try_cast(... AS DATE) is NULL where a text is none.",
    "is not a TIMESTAMP": "Write a time as TIMESTAMP'2026-01-31 12:00:00', a date as '2026-01-31'; "
    "try_cast(... AS TIMESTAMP) is NULL where a text is none.",
    "NULL is not a condition": "Write a condition such as carrier IS NULL.",
}
"""What to write instead, by a part of the reason, where the name of the error alone does not tell."""
_BY_REASON = {
    "it is empty": "Write a condition such as carrier = 'UA', or leave it out to ask for every row.",
    "ESCAPE takes": "Write ESCAPE '!'.",
    "a plus sign in front": "Leave the plus sign out.",
    "a lambda is not": "A lambda stands only within exists(array, x -> condition).",
    "depends on the moment": "Write current_date(), current_date() - INTERVAL 1 DAY, or now().",
    "constant number of digits": "Write the digits as a number: round(x, 2).",
    " here, not ": "docs/functions.md shows each function with its arguments.",
    ">>> is not": "Write x div 4 for x >>> 2, of numbers from 0 on.",
    "before a constant is not": "Write only the quotes: 'UA'.",
}
"""What to write instead, by a part of the reason."""
_BY_ERROR = {
    "CAST_INVALID_INPUT": _CAST,
    "CAST_OVERFLOW": _CAST,
    "NUMERIC_VALUE_OUT_OF_RANGE": _CAST,
    "INVALID_TYPED_LITERAL": "Write DATE'2026-01-31', TIMESTAMP'2026-01-31 12:00:00' or X'1F'.",
    "DIVIDE_BY_ZERO": "Write try_divide(a, b), or a / nullif(b, 0).",
    "REMAINDER_BY_ZERO": "Write a % nullif(b, 0).",
    "ARITHMETIC_OVERFLOW": "Write try_add, try_subtract or try_multiply, or CAST to a wider type.",
    "INVALID_INDEX_OF_ZERO": "element_at counts from 1: the first element is element_at(a, 1), or a[0].",
    "INVALID_NUMERIC_LITERAL_RANGE": "Write a smaller number: a double goes to 1.7e308.",
    "FILTER_NOT_BOOLEAN": "Compare it with something. A list of names has no blanks: a,b.",
    "DATATYPE_MISMATCH": "Compare values of one type: a date as DATE'2026-01-31', a number without quotes, "
    "a text in quotes; or CAST one side to the type of the other.",
}
"""What to write instead, by the name that Spark gives an error."""


def refuse(text: str, reason: str, index: int | None = None, hint: str | None = None) -> NoReturn:
    """Raise a PredicateError with the place in the text (characters from 1) and what to write instead.

    The fields `at` and `bare` of the error are the place and the reason without the place, for a text that is
    part of a longer one.
    """
    hint = hint or next(
        (advice for said, advice in {**_OF_TYPES, **_BY_ERROR, **_BY_REASON}.items() if said in reason), None
    )
    if hint and "||" in text and " in Spark)" in reason:
        hint = f"{hint} To join conditions write OR: || joins texts."
    place = "" if index is None else placed(text, index)
    fields: dict[str, Any] = {"hint": hint} if hint else {}
    raise PredicateError(predicate=text, reason=f"{reason}{place}", at=index or 0, bare=reason, **fields)


_OTHER_TYPES = {
    **dict.fromkeys(("VARCHAR", "CHAR", "TEXT", "NVARCHAR", "STR", "UUID", "CHARACTER"), "STRING"),
    **dict.fromkeys(("DATETIME", "TIMESTAMPTZ", "DATETIME2"), "TIMESTAMP"),
    **dict.fromkeys(("NUMBER", "MONEY"), "DECIMAL(38, 2)"),
    **dict.fromkeys(("INT8", "INT64", "UNSIGNED", "SIGNED"), "BIGINT"),
    **dict.fromkeys(("FLOAT8", "FLOAT64"), "DOUBLE"),
    **dict.fromkeys(("BOOL", "BIT"), "BOOLEAN"),
    **dict.fromkeys(("BYTES", "BLOB", "BYTEA"), "BINARY"),
}


def cast_instead(type_: str) -> str:
    """Return a sentence on the types that a cast may name, first what `type_` means in other languages."""
    meant = _OTHER_TYPES.get(type_)
    every = "INT, BIGINT, DOUBLE, DECIMAL(10, 2), STRING, BINARY, BOOLEAN, DATE and TIMESTAMP"
    return f"Write CAST(... AS {meant})." if meant else f"A cast gives {every}, among others."


def placed(text: str, start: int) -> str:
    """Return the place of a character in a text (from 1), the line, and a caret below the character."""
    return f" at character {start + 1}{_pointed(text, start)}"


_FRAMES = frozenset(("df", "data", "frame", "table", "row", "pl", "col", "column"))
"""Names that other languages put before a column."""
_MOMENTS = {
    "sysdate": "now() or current_date()",
    "today": "current_date()",
    "systimestamp": "now()",
    "getdate": "now()",
}
_NULLS = frozenset("none nil nul undefined missing na nan inf infinity".split())


def of_name(written: str) -> str:
    """Return a sentence on what a name that no column has may mean; empty if unclear."""
    name = written.strip("`")
    if name.lower() in ("nan", "inf", "infinity"):
        return f" For the number write double('{name}'); isnan(column) asks for it."
    if name.lower() in _MOMENTS:
        return f" For the moment of the question write {_MOMENTS[name.lower()]}."
    if name.lower() in _FRAMES:
        return " A column is written by its name alone: carrier = 'UA'."
    if name.lower() in _NULLS:
        return " For no value write IS NULL or IS NOT NULL."
    if name[:1].isdigit():
        return " A number is written 1000, 1.5 or 1.5e3, without underscores, units or prefixes."
    return f" If it is a text, write it in single quotes: '{name}'." if "." not in name else ""


_BESIDE = 60
"""Characters of a line that are shown on either side of a place."""


def _pointed(text: str, place: int) -> str:
    """Return the line of a place, and below it a caret; a long line is cut."""
    start = max(text.rfind("\n", 0, place) + 1, place - _BESIDE)
    end = text.find("\n", place)
    line = text[start : min(len(text) if end < 0 else end, place + _BESIDE)]
    blanks = "".join("\t" if char == "\t" else " " for char in line[: place - start])
    return f"\n    {line}\n    {blanks}^"
