"""Every hint can be copied: its quotes are in pairs, its commands are of a shell, its methods of Python."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tailbit import errors
from tailbit.errors import PredicateError, TailbitError
from tailbit.index.sql import operands, refusals
from tailbit.index.sql.ddl import other_statements
from tailbit.index.sql.ddl import refusals as ddl_refusals
from tailbit.index.sql.syntax import characters, hints, statements
from tailbit.index.sql.syntax.parser import parse_predicate

MODULES = (refusals, operands, other_statements, ddl_refusals, characters, hints, statements, errors)


def texts(value: Any) -> Iterator[str]:
    """The texts in the tables of hints of a module, and the hints of its errors."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for each in value.values() for text in texts(each))
    elif isinstance(value, (list, tuple)):
        yield from (text for each in value for text in texts(each))
    elif isinstance(value, type) and issubclass(value, TailbitError):
        yield value.hint


def of_module(module: ModuleType) -> list[str]:
    return [
        text for name, value in vars(module).items() if not name.startswith("__") for text in texts(value)
    ]


def is_paired(text: str) -> bool:
    """Whether backticks and double quotes are in pairs, but for those that a backslash or quotes show."""
    shown = re.sub(r"\\.|'[`\"]'", "", text)
    return shown.count("`") % 2 == 0 and shown.count('"') % 2 == 0


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_quotes_of_every_hint_are_in_pairs(module: ModuleType) -> None:
    assert [text for text in of_module(module) if not is_paired(text)] == []


NAMES = (
    "flights",
    "`flights`",
    '"flights"',
    "`my db`.`my table`",
    "delta.`/data/my flights`",
    "hudi.`/a``b`",
)
ITEMS = ("*", "carrier", "`air time`", "`a``b`, `c,d`", "carrier AS c", "count(*)", "sum(`air time`)")
ITEMS += ("count(DISTINCT `air time`)", "DISTINCT `air time`", "concat(a, ','), b")
CONDITIONS = (
    "",
    " WHERE carrier = 'UA'",
    ' WHERE carrier = "UA"',
    " WHERE `air time` > 5",
    " WHERE a = '$x`\"\\\\'",
)
CLAUSES = (
    "",
    " GROUP BY `air time`, b",
    " ORDER BY `air time` DESC LIMIT 5",
    ";",
    " GROUP BY a HAVING count(*) > 1",
)
SELECTS = [
    f"SELECT {items} FROM {name}{condition}{clause}"
    for name in NAMES
    for items in ITEMS
    for condition in CONDITIONS
    for clause in CLAUSES
]


def told(text: str) -> tuple[str, str]:
    """The command and the method that a statement's hint names."""
    with pytest.raises(PredicateError) as refused:
        parse_predicate(text)
    hint = refused.value.hint
    written = re.fullmatch(r"Write: (tailbit .*); in Python: (.*?)(; filter what it gives.*)?", hint)
    assert written is not None, hint
    return written[1], written[2]


def words_of(commands: list[str]) -> list[list[str]]:
    """The words of commands, as a shell reads them."""
    script = "\n".join(f"printf '%s\\0' {command}; printf '\\n'" for command in commands)
    said = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True, timeout=60)
    assert said.stderr == ""
    return [line.split("\0")[:-1] for line in said.stdout.splitlines()]


def test_a_select_is_told_as_a_command_of_a_shell_and_a_method_of_python() -> None:
    tables = {"flights", "my db.my table", "/data/my flights", "/a`b"}
    hints_of = [told(select) for select in SELECTS]
    commands = words_of([command for command, _ in hints_of])
    for select, command, (_, method) in zip(SELECTS, commands, hints_of, strict=True):
        assert command[2] in tables, select
        ast.parse(method)
        condition = re.search(r" WHERE (.*?)(?: GROUP BY| ORDER BY|;|$)", select)
        if condition is not None:
            assert condition[1] in command, (select, command)
            assert repr(condition[1]) in ast.unparse(ast.parse(method)), (select, method)


def test_a_shell_gets_a_name_in_backticks_within_quotes() -> None:
    command, method = told("SELECT `air time` FROM `my db`.`t` WHERE `air time` > 5 LIMIT 3;")
    assert words_of([command]) == [
        "tailbit|read|my db.t|`air time` > 5|--columns|`air time`|--limit|3".split("|")
    ]
    assert method == 'table.where("`air time` > 5").read(["`air time`"], limit=3)'
