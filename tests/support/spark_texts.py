"""Random texts of conditions, and parsed ones written anew with all their parentheses, for Spark's parser."""

from __future__ import annotations

import random

from tailbit.index.sql.syntax.tree import Tree

_OPERANDS = (
    "a b 1 'x' -1 NULL TRUE t.x `q` DATE'2020-01-01' X'1F' not interval and in case 2.5 -2.5 1L values "
    "div between is like current_date right "
).split()
_OPERATORS = "+ - * / % = <> < <=> || | & ^ DIV == != >= AND OR AND OR << >> >>>".split()
_SHAPES = (
    *["{0} {op} {1}"] * 8, "NOT {0}", "({0})", "{0} IN ({1}, {2})", "{0} NOT IN ({1})", "{0} IS NULL",
    "{0} IS NOT NULL", "{0} IS TRUE", "{0} IS NOT UNKNOWN", "{0} IS DISTINCT FROM {1}",
    "{0} IS NOT DISTINCT FROM {1}", "{0} BETWEEN {1} AND {2}", "{0} NOT BETWEEN {1} AND {2}",
    "{0} LIKE {1}", "{0} NOT RLIKE {1}", "{0} ILIKE {1}", "{0} REGEXP {1}", "{0} LIKE {1} ESCAPE '!'",
    "{0} NOT LIKE ANY ({1}, {2})", "{0} LIKE ALL ({1}, {2})", "-{0}", "- {0}", "~{0}", "!{0}",
    "CASE WHEN {0} THEN {1} ELSE {2} END", "CASE {0} WHEN {1} THEN {2} END", "CAST({0} AS INT)",
    "TRY_CAST({0} AS DECIMAL(3,1))", "{0}::INT", "{0}[{1}]", "{0}.f", "f({0}, {1})",
    "exists({0}, x -> {1})", "substring({0} FROM {1} FOR {2})", "position({0} IN {1})",
    "trim({0} FROM {1})", "trim(LEADING {0} FROM {1})", "extract(YEAR FROM {0})", "lower({0})",
    "if({0}, {1}, {2})", "aggregate({0}, 0, (x, y) -> {1})", "{0} - INTERVAL 1 DAY",
    "{0} + INTERVAL '1' HOUR -2 MINUTES",
)  # fmt: skip
_WORDS = (
    "a b NOT AND OR IN IS NULL TRUE LIKE BETWEEN CASE WHEN THEN ELSE END ESCAPE ANY ALL DISTINCT FROM "
    "DIV UNKNOWN INTERVAL DAY IF f( CAST( AS INT ( ) ( ) , + - * / = < <=> || | ! :: [ ] -> . 'x' 1 2.5 "
    "`q` << XOR COLLATE SELECT "
).split()


def random_text(rng: random.Random) -> str:
    """Return a text that is mostly a condition: a word of some is another one, some are only words."""
    if rng.random() < 0.1:
        return " ".join(rng.choices(_WORDS, k=rng.randint(1, 7)))
    text = _expression(rng, rng.randint(1, 4))
    if rng.random() < 0.2:
        words = text.split(" ")
        words[rng.randrange(len(words))] = rng.choice(_WORDS)
        text = " ".join(words)
    return text


def _expression(rng: random.Random, depth: int) -> str:
    if depth <= 0:
        return rng.choice(_OPERANDS)
    parts = [_expression(rng, depth - rng.randint(1, 2)) for _ in range(3)]
    return rng.choice(_SHAPES).format(*parts, op=rng.choice(_OPERATORS))


def in_parentheses(e: Tree) -> str:
    """Return a parsed text written anew, each of its operators in parentheses of its own."""
    first = "" if e.first is None else in_parentheses(e.first)
    second = "" if e.second is None else in_parentheses(e.second)
    items = [in_parentheses(item) for item in e.items]
    if e.kind in ("column", "field", "lambda"):
        return _named(e, first)
    if e.kind == "like":
        return _like(e, first, second, items)
    return _others(e, first, second, items).get(e.kind, e.kind)


def _others(e: Tree, first: str, second: str, items: list[str]) -> dict[str, str]:
    """Return the text of a node by each kind that it might be."""
    negation = "NOT " if e.negated else ""
    branches = " ".join(f"WHEN {a} THEN {b}" for a, b in zip(items[::2], items[1::2], strict=False))
    return {
        **dict.fromkeys(("and", "or"), "(" + f" {e.kind} ".join(f"({item})" for item in items) + ")"),
        "not": f"(NOT ({first}))",
        "negative": f"(- ({first}))",
        "invert": f"(~ ({first}))",
        "parenthesis": first,
        **dict.fromkeys(("compare", "arithmetic"), f"(({first}) {e.text} ({second}))"),
        "is": f"(({first}) IS {negation}{e.text})",
        "in": f"(({first}) {negation}IN ({', '.join(items)}))",
        "between": f"(({first}) {negation}BETWEEN ({') AND ('.join(items)}))",
        "case": f"CASE {first and f'({first})'} {branches} {second and f'ELSE {second}'} END",
        "type": e.text + (f"({', '.join(items)})" if items else ""),
        "element": f"({first})[{second}]",
        "extract": f"EXTRACT({e.text} FROM ({first}))",
        "trim": f"TRIM({e.text} {second} FROM ({first}))",
        "tuple": f"({', '.join(items)})",
        "call": _call(e.text, items),
        "cast": _cast(e.text, first, second),
        "constant": _constant(e),
    }


def _named(e: Tree, first: str) -> str:
    names = [f"`{name.replace('`', '``')}`" for name in e.names]
    if e.kind == "lambda":
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} -> ({first})"
    return ".".join(names) if e.kind == "column" else f"({first}).{'.'.join(names)}"


def _like(e: Tree, first: str, second: str, items: list[str]) -> str:
    negation = "NOT " if e.negated else ""
    if e.quantifier:
        return f"(({first}) {negation}{e.text} {e.quantifier} ({', '.join(items)}))"
    escape = "" if e.escape is None else f" ESCAPE {in_parentheses(e.escape)}"
    return f"(({first}) {negation}{e.text} ({second}){escape})"


def _call(name: str, items: list[str]) -> str:
    words = {"substring": ("FROM", "FOR"), "position": ("IN",)}.get(name.lower())
    if words is not None and items:
        return (
            f"{name}(({items[0]})"
            + "".join(f" {w} ({i})" for w, i in zip(words, items[1:], strict=False))
            + ")"
        )
    return f"{name if name.isidentifier() else f'`{name}`'}({', '.join(items)})"


def _cast(written: str, operand: str, type_: str) -> str:
    if written in ("CAST", "TRY_CAST", "::"):
        return f"{'CAST' if written == '::' else written}(({operand}) AS {type_})"
    return f"{written}{operand}"


def _constant(e: Tree) -> str:
    if e.constant is None:
        return ""
    kind, text, negative, plus = e.constant
    if kind == "string":
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if kind == "interval":
        return f"INTERVAL '{text}'"
    return f"{'-' * negative}{'+' * plus}{text}"
