"""The pages of reference are those that the code makes, and leave out nothing that a user may call."""

from __future__ import annotations

import dataclasses
import re

import pytest

import tailbit.errors
from support import cli_page, python_page
from support.docstrings import markdown, signature
from support.pages import text_of
from tailbit.answer import Answer
from tailbit.api import IndexedTable
from tailbit.arguments.conditions import Condition
from tailbit.cli.main import COMMANDS, SUBCOMMANDS


def test_the_page_of_python_is_made_from_the_docstrings() -> None:
    assert text_of("docs/python.md") == python_page.page(), "run: make python-page"


def test_the_page_of_commands_is_made_from_their_help() -> None:
    assert text_of("docs/cli.md") == cli_page.page(), "run: make cli-page"


@pytest.mark.parametrize(
    ("door", "name"), [(IndexedTable, "table"), (Answer, "answer"), (Condition, "condition")]
)
def test_every_public_method_is_on_the_page_of_python(door: type, name: str) -> None:
    # Fields of a handle are told of in the text of its class.
    fields = {field.name for field in dataclasses.fields(door)} if dataclasses.is_dataclass(door) else set()
    public = {member for member in dir(door) if not member.startswith("_")} - fields
    assert public - set(re.findall(rf"`{name}\.(\w+)`", python_page.page())) == set()


def test_every_name_of_the_package_and_every_error_is_on_the_page_of_python() -> None:
    page = python_page.page()
    errors = [name for name in vars(tailbit.errors) if name.endswith(("Error", "Error_"))]
    assert [name for name in [*tailbit.__all__, *errors] if f"{name}`" not in page] == []


def test_every_option_is_on_the_page_of_commands() -> None:
    page = cli_page.page()
    commands = {str(command.name): command for command in COMMANDS} | SUBCOMMANDS
    for name, command in commands.items():
        flags = [
            option for parameter in command.params for option in parameter.opts if option.startswith("--")
        ]
        part = page.partition(f"## `tailbit {name}`\n")[2].partition("\n## ")[0]
        assert [flag for flag in flags if f"`{flag}" not in part and f", {flag}" not in part] == []


def test_a_docstring_becomes_prose_a_list_of_errors_and_code() -> None:
    def asked(a: int, *more: str, b: str = "x") -> list[int]:
        """Return what is < `a<b>`.

        Raises:
            KeyError: there is
                none.
            ValueError: no `a`.

        >>> asked(1)
        [1]
        """
        return [a]

    assert signature("asked", asked) == "asked(a: int, *more: str, b: str = 'x') -> list[int]"
    assert markdown(asked.__doc__) == (
        "Return what is \\< `a<b>`.\n\n"
        "Raises:\n\n- `KeyError`: there is none.\n- `ValueError`: no `a`.\n\n"
        "```pycon\n>>> asked(1)\n[1]\n```"
    )
