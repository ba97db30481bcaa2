"""Where a text has no tokens: a quote or comment is not closed, or X'..' holds other than digits."""

from __future__ import annotations

import re
from typing import NoReturn

from tailbit.index.sql.refusals import refuse

_PIECE = re.compile(
    r"""--[^\r\n]* | /\*.*?\*/
    | [rR]'[^']*' | [rR]"[^"]*" | [xX](?P<digits>'[^']*'|"[^"]*")
    | '(?:[^'\\]|\\.|'')*'(?!') | "(?:[^"\\]|\\.|\"\")*"(?!") | `(?:[^`]|``)*`(?!`)
    | \w+ | (?P<stray>/\*|['"`]) | .""",
    re.DOTALL | re.VERBOSE,
)
"""Comments, strings and names as a whole; what begins one that has no end is a stray.

Cost: that of the text, since nothing is looked for behind the first stray."""


def refuse_stray(text: str) -> NoReturn:
    """Raise a PredicateError at the place from which on a text has no tokens."""
    nested = None
    for piece in _PIECE.finditer(text):
        at, digits, stray = piece.start(), piece["digits"], piece["stray"]
        if digits is not None and not re.fullmatch(r"[0-9a-fA-F]*", digits[1:-1]):
            reason = "X'..' holds other than hexadecimal digits (INVALID_TYPED_LITERAL in Spark)"
            refuse(text, reason, at, "Write bytes as X'1F'.")
        if stray == "/*":
            _refuse_comment(text, at)
        if stray is not None:
            hint = "Close it; within a text it is written \\'." if stray == "'" else "Close it."
            refuse(text, f"{stray} is not closed (PARSE_SYNTAX_ERROR in Spark)", at, hint)
        if nested is None and piece[0].startswith("/*") and "/*" in piece[0][2:]:
            nested = at
    if nested is not None:
        _refuse_comment(text, nested)
    refuse(text, "it cannot be read")


def _refuse_comment(text: str, at: int) -> NoReturn:
    refuse(text, "a comment is not closed (UNCLOSED_BRACKETED_COMMENT in Spark)", at, "Close it by */.")
