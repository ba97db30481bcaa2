"""Hints on a text that stops being a condition: what was found there, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tailbit.index.sql.syntax.statements import statement_of, told, written
from tailbit.index.sql.syntax.tokens import Token

GENERAL = (
    "Two conditions are joined by AND or OR, a text stands in quotes ('UA'), and a column whose name has "
    "blanks or is a keyword stands in backticks: `air time`."
)
FOREIGN = {
    "XOR": "Write a <> b of two conditions.",
    "&&": "Write AND.",
    "ISNULL": "Write IS NULL.",
    "NOTNULL": "Write IS NOT NULL.",
    "SIMILAR": "Write RLIKE.",
    "GLOB": "Write LIKE.",
    "~": "Write RLIKE.",
    "=~": "Write RLIKE and a regular expression in quotes.",
    "->": "A field of a struct is written a.b, a key of a map m['k'], a part of JSON "
    "get_json_object(s, '$.k').",
    "~~": "Write LIKE, or ~(~x).",
    "SYMMETRIC": "Write the lower bound first: BETWEEN 1 AND 2.",
    "ASYMMETRIC": "Leave it out: BETWEEN 1 AND 2.",
}
"""Operators of other dialects, and what to write instead."""

COUNTING = (
    'A condition is asked row by row. Write tailbit count TABLE "condition"; in Python: answer.count().'
)

_BEHIND_A_VALUE = {
    "CONTAINS": "Write contains(column, 'part').",
    "STARTSWITH": "Write startswith(column, 'part'), or column LIKE 'part%'.",
    "STARTS": "Write startswith(column, 'part'), or column LIKE 'part%'.",
    "ENDSWITH": "Write endswith(column, 'part'), or column LIKE '%part'.",
    "ENDS": "Write endswith(column, 'part'), or column LIKE '%part'.",
    "MATCHES": "Write RLIKE and a regular expression in quotes.",
    "MATCH": "Write RLIKE and a regular expression in quotes.",
    **dict.fromkeys(("EQ", "EQUALS", "EQUAL"), "Write =."),
    **dict.fromkeys(("NE", "NEQ", "DOES", "UNEQUAL"), "Write <>."),
    **dict.fromkeys(("GT", "GREATER"), "Write >."),
    **dict.fromkeys(("LT", "LESS"), "Write <."),
    **dict.fromkeys(("GE", "GTE"), "Write >=."),
    **dict.fromkeys(("LE", "LTE"), "Write <=."),
    "CONTAINED": "Write array_contains(column, value) of an array, contains(column, 'part') of a text.",
    "OVER": "Window functions are not part of a condition: read the rows, and rank them there.",
    "MOD": "Write a % b.",
    **dict.fromkeys(("BUT", "WITH"), "Write AND."),
    "UNLESS": "Write AND NOT.",
    "AT": "Leave AT TIME ZONE out: --time-zone, in Python zone=, names the zone of times that have none.",
    "AS": "A condition has no alias: leave AS and the name out.",
    "EXISTS": "Write IS NOT NULL.",
    "FOR": "Leave it out: nothing is locked.",
    "THEN": "Write CASE WHEN condition THEN value ELSE other END, or if(condition, value, other).",
    "NOT": "Write NOT before the whole condition, or NOT IN, NOT LIKE, NOT BETWEEN, <>; "
    "a column of that name stands in backticks: `not`.",
    "TO": "Write BETWEEN 1 AND 2.",
    **dict.fromkeys(("ANY", "SOME", "ALL"), "Write IN (1, 2), or LIKE ANY ('a%', 'b%')."),
}
"""Words that other languages allow behind a value, and what to write instead."""
_SIGNS = {
    ",": "Conditions are joined by AND; a list of values stands in parentheses: dest IN ('SFO', 'LAX').",
    "[": "A list of values stands in parentheses: dest IN ('SFO', 'LAX'); an array is written "
    "array('a', 'b'), a name in backticks: `air time`.",
    "]": "A list of values stands in parentheses: dest IN ('SFO', 'LAX').",
    "?": 'Give its value: in Python where("n > ?", [5]); on the command line write :n and --param n=5.',
    ":": 'Give its value: where("n > :n", {"n": 5}) in Python, --param n=5 on the command line; a time '
    "of day stands in quotes.",
    "->": "A function of one argument stands only within exists(array, x -> condition).",
    "=>": "Write >=, or =; within exists and forall a function is written x -> x > 1.",
    "(": "A function stands before its argument: upper(carrier), contains(carrier, 'U'), carrier IN ('UA').",
    "/": "A comment begins with two minus signs (--); a division has a number behind its sign.",
    "%": "Give values as parameters: ? with a list, or :name with a mapping.",
    "~": "Write RLIKE and a regular expression in quotes.",
    "!": "Write <> for unequal, NOT before a condition.",
}
_TRUTH = "IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM"
_BEHIND_IS = {
    **dict.fromkeys(("NONE", "NIL", "NUL", "UNDEFINED", "MISSING", "NA", "BLANK"), "Write IS NULL."),
    "EMPTY": "Write = '' of a text, size(a) = 0 of an array, or IS NULL.",
    "NAN": "Write isnan(column).",
    **dict.fromkeys(
        ("IN", "LIKE", "BETWEEN", "RLIKE", "ILIKE"), "Leave IS out: NOT IN, NOT LIKE, NOT BETWEEN."
    ),
    **dict.fromkeys(("EQUAL", "EQUALS"), "Write =."),
    "GREATER": "Write >.",
    "LESS": "Write <.",
}
_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}")
_SHOWN = 30

Told = tuple[str, int, str]
"""What was found, its place, and what to write instead."""


def stopped(text: str, tokens: Sequence[Token], at: int) -> Told:
    """Return the error message and hint for a text that is no condition from a token on."""
    token = tokens[at]
    for look in (_of_statement, _of_semicolon, _of_end, _of_sign, _of_word):
        if (hint := look(text, tokens, at)) is not None:
            return hint
    return _unexpected(text, token), token.start, GENERAL


def _unexpected(text: str, token: Token) -> str:
    shown = text[token.start : token.end]
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return f"{shown} is not expected here"


def _of_statement(text: str, tokens: Sequence[Token], at: int) -> Told | None:
    first, token = tokens[0], tokens[at]
    if first.text == "DELETE" and at == 1 and token.text == "FROM" and (hint := written("DELETE")):
        return f"it is a statement, {text[: first.end].strip()}, and no condition", first.start, hint
    statement = statement_of(text, tokens, token.start)
    if statement is not None:
        return told(statement, text)
    if first.kind == "word" and len(tokens) > 2 and tokens[1].kind in ("word", "name", "sign"):
        hint = written(first.text) if at <= 1 else None
        if hint is not None:
            return f"it is a statement, {text[first.start : first.end]}, and no condition", first.start, hint
    return None


def _of_semicolon(text: str, tokens: Sequence[Token], at: int) -> Told | None:
    """Return message and hint for a semicolon, which ends a statement and is no part of a condition."""
    if tokens[at].text != ";" or tokens[at].kind != "sign":
        return None
    condition = text[: tokens[at].start].strip()
    hint = f"Leave it out: {condition}" if condition else "Write a condition such as carrier = 'UA'."
    if any(token.text != ";" for token in tokens[at + 1 : -1]):
        hint = "Ask one condition at a time."
    return "a semicolon is no part of a condition", tokens[at].start, hint


def _of_end(text: str, tokens: Sequence[Token], at: int) -> Told | None:
    """Return message and hint for a text that ends too early."""
    if tokens[at].kind != "end":
        return None
    last = tokens[at - 1]
    place = max(last.end - 1, 0)
    opened: list[Token] = []
    for token in tokens[:at]:
        if token.kind == "sign" and token.text in "([":
            opened.append(token)
        elif token.kind == "sign" and token.text in ")]" and opened:
            opened.pop()
    if opened and (last.kind in ("number", "string", "name", "word") or last.text in (")", "]")):
        closing = {"(": ")", "[": "]"}[opened[-1].text]
        column = opened[-1].start + 1
        return (
            f"the {opened[-1].text} at character {column} is not closed",
            place,
            f"Write {closing} where it ends.",
        )
    words = {token.text for token in tokens[:at] if token.kind == "word"}
    for word, wanted in (("CASE", "END"), ("BETWEEN", "AND")):
        if word in words and wanted not in words:
            return f"{wanted} is missing", place, _PATTERNS[word]
    shown = text[last.start : last.end]
    hint = f"Write what belongs behind {shown}, or leave {shown} out."
    if last.text == "%" and "LIKE" in "".join(words):
        hint = "Write the pattern in quotes: carrier LIKE 'U%'."
    return f"it ends where more must follow behind {shown}", place, hint


_PATTERNS = {
    "CASE": "Write CASE WHEN condition THEN value ELSE other END.",
    "BETWEEN": "Write BETWEEN 1 AND 2.",
    "CAST": "Write CAST(column AS INT).",
    "TRY_CAST": "Write TRY_CAST(column AS INT).",
    "EXTRACT": "Write EXTRACT(YEAR FROM column).",
}


def _of_sign(text: str, tokens: Sequence[Token], at: int) -> Told | None:
    """Return message and hint for an operator or other sign."""
    token = tokens[at]
    if token.kind != "sign":
        return None
    before, shown = tokens[at - 1] if at else None, text[token.start : token.end]
    if token.text == ")":
        return _of_closing(text, token, before)
    touching = before is not None and before.kind == "sign" and before.text in "=<>!:"
    if touching and before is not None and token.text in ("=", "<", ">", "!", "<>", "<=", ">="):
        operator = text[before.start : token.end]
        return f"{operator} is no operator", before.start, "Write one of = <> < <= > >=."
    if token.text == ":" and text[token.end : token.end + 1] == "=":
        return ":= is no operator", token.start, "Write =."
    if token.text == "&" and "&&" in text[max(0, token.start - 1) : token.end + 1]:
        return "&& joins conditions in other languages", token.start, FOREIGN["&&"]
    if (foreign := _foreign(text, tokens, at)) is not None:
        return foreign
    if text.startswith("~~", token.start):
        return "~~ is no operator here", token.start, FOREIGN["~~"]
    if _DATE.match(text, tokens[max(0, at - 5)].start) and token.text in ("-", ":"):
        return _of_date(token)
    if token.text in ("=", "<>", "<", "<=", ">", ">="):
        reason = f"{shown} has no value on its left" if before is None else f"{shown} is not expected here"
        return (
            reason,
            token.start,
            f"Write a column before it, as in dep_delay {token.text} 5, and one value behind.",
        )
    if token.text == "*" and not (before is not None and before.text == "("):
        return "* is not a value", token.start, "Name a column."
    return (_unexpected(text, token), token.start, _SIGNS[token.text]) if token.text in _SIGNS else None


def _foreign(text: str, tokens: Sequence[Token], at: int) -> Told | None:
    """Return message and hint for an operator of other languages, or a separator in place of an operator."""
    token, before = tokens[at], tokens[at - 1] if at else None
    if before is None or before.kind == "sign":
        if before is not None and before.text == "->":
            return "->> is no operator here", before.start, FOREIGN["->"]
        return None
    if token.text == ":" and before.kind in ("word", "name") and text[token.start - 1].strip():
        hint = "Write = between a column and its value; a field of a struct is written a.b."
        return _unexpected(text, token), token.start, hint
    if token.text != ",":
        return None
    if before.kind == "number" and _THOUSANDS.match(text, before.start):
        return (
            _unexpected(text, token),
            token.start,
            "Write a number without signs between its digits: 1000000.",
        )
    between = [t.text for t in tokens[:at] if t.kind == "word" and t.text in ("BETWEEN", "AND")]
    if between[-1:] == ["BETWEEN"]:
        return _unexpected(text, token), token.start, _PATTERNS["BETWEEN"]
    return None


_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(?!\d)")


def _of_closing(text: str, token: Token, before: Token | None) -> Told:
    if before is not None and before.text in ("(", ",") and before.kind == "sign":
        hint = "Write a value: dest IN ('SFO', 'LAX')."
        return "a value is missing before )", token.start, hint
    depth = 0
    for sign in re.finditer(r"'[^']*'|[()]", text[: token.start]):
        depth += {"(": 1, ")": -1}.get(sign.group(), 0)
    if depth <= 0:
        return "a ) closes nothing", token.start, "Leave it out, or write ( where it begins."
    hint = "Write what belongs there: " + " ".join(
        _PATTERNS[word].removeprefix("Write ") for word in ("CAST", "EXTRACT") if word in text.upper()
    )
    return "something is missing before )", token.start, hint if hint[-1] != " " else GENERAL


def _of_date(token: Token) -> Told:
    hint = "Write DATE'2026-01-31' or TIMESTAMP'2026-01-31 12:00:00'."
    return "a date or time stands without quotes", token.start, hint


def _of_word(text: str, tokens: Sequence[Token], at: int) -> Told | None:
    """Return message and hint for a word, a name, a number or a string."""
    token, before = tokens[at], tokens[at - 1] if at else None
    word = token.text if token.kind == "word" else ""
    shown = text[token.start : token.end]
    if before is not None and before.kind == "word" and before.text in ("IS", "NOT") and _is_of(tokens, at):
        hint = _BEHIND_IS.get(word, "Write = or <> before a value.")
        if before.text == "NOT":
            hint = hint.replace("IS NULL", "IS NOT NULL")
        return f"{_TRUTH}, not {shown}", token.start, hint
    if word in FOREIGN:
        return f"{shown} is no operator here", token.start, FOREIGN[word]
    if before is not None and before.kind == "number" and _DATE.match(text, tokens[max(0, at - 5)].start):
        return _of_date(token)
    if before is not None and before.kind == "word" and before.text in ("DATE", "TIMESTAMP"):
        return _of_date(token)
    if word == "DISTINCT":
        hint = 'Write tailbit facets TABLE COLUMN; in Python: table.where().distinct("COLUMN").'
        return "DISTINCT is no part of a condition", token.start, hint
    if before is not None and word in _BEHIND_A_VALUE:
        return f"{shown} is no operator here", token.start, _BEHIND_A_VALUE[word]
    if before is not None and before.kind == "number":
        hint = "A length of time is written INTERVAL 5 MINUTES, beside a time."
        if token.kind == "number":
            hint = "A number is written 1000 or 1.5; values of a list are parted by commas: IN (1, 2)."
        return _unexpected(text, token), token.start, hint
    if (
        before is not None
        and before.kind == "word"
        and before.text == "DISTINCT"
        and "IS" in _words(tokens, at)
    ):
        return _unexpected(text, token), token.start, "Write IS DISTINCT FROM, or <>."
    if word and (at == 0 or before is None or before.text in ("AND", "OR", "NOT", "(")):
        hint = f"Write a condition here, such as carrier = 'UA'; a column of that name is `{shown}`."
        return _unexpected(text, token), token.start, hint
    inside = next((t.text for t in reversed(tokens[:at]) if t.text in _PATTERNS and t.kind == "word"), None)
    return (_unexpected(text, token), token.start, _PATTERNS[inside]) if inside else None


def _words(tokens: Sequence[Token], at: int) -> list[str]:
    """Return the words among the three tokens before index `at`."""
    return [t.text for t in tokens[max(0, at - 3) : at] if t.kind == "word"]


def _is_of(tokens: Sequence[Token], at: int) -> bool:
    """Return whether IS stands right before a token, or IS NOT."""
    words = [t.text if t.kind == "word" else "" for t in tokens[max(0, at - 2) : at]]
    return words[-1:] == ["IS"] or words == ["IS", "NOT"]


def listed_instead(text: str, at: int) -> str:
    """Return the list after IN as it must be written: its values in parentheses."""
    opened, closed = text[at : at + 1], text.find("]", at)
    inner = text[at + 1 : closed] if opened == "[" and closed > at else ""
    return f"Write IN ({inner})." if inner else "Write IN (1, 2)."
