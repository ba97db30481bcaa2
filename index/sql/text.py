"""The text of a predicate as a tree of sqlglot, its constants kept exactly as written.

sqlglot reads the grammar; the constants are taken out of its hands: each becomes an index into a side table
that holds the text as written, since escapes, suffixes and adjacent strings mean things to Spark that a
general tree does not keep. Importing sqlglot costs 0.13 s, so it is imported by the first predicate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tailbit.index.sql.grammar import NEVER_AGAIN, fault_of
from tailbit.index.sql.refusals import refuse
from tailbit.index.sql.strays import refuse_stray
from tailbit.index.sql.tokens import WORD, Token, TokenReader, WrittenConstant
from tailbit.index.sql.written.keyword_arguments import with_commas
from tailbit.index.sql.written.variables import variable_in

FLATTEN = "Flatten it: AND and OR take any number of conditions, IN any list."

_GRAMMAR = (
    "Spark SQL text over columns and literals: = <> < <= > >= <=> IN BETWEEN LIKE IS NULL AND OR NOT, "
    "arithmetic, CASE, CAST and the functions of docs/functions.md; "
    "a column named like one of these words stands in backticks: `not`."
)


@dataclass(frozen=True)
class ParsedPredicate:
    """A tree whose literals hold indexes into `constants`.

    `fault`: the place from which on the text is outside of the part of Spark's grammar that is read, though
    perhaps not of Spark's; whoever reads the tree names what stands there, or else must refuse it.
    """

    text: str
    tree: Any
    constants: tuple[WrittenConstant, ...]
    fault: int | None = None


@lru_cache(maxsize=512)
def parse_predicate(text: str) -> ParsedPredicate:
    """The tree of a predicate in Spark's SQL.

    Raises:
        PredicateError: it does not parse; says where.
    """
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import ParseError, TokenError

    dialect = Spark()
    try:
        lexed = _tokens(dialect, text)
        if not lexed:
            refuse(text, "it is empty")
        kinds = type(lexed[0].token_type)
        reader = TokenReader(text, with_commas(lexed, kinds), kinds)
        tokens = reader.read()
        trees = dialect.parser().parse_into(exp.Condition, tokens, text)
        fault = fault_of(tokens)
    except TokenError:
        refuse_stray(text)
    except ParseError as wrong:
        refuse(text, *_described(text, wrong.errors), hint=_GRAMMAR)
    except (LookupError, AttributeError, TypeError):  # what sqlglot itself stumbles over, as in MAP(x)
        refuse(text, "it does not parse", hint=_GRAMMAR)
    except RecursionError:
        refuse(text, "it is nested too deeply", hint=FLATTEN)
    if len(trees) != 1 or trees[0] is None:
        refuse(text, "it must be one condition")
    if fault is None:
        return ParsedPredicate(text, trees[0], tuple(reader.constants))
    place = tokens[fault].start if fault < len(tokens) else tokens[-1].end
    if fault < len(tokens) and tokens[fault].text == "!":
        refuse(text, "! is no NOT behind a value (SYNTAX_DISCONTINUED.BANG_EQUALS_NOT)", place, "Write NOT.")
    if fault == len(tokens) or tokens[fault].token_type.name in NEVER_AGAIN:
        refuse(text, "Spark does not parse it from here on (PARSE_SYNTAX_ERROR)", place, _GRAMMAR)
    return ParsedPredicate(text, trees[0], tuple(reader.constants), place)


def _tokens(dialect: Any, text: str) -> list[Token]:
    """The tokens of a text, also where its first word begins what is a command to sqlglot."""
    if variable := variable_in(text):
        refuse(text, *variable)
    tokens: list[Token] = dialect.tokenize(text)
    if len(tokens) != 2 or not WORD.fullmatch(tokens[0].text) or tokens[1].token_type.name != "STRING":
        return tokens
    word, end = tokens[0], tokens[0].end + 1
    if text[end:].lstrip()[:1] in ("'", '"'):
        return tokens
    return [word, *dialect.tokenize(" " * end + text[end:])]


def _described(text: str, errors: list[dict[str, Any]]) -> tuple[str, int | None]:
    """What a parser found wrong, and where."""
    found = errors[0] if errors else {}
    reason = re.sub(r"<class '[\w.]*?(\w+)'>", r"\1", found.get("description") or "it does not parse")
    if found.get("line") is None or found.get("col") is None:
        return reason.rstrip("."), None
    before = text.splitlines(keepends=True)[: found["line"] - 1]
    return reason.rstrip("."), max(sum(map(len, before)) + found["col"] - 1, 0)
