"""Refusal of statements, with the place in the text and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from tailbit.base.errors import PredicateError, StatementError
from tailbit.index.sql.refusals import placed
from tailbit.index.sql.syntax.hints import CLAUSES, of_clause
from tailbit.index.sql.syntax.tokens import Token, tokens_of

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


def refuse_statement(text: str, reason: str, index: int | None = None, hint: str | None = None) -> NoReturn:
    """Raise a StatementError with the place in the text (characters from 1) and what to write instead."""
    place = "" if index is None else placed(text, index)
    raise StatementError(statement=text, reason=f"{reason}{place}", **({"hint": hint} if hint else {}))


def either(words: Sequence[str]) -> str:
    """Join words as a choice.

    >>> either(["ON"]), either(["FROM", "ON", "IN"])
    ('ON', 'FROM, ON or IN')
    """
    return " or ".join(words_listed for words_listed in (", ".join(words[:-1]), words[-1]) if words_listed)


_IN_SPARK = CLAUSES["INSERT"]
_AT_ONCE = "Leave it out: an index is used as soon as it is there."
_FIRST_WORDS = {
    **dict.fromkeys("INSERT UPDATE DELETE MERGE TRUNCATE REPLACE COPY LOAD".split(), _IN_SPARK),
    **dict.fromkeys("RESTORE CLONE MSCK REPAIR ANALYZE REORG CACHE COMMENT GRANT REVOKE".split(), _IN_SPARK),
    **dict.fromkeys(("SET", "RESET", "USE"), _AT_ONCE),
    **dict.fromkeys(("SELECT", "WITH", "VALUES", "FROM", "TABLE", "WHERE"), CLAUSES["VALUES"]),
    "EXPLAIN": 'Write tailbit explain TABLE "condition".',
    "CALL": "Write one of tailbit compact, tailbit vacuum, tailbit verify and tailbit repair.",
    "OPTIMIZE": "Run it in Spark for the table; for its index: tailbit compact TABLE.",
    "VACUUM": "Run it in Spark for the table; for its index: tailbit vacuum TABLE.",
    "REINDEX": USAGE["ALTER"],
}
_INDEX = frozenset(("INDEX", "INDEXES"))
_BEGINNING = re.compile(rf"\s*({'|'.join(USAGE)})\s+INDEX", re.IGNORECASE)
_OBJECTS = frozenset(
    "TABLE TABLES VIEW VIEWS SCHEMA SCHEMAS DATABASE DATABASES CATALOG CATALOGS FUNCTION FUNCTIONS COLUMN "
    "COLUMNS PARTITIONS EXTERNAL TEMPORARY TEMP MATERIALIZED TBLPROPERTIES DETAIL HISTORY QUERY ROLE USER "
    "STREAMING VOLUME CREATE".split()
)
"""Objects other than an index that statements create, alter, drop, show or describe."""
_ANEW = "Drop it and make it again: DROP INDEX name ON table; then CREATE INDEX."
BEFORE_INDEX = {
    "UNIQUE": "No index keeps keys unique: leave UNIQUE out.",
    "BITMAP": "Write CREATE INDEX name ON table USING bitmap (term, ...).",
    "BLOOMFILTER": "Write CREATE INDEX name ON table USING bitmap (term, ...).",
    "OR": "Drop the index first: DROP INDEX IF EXISTS name ON table.",
    **dict.fromkeys(
        ("CLUSTERED", "NONCLUSTERED", "FULLTEXT", "SPATIAL", "SEARCH", "VECTOR"), "Leave it out."
    ),
}
"""Words of other dialects between CREATE and INDEX, and what to write instead."""
CHANGES = {"SET": _ANEW, "RENAME": _ANEW, "DISABLE": "Write DROP INDEX name ON table.", "UNSET": _ANEW}
"""Changes of an index in other dialects, and what to do instead."""


def is_about_index(text: str) -> bool:
    """Return whether a statement is about an index, right or wrong, by its first words.

    >>> is_about_index("SHOW INDEXES FROM t"), is_about_index("SHOW TABLES"), is_about_index("create index")
    (True, False, True)
    >>> is_about_index("CREATE OR REPLACE INDEX i ON t (a)"), is_about_index("CREATE OR REPLACE TABLE index")
    (True, False)
    """
    try:
        tokens = tokens_of(text)
    except PredicateError:
        return bool(_BEGINNING.match(text))
    words = [token.text for token in tokens[:4] if token.kind == "word"]
    between = {*BEFORE_INDEX, "FORMATTED", "EXTENDED"}
    if words[1:3] == ["OR", "REPLACE"]:
        del words[1:3]
    while len(words) > 1 and words[1] in between - {"OR"}:
        del words[1]
    return len(words) > 1 and words[0] in USAGE and words[1] in _INDEX


def refuse_other(text: str, tokens: Sequence[Token]) -> None:
    """Raise if a statement is about something else than indexes."""
    first = tokens[0]
    if first.kind != "word":
        return
    if first.text in _FIRST_WORDS:
        reason = f"{first.text} begins no statement about indexes"
        hint = _FIRST_WORDS[first.text]
        hint = of_clause(tokens, first) if hint == CLAUSES["VALUES"] else hint
        refuse_statement(text, reason, first.start, hint)
    second = tokens[1] if first.text in USAGE else first
    if second.kind == "word" and second.text in _OBJECTS:
        shown = first.text in ("SHOW", "DESCRIBE", "DESC")
        reason = f"{first.text} {second.text} is no statement about indexes"
        refuse_statement(text, reason, first.start, USAGE[first.text] if shown else _IN_SPARK)
