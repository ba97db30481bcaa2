"""The function that Hudi's OPTIONS (expr = ...) names, applied to a column as Spark's SQL text.

    USING column_stats (ts) OPTIONS (expr = 'from_unixtime', format = 'yyyy-MM-dd')
        from_unixtime(ts, 'yyyy-MM-dd')

Source: Apache Hudi 1.0, ExpressionIndexSparkFunctions; `date_trunc`, `trunc` and functions of one argument
are not among those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tailbit.base.wording import did_you_mean
from tailbit.index.sql.ddl.refusals import either, refuse_statement
from tailbit.index.sql.ddl.statements import WrittenExpression, string_text
from tailbit.index.values.refusals import NotRead


class Property(NamedTuple):
    """The value of a key in OPTIONS (...) or IDXPROPERTIES (...), and the places of both in the statement."""

    value: str
    key_place: int
    place: int


Properties = Mapping[str, Property]

_APPLIED = {
    "identity": "{column}",
    "concat": "concat({column})",
    "date_trunc": "date_trunc({format}, {column})",
    **{
        name: f"{name}({{column}}, {{{option}}})"
        for name, option in (
            *(("date_format", "format"), ("trunc", "format"), ("date_add", "days"), ("date_sub", "days")),
            ("split", "pattern"),
        )
    },
    **{
        name: f"{name}({{column}}[, {{format}}])"
        for name in ("from_unixtime", "unix_timestamp", "to_date", "to_timestamp")
    },
    "substring": "substring({column}, {pos}, {len})",
    "regexp_extract": "regexp_extract({column}, {pattern}, {idx})",
    "regexp_replace": "regexp_replace({column}, {pattern}, {replacement})",
    "trim": "trim([BOTH {trimstring} FROM ]{column})",
    "ltrim": "trim([LEADING {trimstring} FROM ]{column})",
    "rtrim": "trim([TRAILING {trimstring} FROM ]{column})",
}
"""By function, the template of its call; a part in brackets is left out if its option is not given."""
_WITHOUT = {"ltrim": "ltrim({column})", "rtrim": "rtrim({column})"}
"""Templates of calls without options, where it is not enough to leave out the part in brackets."""
_NUMBERS = ("days", "pos", "len", "idx")
"""Options that are whole numbers; all others are texts."""
_OPTION = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[(.*?)\]")
FUNCTION = ("expr", "func")
"""The keys that name the function; `func` is that of Hudi's first releases."""
_PLACED = "Write the expression itself: USING bitmap (date_trunc('hour', ts))."


def applied(
    text: str, column: WrittenExpression, options: Properties
) -> tuple[WrittenExpression, Properties]:
    """Return the call that the options of a statement name, and the options that are left.

    Raises:
        StatementError: there is no such function, or one of its options is missing or wrong.
    """
    named = next((options[key] for key in FUNCTION if key in options), None)
    if named is None:
        return column, options
    if not column.column:
        refuse_statement(text, f"expr is applied to a column, not to {column}", named.key_place, _PLACED)
    name = named.value.lower()
    call = _call(text, name, named, options)
    names = {option for option in _OPTION.findall(call) if option != "column"}
    values = {option: _constant(text, name, option, options[option]) for option in names}
    written = call.replace("[", "").replace("]", "").format(column=column.text, **values)
    rest = {key: value for key, value in options.items() if key not in names and key not in FUNCTION}
    takes = sorted(set(_OPTION.findall(_template(name))) - {"column"})
    of_functions = {option for template in _APPLIED.values() for option in _OPTION.findall(template)}
    for key in rest:
        if key in of_functions:
            said = f"It takes {either(takes)}." if takes else "It takes none."
            refuse_statement(text, f"{name} takes no option {key}", rest[key].key_place, said)
    return WrittenExpression(written, text, column.place), rest


def _template(name: str) -> str:
    return _APPLIED.get(name, f"{name}({{column}})")


def _call(text: str, name: str, named: Property, options: Properties) -> str:
    """Return the call of a function, with the options that are given; others may be left out."""
    if not re.fullmatch(r"[a-z_]\w*", name):
        refuse_statement(text, f"expr names a function, not {named.value!r}", named.place, _PLACED)
    if name not in _APPLIED:
        _check_known(text, name, named)
    call = _OPTIONAL.sub(
        lambda part: part.group() if set(_OPTION.findall(part.group())) <= set(options) else "",
        _template(name),
    )
    if call == "trim({column})":
        call = _WITHOUT.get(name, call)
    for option in _OPTION.findall(call):
        if option != "column" and option not in options:
            reason = f"{name} takes the option {option}, which is not given"
            refuse_statement(text, reason, named.place, f"Write OPTIONS (expr = '{name}', {option} = ...).")
    return call


def _check_known(text: str, name: str, named: Property) -> None:
    # Imported here, since only functions that Hudi does not name need it.
    from tailbit.index.expression.calls import check_known

    try:
        check_known(name)
    except NotRead as wrong:
        meant = did_you_mean(name, _APPLIED)
        refuse_statement(text, str(wrong), named.place, f"{wrong.hint}{meant}")


def _constant(text: str, name: str, option: str, given: Property) -> str:
    """Return the value of an option as a constant of SQL."""
    if option not in _NUMBERS:
        return string_text(given.value)
    if not re.fullmatch(r"-?[0-9]{1,10}", given.value):
        reason = f"{option} of {name} is a whole number, not {given.value!r}"
        refuse_statement(text, reason, given.place, f"Write {option} = 1.")
    return given.value
