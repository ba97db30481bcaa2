"""Recognition of a whole SQL statement in place of a condition, and the command and method to use instead.

`SELECT carrier, count(*) FROM flights WHERE dest = 'SFO' GROUP BY carrier` is `tailbit facets flights carrier
--where "dest = 'SFO'"`, and `table.where("dest = 'SFO'").facets("carrier")`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tailbit.index.sql.syntax.tokens import Token

CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "LIMIT", "OFFSET", "UNION", "JOIN")
_JOINS = frozenset("JOIN INNER LEFT RIGHT FULL CROSS NATURAL UNION INTERSECT EXCEPT MINUS".split())
_WRITES = frozenset("INSERT UPDATE DELETE MERGE CREATE DROP ALTER TRUNCATE REPLACE".split())
_LOOKS = frozenset("SHOW DESCRIBE DESC EXPLAIN USE SET WITH TABLE VALUES FROM".split())
AGGREGATES = {"COUNT": "count", "SUM": "sum", "AVG": "avg", "MEAN": "avg", "MIN": "min", "MAX": "max"}


class Statement(NamedTuple):
    """The pieces of a statement as written, by the first word of their clause.

    `condition`: what stands behind WHERE, or before the first clause.
    """

    pieces: Mapping[str, str]
    condition: str
    starts: Mapping[str, int]

    def piece(self, word: str) -> str:
        """Return the text of a clause, without its keyword; empty if there is no such clause."""
        return self.pieces.get(word, "")


def statement_of(text: str, tokens: Sequence[Token], stopped: int) -> Statement | None:
    """Return a text as a statement if it is one, or if further clauses follow a condition; else None.

    `stopped`: the place in the text at which a condition could be read no further.
    """
    clauses = _clauses(tokens)
    first = tokens[0].text if tokens[0].kind == "word" else ""
    leads = first in ("SELECT", "WHERE", "FROM", "GROUP", "ORDER", "LIMIT", "HAVING", "OFFSET")
    if not clauses or (not leads and clauses[0].start > stopped + 1):
        return None
    pieces: dict[str, str] = {}
    starts: dict[str, int] = {}
    ends = [clause.start for clause in clauses[1:]] + [len(text)]
    for clause, end in zip(clauses, ends, strict=True):
        begin = clause.end
        if clause.text in ("GROUP", "ORDER", "SORT"):
            begin += len(text[begin:]) - len(text[begin:].lstrip()) + len("BY")
        pieces.setdefault(clause.text, text[begin:end].strip(" ;\n\t"))
        starts.setdefault(clause.text, clause.start)
    before = text[: clauses[0].start].strip()
    return Statement(pieces, pieces.get("WHERE", "" if leads else before), starts)


def _clauses(tokens: Sequence[Token]) -> list[Token]:
    """Return the words that begin a clause, outside of parentheses and not where a column could stand."""
    clauses: list[Token] = []
    depth = 0
    for at, token in enumerate(tokens[:-1]):
        if token.kind == "sign" and token.text in "()":
            depth += 1 if token.text == "(" else -1
        if depth or token.kind != "word":
            continue
        behind = tokens[at + 1]
        is_clause = token.text in CLAUSES or (token.text in _JOINS and clauses)
        if token.text == "FROM" and at and tokens[at - 1].text == "DISTINCT":
            continue
        by = token.text not in ("GROUP", "ORDER", "SORT") or behind.text == "BY"
        is_column = behind.kind == "sign" and behind.text not in ("(", "*", "-")
        if is_clause and by and not is_column and behind.kind != "end":
            clauses.append(
                Token("word", "JOIN" if token.text in _JOINS else token.text, token.start, token.end)
            )
    return clauses


def told(statement: Statement, text: str) -> tuple[str, int, str]:
    """Return the message about a statement, its place, and what to write instead."""
    clause, at = min(statement.starts.items(), key=lambda item: item[1])
    if "JOIN" in statement.pieces or "UNION" in statement.pieces:
        at = statement.starts.get("JOIN", statement.starts.get("UNION", 0))
        hint = "Ask each table by itself; values of the other stand in a list: IN (1, 2)."
        return "a question is of one table, without a join or union", at, hint
    if clause == "WHERE" and len(statement.pieces) == 1:
        return "a condition stands without the word WHERE", at, f"Write: {statement.condition}"
    shown = {"GROUP": "GROUP BY", "ORDER": "ORDER BY", "SORT": "SORT BY"}.get(clause, clause)
    whole = clause in ("SELECT", "FROM") and at == 0
    reason = (
        "it is a whole query, and only what stands behind its WHERE is wanted here"
        if whole
        else f"{shown} is no part of a condition"
    )
    return reason, at, _instead(statement)


def written(first: str) -> str | None:
    """Return the message about a statement that is no question, by its first word; None for other words."""
    if first in _WRITES:
        return "tailbit answers questions and never writes to the table: run the statement in Spark."
    if first in _LOOKS:
        return "Give only a condition, such as carrier = 'UA'; tailbit --help lists the commands."
    return None


def _instead(statement: Statement) -> str:
    """Return the command and the method equivalent to a statement."""
    table = _table(statement.piece("FROM"))
    condition, items = statement.condition, _items(statement.piece("SELECT"))
    calls = [call for item in items if (call := _aggregate(item)) is not None]
    where = f" --where {_in_shell(condition)}" if condition else ""
    answer = f"table.where({_in_python(condition) if condition else ''})"
    named = _items(statement.piece("GROUP"))
    groups = [items[int(g) - 1] if g.isdigit() and 0 < int(g) <= len(items) else g for g in named]
    if groups or "HAVING" in statement.pieces:
        command, method = _facets(table, groups or ["COLUMN"], calls)
        further = "; filter what it gives, for there is no HAVING." if "HAVING" in statement.pieces else ""
        top = f" --top {statement.piece('LIMIT')}" if "LIMIT" in statement.pieces else ""
        return f"{_both(command + where + top, answer + method)}{further}"
    if len(items) == 1 and items[0].upper().startswith("DISTINCT "):
        column = items[0].split(None, 1)[1].strip(" ()")
        command = f"tailbit facets {table} {_word(column)}{where}"
        return _both(command, f"{answer}.distinct({_in_python(column)})")
    if calls:
        return _aggregated(table, calls[0], condition, where, answer)
    return _read(statement, table, items)


def _both(command: str, method: str) -> str:
    return f"Write: {command}; in Python: {method}"


def _facets(table: str, groups: Sequence[str], calls: Sequence[tuple[str, str]]) -> tuple[str, str]:
    measures = [(name, column) for name, column in calls if name != "count"]
    options = "".join(f" --{name} {_word(column)}" for name, column in measures)
    named = "".join(f", {name}={_in_python(column)}" for name, column in measures)
    quoted = ", ".join(map(_in_python, groups))
    return f"tailbit facets {table} {_word(','.join(groups))}{options}", f".facets({quoted}{named})"


def _aggregated(table: str, call: tuple[str, str], condition: str, where: str, answer: str) -> str:
    name, column = call
    if name == "count" and column.upper().startswith("DISTINCT "):
        column = column.split(None, 1)[1]
        command = f"tailbit summary {table} {_word(column)}{where}"
        return _both(command, f"{answer}.count_distinct({_in_python(column)})")
    if name == "count":
        quoted = f" {_in_shell(condition)}" if condition else ""
        return _both(f"tailbit count {table}{quoted}", f"{answer}.count()")
    return _both(f"tailbit summary {table} {_word(column)}{where}", f"{answer}.{name}({_in_python(column)})")


def _read(statement: Statement, table: str, items: Sequence[str]) -> str:
    columns = [_ALIAS.sub("", item) for item in items if item != "*"]
    order = _items(statement.piece("ORDER") or statement.piece("SORT"))
    quoted = f" {_in_shell(statement.condition)}" if statement.condition else ""
    answer = f"table.where({_in_python(statement.condition) if statement.condition else ''})"
    options, arguments = "", []
    if columns:
        options += f" --columns {_word(','.join(columns))}"
        arguments.append("[" + ", ".join(map(_in_python, columns)) + "]")
    if order:
        options += f" --order-by {_in_shell(','.join(order))}"
        arguments.append("order_by=[" + ", ".join(map(_in_python, order)) + "]")
    for word in ("LIMIT", "OFFSET"):
        if statement.piece(word):
            options += f" --{word.lower()} {statement.piece(word)}"
            arguments.append(f"{word.lower()}={statement.piece(word)}")
    return _both(f"tailbit read {table}{quoted}{options}", f"{answer}.read({', '.join(arguments)})")


_ALIAS = re.compile(r"\s+AS\s+(?:\w+|`(?:[^`]|``)+`)$", re.IGNORECASE)
"""The name that a SELECT gives to an item."""
_NAME = re.compile(r"(?:`(?:[^`]|``)+`|\"[^\"]+\"|[^\s`,;\"])+")
"""A name with its quoted parts, to the first blank outside of them."""
_PATH = re.compile(r"\w+\.`((?:[^`]|``)+)`|\"([^\"]+)\"")
"""A table as a statement names its folder: a format and the path in backticks; or a name in double quotes."""
_PIECE = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"[^\"]*\"|[(),]|[^`'\"(),]+|.", re.DOTALL)
"""A quoted piece of a list, a sign that parts or nests its items, or what is between."""


def _table(source: str) -> str:
    """Return the table of a FROM clause as an argument of a command."""
    name = _NAME.match(source)
    if name is None:
        return "TABLE"
    path = _PATH.fullmatch(name[0])
    if path is not None:
        return _word((path[1] or path[2]).replace("``", "`"))
    return _word(re.sub("`((?:[^`]|``)+)`", lambda part: part[1].replace("``", "`"), name[0]))


def _word(text: str) -> str:
    """Return an argument of a shell, in quotes only where it needs them."""
    return text if shlex.quote(text) == text else _in_shell(text)


def _in_shell(text: str) -> str:
    """Return a text in the quotes of a shell, in which no character of the text is a sign of the shell."""
    if "'" not in text and any(sign in text for sign in '"$`\\!'):
        return f"'{text}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def _in_python(text: str) -> str:
    """Return a text as Python writes it, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _items(listed: str) -> list[str]:
    """Split a list at the commas outside of parentheses and quotes."""
    items, depth = [""], 0
    for piece in _PIECE.findall(listed):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and not depth:
            items.append("")
        else:
            items[-1] += piece
    return [item.strip() for item in items if item.strip()]


def _aggregate(item: str) -> tuple[str, str] | None:
    """Return the name and the argument of an aggregate function; None for other items."""
    name, paren, rest = item.partition("(")
    method = AGGREGATES.get(name.strip().upper())
    return (method, rest.split(")")[0].strip()) if paren and method else None
