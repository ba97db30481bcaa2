"""Every hint can be copied: its quotes are in pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tailbit import errors
from tailbit.errors import TailbitError
from tailbit.index.sql import operands, refusals
from tailbit.index.sql.ddl import refusals as ddl_refusals
from tailbit.index.sql.syntax import hints, tokens

MODULES = (refusals, operands, ddl_refusals, hints, tokens, errors)


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
