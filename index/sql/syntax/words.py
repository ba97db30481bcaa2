"""Keywords, told from names of columns by the tokens around them: Spark reserves no word."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.index.sql.syntax.tokens import Token

COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "<=>"))
LIKE = {"LIKE": "LIKE", "ILIKE": "ILIKE", "RLIKE": "RLIKE", "REGEXP": "RLIKE"}
"""The words of pattern matching, and the operator that each is."""
LIKE_FUNCTIONS = {**{word.lower(): operator for word, operator in LIKE.items()}, "regexp_like": "RLIKE"}
"""The functions of pattern matching, and the operator that each is."""
CONSTANTS = {"NULL": "null", "TRUE": "true", "FALSE": "false"}
TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
"""The names of types that may stand before a string."""
ENDS = ("BOTH", "LEADING", "TRAILING")
"""From which ends TRIM takes characters away."""

NO_FUNCTIONS = frozenset(
    "AND OR NOT IN IS BETWEEN ANY ALL SOME CASE WHEN THEN ELSE END "
    "AS FROM ESCAPE DIV XOR SELECT INTERVAL DISTINCT LIKE ILIKE RLIKE REGEXP CAST TRY_CAST EXTRACT".split()
)
"""Words that are names of columns only where the next token can follow nothing but a value."""
BEHIND_A_VALUE = frozenset(") , . :: ] [ / % & | ^ ||".split())
_WORDS_BEHIND_A_VALUE = frozenset(
    "AND OR IS IN BETWEEN DIV THEN WHEN ELSE END FROM LIKE ILIKE RLIKE REGEXP".split()
)
_ASKED = ("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT")


def ends_a_value(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the token at index `at` shows that a whole value stands before it."""
    token = tokens[at]
    if token.kind == "sign":
        return token.text in COMPARISONS or token.text in BEHIND_A_VALUE
    if token.kind == "word" and token.text == "NOT":
        behind = tokens[at + 1]
        return behind.kind == "word" and (behind.text in ("IN", "BETWEEN") or behind.text in LIKE)
    return token.kind == "end" or (token.kind == "word" and token.text in _WORDS_BEHIND_A_VALUE)


def is_asked_for(tokens: Sequence[Token], at: int) -> bool:
    """Return whether IS and a word that only IS takes stand at index `at`, so that a value stands before.

    At the end of a text Spark takes `NOT IS NULL` for a condition `NOT IS` that is called NULL.
    """
    words = [token.text if token.kind == "word" else "" for token in tokens[at : at + 3]]
    if words[0] != "IS":
        return False
    if words[1] == "NOT":
        return len(words) > 2 and words[2] in _ASKED
    return words[1] in _ASKED and tokens[at + 2].kind != "end"
