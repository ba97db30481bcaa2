"""The pages of reference are those that the code makes, and leave out nothing that a user may call."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest
from pydantic import BaseModel

import tailbit.errors
from support import cli_page, configuration_page, python_page
from support.docstrings import markdown, signature
from support.pages import text_of
from tailbit.answer import Answer
from tailbit.api import IndexedTable
from tailbit.arguments.conditions import Condition
from tailbit.cli.main import COMMANDS, SUBCOMMANDS
from tailbit.cli.running import run
from tailbit.index.kinds.schemas import DEFINABLE
from tailbit.spark.source import OPTIONS
from tailbit.streaming import start
from tailbit.streaming.config.model import Application, Defaults, IndexEntry, TableEntry
from tailbit.tables.storage import locations
from tailbit.tables.storage.store import CATALOG_PROPERTY, METADATA_FILE, OPTION, TABLE_FORMAT


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


def test_the_page_of_settings_is_made_from_the_code() -> None:
    assert text_of("docs/configuration.md") == configuration_page.page(), "run: make configuration-page"


def rows_of(heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the page of settings, without its head."""
    section = text_of("docs/configuration.md").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line[2:-2].split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def described(heading: str) -> dict[str, str]:
    """The settings of a table of the page with their defaults; each says what it does."""
    rows = rows_of(heading)
    assert [row for row in rows if not row[-1]] == []
    return {row[0].strip("`"): row[1].strip("`") for row in rows}


def test_every_option_of_an_index_of_one_table_and_its_argument_is_a_setting() -> None:
    rows = rows_of("An index of one table")
    assert [row[0] for row in rows] == [f"`{p.opts[0]}`" for p in run.params if p.opts[0].startswith("--")]
    arguments = set(inspect.signature(start).parameters) - {"spark", "path"}
    assert {row[1].strip("`") for row in rows} - {""} == arguments


@pytest.mark.parametrize(
    ("heading", "some"), [("Other commands", "`--top`"), ("Arguments in Python", "`serve`")]
)
def test_every_option_and_argument_of_the_rest_says_what_it_does(heading: str, some: str) -> None:
    rows = rows_of(heading)
    assert some in {row[0] for row in rows}
    assert [row for row in rows if len(row) != 4 or not row[3].strip()] == []


@pytest.mark.parametrize("section", [Application, Defaults, TableEntry, IndexEntry])
def test_every_key_of_a_configuration_says_what_it_does(section: type[BaseModel]) -> None:
    inherited = set(Defaults.model_fields) if section is TableEntry else set()
    assert set(configuration_page.effects_of(section)) == set(section.model_fields) - inherited


def test_every_variable_of_the_environment_that_the_code_reads_is_a_setting() -> None:
    variables = {name for name in described("The environment") if "…" not in name}
    assert configuration_page.read_variables() == variables | configuration_page.BETWEEN_PROCESSES


def test_every_setting_of_spark_is_there_with_the_default_that_java_has() -> None:
    read, settings = configuration_page.read_settings(), described("Spark's own queries")
    assert set(settings) == {f"spark.tailbit.{name}" for name in read}
    for name in ("enabled", "mostRows", "startMs", "knownMs", "python"):
        assert settings[f"spark.tailbit.{name}"] == read[name]


def test_every_option_of_the_data_source_and_of_stores_and_indexes_says_what_it_does() -> None:
    assert [*described("The data source")] == list(OPTIONS)
    split = set(re.findall(r'bare == "(\w+)"', inspect.getsource(locations)))
    assert set(described("Stores")) == {
        OPTION,
        TABLE_FORMAT,
        METADATA_FILE,
        CATALOG_PROPERTY,
        *locations._CLIENT_NAMES,
        *split,
    }
    options = [
        [f"`{kind}`", f"`{option}`", ", ".join(f"`{choice}`" for choice in choices)]
        for kind, rules in DEFINABLE.items()
        for option, choices in rules.options.items()
    ]
    assert [row[:3] for row in rows_of("Kinds of indexes")] == options


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
