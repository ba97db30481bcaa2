"""Tokens of a predicate's text, split as Spark's lexer splits it.

Source: Spark 4.2, SqlBaseLexer.g4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from tailbit.index.sql.refusals import refuse
from tailbit.index.values.literals import string


class Token(NamedTuple):
    """A token of the text.

    `kind` is one of word, name (in backticks), string, number, sign and end. `text` is a word in capitals, a
    name without its backticks, the value of a string, a number as written, or the sign.
    """

    kind: str
    text: str
    start: int
    end: int


_TOKEN = re.compile(
    r"""(?:(?P<gap>\s+ | --(?:\\\n|[^\r\n])*)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYDF])?)(?!\w)
    | (?P<string>[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*'(?!') | "(?:[^"\\]|\\.|"")*"(?!"))
    | (?P<word>\w+)
    | (?P<name>`(?:[^`]|``)*`(?!`))
    | (?P<comment>/\*)
    | (?P<sign><=>|<>|<=|>=|==|!=|!<|!>|\|\||::|->|=>|[-+*/%=<>!&|^~.,;()\[\]?:]))\s*""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_SAME = {"==": "=", "!=": "<>", "!<": ">=", "!>": "<="}
_VARIABLE = re.compile(r"\$\{[^ \t\n\x0b\f\r]+?\}")
"""A variable such as `${x}`, which Spark replaces by a setting, in quotes too, before it reads a text.

Source: Spark 4.2, VariableSubstitution and ConfigReader.
"""
_OUTSIDE = (
    "A text stands in quotes, a name in backticks, a list in parentheses: dest IN ('SFO', 'LAX'). A value "
    'from outside is a parameter: where("n > :n", {"n": 5}).'
)
_CHARACTERS = {
    **dict.fromkeys("‘’‚‛′´“”„‟″«»", "Write straight quotes: 'UA'."),
    "≥": "Write >=.", "≤": "Write <=.", "≠": "Write <>.", "∧": "Write AND.", "∨": "Write OR.",
    "¬": "Write NOT.",
    **dict.fromkeys("−–", "Write the minus sign of the keyboard: -."),
    "×": "Write *.", "÷": "Write /.",
    "#": "A comment begins with two minus signs: --. A name with # stands in backticks.",
}  # fmt: skip
"""Characters that begin nothing in SQL, and what to write instead."""
_UNCLOSED = {"'": "Close it; within a text it is written \\'.", '"': "Close it.", "`": "Close it."}


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text, the last one of kind end; comments and blanks are left out.

    Cost: linear in the length of the text.
    """
    if variable := _VARIABLE.search(text):
        hint = "Spark puts a setting in its place. For the characters themselves write '$' '{x}'."
        refuse(text, f"{variable.group()!r} is a variable", variable.start(), hint)
    tokens: list[Token] = []
    start, add, match_at = 0, tokens.append, _TOKEN.match
    while start < len(text):
        match = match_at(text, start)
        if match is None:
            _refuse_character(text, start)
        kind, end = match.lastgroup, match.end()
        if kind == "comment":
            end = _end_of_comment(text, start)
        elif kind != "gap" and kind is not None:
            raw = match[kind]
            add(
                Token(
                    kind,
                    raw if kind == "number" else _text_of(text, kind, raw, start),
                    start,
                    start + len(raw),
                )
            )
        start = end
    add(Token("end", "", len(text), len(text)))
    return tokens


def _text_of(text: str, kind: str, raw: str, start: int) -> str:
    if kind == "word":
        return raw.upper()
    if kind == "name":
        return raw[1:-1].replace("``", "`")
    if kind == "sign":
        return _SAME.get(raw, raw)
    if kind == "string":
        if raw.isascii() and "\\" not in raw and raw[0] not in "rR" and raw[0] not in raw[1:-1]:
            return raw[1:-1]
        try:
            value = string(raw)
            value.encode()
        except UnicodeError:
            refuse(text, "a text holds half of a character, a surrogate", start, "Write whole characters.")
        except ValueError as wrong:
            refuse(text, f"a string that is not read: {wrong}", start)
        return value
    return raw


def _end_of_comment(text: str, start: int) -> int:
    """Return where a bracketed comment ends; Spark nests them."""
    if text.startswith("/*+", start):
        refuse(text, "a hint is not read here", start, "Leave it out.")
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    refuse(text, "a comment is not closed (UNCLOSED_BRACKETED_COMMENT in Spark)", start, "Close it by */.")


def _refuse_character(text: str, start: int) -> NoReturn:
    character = text[start]
    if character in _UNCLOSED:
        refuse(text, f"{character} is not closed (PARSE_SYNTAX_ERROR in Spark)", start, _UNCLOSED[character])
    shown = character if character.isprintable() else repr(character)
    reason = f"the character {shown} stands outside of quotes (PARSE_SYNTAX_ERROR in Spark)"
    refuse(text, reason, start, _CHARACTERS.get(character, _OUTSIDE))


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
_CONSTANTS = ("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT")


def ends_a_value(tokens: Sequence[Token], index: int) -> bool:
    """Return whether the token at `index` shows that a whole value stands before it."""
    token = tokens[index]
    if token.kind == "sign":
        return token.text in COMPARISONS or token.text in BEHIND_A_VALUE
    if token.kind == "word" and token.text == "NOT":
        behind = tokens[index + 1]
        return behind.kind == "word" and (behind.text in ("IN", "BETWEEN") or behind.text in LIKE)
    return token.kind == "end" or (token.kind == "word" and token.text in _WORDS_BEHIND_A_VALUE)


def is_asked_for(tokens: Sequence[Token], index: int) -> bool:
    """Return whether IS and a word that only IS takes stand at `index`, so that a value stands before.

    At the end of a text Spark takes `NOT IS NULL` for a condition `NOT IS` that is called NULL.
    """
    words = [token.text if token.kind == "word" else "" for token in tokens[index : index + 3]]
    if words[0] != "IS":
        return False
    if words[1] == "NOT":
        return len(words) > 2 and words[2] in _CONSTANTS
    return words[1] in _CONSTANTS and tokens[index + 2].kind != "end"
