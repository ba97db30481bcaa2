"""Hints on a text that stops being a condition: what was found there, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tailbit.base.wording import did_you_mean
from tailbit.index.sql.syntax.tokens import Token

GENERAL = (
    "Two conditions are joined by AND or OR, a text stands in quotes ('UA'), and a column whose name has "
    "blanks or is a keyword stands in backticks: `air time`."
)
COUNTING = (
    'A condition is asked row by row. Write tailbit count TABLE "condition"; in Python: answer.count().'
)
_READ = (
    'Write tailbit read TABLE "condition" --columns a,b --order-by a --limit 10; in Python: '
    'table.where("condition").read(["a", "b"], order_by=["a"], limit=10).'
)
_FACETS = (
    'Write tailbit facets TABLE COLUMN --where "condition" --top 10; in Python: '
    'table.where("condition").facets("COLUMN").'
)
_ONE_TABLE = "Ask each table by itself; values of the other stand in a list: IN (1, 2)."
_IN_SPARK = 'Rows are deleted by tailbit erase TABLE --where "condition"; other changes are made in Spark.'
CLAUSES = {
    **dict.fromkeys(("JOIN", "UNION", "INTERSECT", "EXCEPT"), _ONE_TABLE),
    **dict.fromkeys(("GROUP", "HAVING", "DISTINCT"), _FACETS),
    **dict.fromkeys(("COUNT", "SUM", "AVG", "MIN", "MAX"), 'Write tailbit count TABLE "condition", or '
    "tailbit summary TABLE COLUMN for sums and extremes; in Python: answer.count(), answer.sum()."),
    **dict.fromkeys(("ORDER", "SORT", "LIMIT", "OFFSET", "SELECT", "FROM"), _READ),
    "WHERE": "Leave the word WHERE out.",
    **dict.fromkeys("INSERT UPDATE DELETE MERGE CREATE DROP ALTER TRUNCATE REPLACE".split(), _IN_SPARK),
    **dict.fromkeys(
        "SHOW DESCRIBE DESC EXPLAIN USE SET WITH TABLE VALUES".split(),
        "Give only a condition, such as carrier = 'UA'; tailbit --help lists the commands.",
    ),
}  # fmt: skip
"""Words that begin a statement or a clause of one, and what to write instead; of a SELECT, the first counts.
"""

_FUNCTION = "a function before its argument: contains(carrier, 'U'), startswith(carrier, 'U')"
_LIST = "AND between conditions, a list of values as IN (1, 2) or array(1, 2), a number as 1000000"
_GIVEN = '= before a value; for a parameter where("n > ?", [5]) in Python, :n and --param n=5 for a command'
_FIELD = "a.b for a field, m['k'] for a key, exists(array, x -> x > 1) for a condition on elements"
_INSTEAD = {
    **dict.fromkeys(("&&", "BUT", "WITH"), "AND"),
    **dict.fromkeys(("~", "=~", "MATCHES", "MATCH", "SIMILAR"), "RLIKE and a regular expression in quotes"),
    **dict.fromkeys(("~~", "GLOB"), "LIKE"),
    **dict.fromkeys(("->", "->>"), _FIELD),
    "=>": ">=, or x -> x > 1 for a condition on elements",
    **dict.fromkeys(("EQ", "EQUAL", "EQUALS", ":="), "="),
    **dict.fromkeys(("CONTAINS", "STARTSWITH", "STARTS", "ENDSWITH", "ENDS", "("), _FUNCTION),
    **dict.fromkeys((",", "]", "["), _LIST),
    **dict.fromkeys(("?", ":", "%"), _GIVEN),
    **dict.fromkeys(("ANY", "SOME", "ALL"), "IN (1, 2), or LIKE ANY ('a%', 'b%')"),
    **dict.fromkeys(("SYMMETRIC", "ASYMMETRIC", "TO"), "BETWEEN 1 AND 2, the lower bound first"),
    "XOR": "a <> b of two conditions",
    "ISNULL": "IS NULL",
    "NOTNULL": "IS NOT NULL",
    "EXISTS": "IS NOT NULL",
    "UNLESS": "AND NOT",
    "MOD": "a % b",
    "!": "<> for unequal, NOT before a condition",
    "NOT": "NOT before the whole condition, NOT IN, NOT LIKE or <>; a column of that name is `not`",
    "AT": "no AT TIME ZONE: --time-zone, in Python zone=, names the zone of times that have none",
    "AS": "no name for a condition: it has no alias",
    "OVER": "a condition of single rows: read the rows, and rank them there",
    "THEN": "CASE WHEN condition THEN value ELSE other END, or if(condition, value, other)",
}  # fmt: skip
"""Words and signs of other languages behind a value, and what to write instead."""
_COMPARISONS = ("=", "<", ">", "<>", "<=", ">=")
_KEYWORDS = ("AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "ESCAPE", "WHEN", "THEN")
_WORDS = {
    "IS": "Write IS NULL, IS NOT NULL, IS DISTINCT FROM and a value, or = and a value.",
    "BETWEEN": "Write BETWEEN 1 AND 2.",
    "CASE": "Write CASE WHEN condition THEN value ELSE other END.",
    "LIKE": "Write the pattern in quotes: carrier LIKE 'U%'.",
    "CAST": "Write CAST(column AS INT).",
    "EXTRACT": "Write EXTRACT(YEAR FROM column).",
}
"""How the construct is written that a word begins."""
_DATE = re.compile(r"\b(?:DATE|TIMESTAMP) \w+$|\b\d{4}[-/]\d\d?[-/]\d\d?(?:[T ]?\w+)?:?$", re.IGNORECASE)
"""What ends in a date or time without quotes."""
_SHOWN = 30

Refusal = tuple[str, int, str]
"""What was found, its place, and what to write instead."""


def stopped(text: str, tokens: Sequence[Token], index: int) -> Refusal:
    """Return the error message and hint for a text that is no condition from a token on."""
    token = tokens[index]
    if (clause := clause_of(tokens, index)) is not None:
        shown = text[clause.start : clause.end]
        return f"{shown} is no part of a condition", clause.start, of_clause(tokens, clause)
    if token.kind == "end":
        return _of_end(text, tokens, index)
    sign = token.text if token.kind == "sign" else ""
    if sign == ";":
        hint = (
            f"Leave it out: {text[: token.start]}" if index else "Write a condition such as carrier = 'UA'."
        )
        return "a semicolon is no part of a condition", token.start, hint
    if sign == ")":
        signs = re.findall(r"'[^']*'|[()]", text[: token.start])
        if signs.count("(") > signs.count(")"):
            return "something is missing before )", token.start, _around(tokens, index) or GENERAL
        return "a ) closes nothing", token.start, "Leave it out, or write ( where it begins."
    shown = text[token.start : token.end]
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    if _DATE.search(text, max(0, token.start - 20), token.end):
        hint = "Write DATE'2026-01-31' or TIMESTAMP'2026-01-31 12:00:00'."
        return "a date or time stands without quotes", token.start, hint
    return _of_operator(text, tokens, index, shown)


def clause_of(tokens: Sequence[Token], index: int) -> Token | None:
    """Return the word of a statement or clause at which a condition stops; None where it stops elsewhere."""
    first, token = tokens[0], tokens[index]
    leads = index == 1 or (first.text == "SELECT" and tokens[1].text == "*")
    if first.kind == "word" and first.text in CLAUSES and leads and token.kind != "end":
        return first
    behind_is = tokens[index - 1].text in ("IS", "NOT") if index else False
    return token if token.kind == "word" and token.text in CLAUSES and not behind_is else None


def of_clause(tokens: Sequence[Token], clause: Token) -> str:
    """Return what to write instead of a clause; a SELECT is told by its most special clause."""
    if clause.text not in ("SELECT", "FROM"):
        return CLAUSES[clause.text]
    words = {token.text for token in tokens if token.kind == "word"}
    return next(hint for word, hint in CLAUSES.items() if word in words)


def _opened(tokens: Sequence[Token]) -> list[Token]:
    opened: list[Token] = []
    for token in tokens:
        if token.kind == "sign" and token.text in "([":
            opened.append(token)
        elif token.kind == "sign" and token.text in ")]" and opened:
            opened.pop()
    return opened


def _of_end(text: str, tokens: Sequence[Token], index: int) -> Refusal:
    last = tokens[index - 1]
    place = max(last.end - 1, 0)
    if (opened := _opened(tokens[:index])) and (last.kind != "sign" or last.text in ")]"):
        closing = {"(": ")", "[": "]"}[opened[-1].text]
        reason = f"the {opened[-1].text} at character {opened[-1].start + 1} is not closed"
        return reason, place, f"Write {closing} where it ends."
    shown = text[last.start : last.end]
    hint = f"Write what belongs behind {shown}, or leave {shown} out."
    return f"it ends where more must follow behind {shown}", place, _around(tokens, index) or hint


def _around(tokens: Sequence[Token], index: int) -> str:
    """Return how the construct before a token is written; empty if none of those stands there."""
    words = [token.text for token in tokens[max(0, index - 3) : index] if token.kind == "word"]
    return next((_WORDS[word] for word in reversed(words) if word in _WORDS), "")


def _of_operator(text: str, tokens: Sequence[Token], index: int, shown: str) -> Refusal:
    token, before = tokens[index], tokens[index - 1] if index else None
    if before is not None and before.kind == "sign" and token.kind == "sign" and before.end == token.start:
        both = text[before.start : token.end]
        if set(both) <= set("=<>!:~&-") and (both in _INSTEAD or token.text in _COMPARISONS):
            return f"{both} is no operator", before.start, f"Write {_INSTEAD.get(both, _one_of())}."
    for sign in ("&&", "~~", ":=", "=>"):
        if token.kind == "sign" and text.startswith(sign, token.start):
            return f"{sign} is no operator here", token.start, f"Write {_INSTEAD[sign]}."
    if _is_before(tokens, index):
        reason = f"IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM, not {shown}"
        return reason, token.start, _WORDS["IS"]
    if token.text == "," and "BETWEEN" in (around := _around(tokens, index)):
        return f"{shown} is not expected here", token.start, around
    if token.kind in ("word", "sign") and index and token.text in _INSTEAD:
        operator = "is no operator here" if token.kind == "word" else "is not expected here"
        return f"{shown} {operator}", token.start, f"Write {_INSTEAD[token.text]}."
    hint = did_you_mean(token.text, _KEYWORDS).strip() if token.kind == "word" else ""
    if token.kind == "sign" and token.text in _COMPARISONS:
        hint = f"Write a column before it, as in dep_delay {token.text} 5, and one value behind."
    if token.kind == "number":
        hint = "A number is written 1000 or 1.5, a length of time INTERVAL 5 MINUTES."
    return f"{shown} is not expected here", token.start, hint or _around(tokens, index) or GENERAL


def _one_of() -> str:
    return f"one of {' '.join(_COMPARISONS)}"


def _is_before(tokens: Sequence[Token], index: int) -> bool:
    words = [token.text if token.kind == "word" else "" for token in tokens[max(0, index - 2) : index]]
    return words[-1:] == ["IS"] or words == ["IS", "NOT"]


def listed_instead(text: str, start: int) -> str:
    """Return the list after IN as it must be written: its values in parentheses."""
    opened, closed = text[start : start + 1], text.find("]", start)
    inner = text[start + 1 : closed] if opened == "[" and closed > start else ""
    return f"Write IN ({inner})." if inner else "Write IN (1, 2)."
