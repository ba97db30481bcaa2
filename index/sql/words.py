"""Which words and signs may stand beside a column, a sign and a parenthesis, by sqlglot's names of them."""

from __future__ import annotations

COMPARED = frozenset("EQ NEQ LT LTE GT GTE NULLSAFE_EQ".split())
ARITHMETIC = frozenset("PLUS DASH STAR SLASH MOD DIV DPIPE AMP PIPE CARET".split())
SIGNS = ("DASH", "TILDE")
BRANCHES = frozenset("WHEN THEN ELSE".split())
LIKE = frozenset("LIKE ILIKE RLIKE".split())
BEFORE_A_SIGN = COMPARED | ARITHMETIC | BRANCHES | frozenset("L_PAREN COMMA BETWEEN AND OR NOT TILDE".split())
BEFORE_A_NAME = BEFORE_A_SIGN | LIKE | {"DOT"}
BEHIND_A_NAME = COMPARED | frozenset("R_PAREN COMMA AND OR IS IN BETWEEN DOT DCOLON".split())
BEHIND_A_FIELD = BEHIND_A_NAME | ARITHMETIC | BRANCHES | LIKE | {"END"}
"""What may also follow a name that is no operator or keyword of an expression."""

NO_FUNCTIONS = frozenset(
    "AND OR NOT IN IS LIKE ILIKE RLIKE REGEXP BETWEEN ANY ALL SOME CASE WHEN THEN ELSE END CAST TRY_CAST "
    "EXTRACT EXISTS AS FROM ESCAPE DIV XOR SELECT INTERVAL DISTINCT".split()
)
"""Words that a parenthesis may follow without making them functions."""
ENDS = ("BOTH", "LEADING", "TRAILING")
"""From which ends TRIM takes characters away."""
VALUES = ("NULL", "TRUE", "FALSE")
ASKED = ("IS NULL", "IS TRUE", "IS FALSE", "IS UNKNOWN", "IS DISTINCT")
TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
"""The names of types that may stand before a string."""

CAST_TYPES = frozenset(
    "TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE DECIMAL DEC NUMERIC STRING BINARY "
    "BOOLEAN DATE TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ".split()
)
"""The names of types that a cast may give."""
