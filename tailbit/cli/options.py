"""What the commands share: options, opening a table for a question, and printing answers.

Heavy imports stand inside functions, so that a command loads only what it needs.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailbit.cli import mistakes

if TYPE_CHECKING:
    from tailbit.answer import Answer
    from tailbit.api import IndexedTable

    _Parameter = click.ParamType[str]
else:
    _Parameter = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])

_STORAGE_OPTIONS = "tailbit.storage_options"


def index_option(function: F) -> F:
    """Add `--index` and `--storage-option`: the locations of table and index, and options of their stores."""
    return click.option("--index", metavar="PATH", help="Where the index is.  [default: TABLE/_tailbit]")(
        storage_option(function)
    )


def config_option(function: F) -> F:
    """Add `--config`: a file that names many tables."""
    return click.option(
        "--config", metavar="FILE", help="A configuration of many tables, such as tailbit.toml."
    )(function)


def only_config(tables: Sequence[str], index: str | None) -> None:
    """Check that the command line names nothing that a configuration names itself."""
    if tables or index is not None or storage_options():
        raise click.UsageError("--config names tables, indexes and storage options itself")


class _FormatName(_Parameter):
    """The name of a table format."""

    name = "format"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        from tailbit.tables.formats import NAMES

        return f"[{'|'.join(NAMES)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from tailbit.tables.formats import NAMES

        if value not in NAMES:
            self.fail(f"{value!r} is not one of {', '.join(map(repr, NAMES))}.", param, ctx)
        return str(value)


def storage_option(function: F) -> F:
    """Add `--storage-option` and `--table-format`."""
    function = click.option(
        "--table-format",
        type=_FormatName(),
        expose_value=False,
        callback=_keep_table_format,
        help="The format of the table, where its folder holds several.",
    )(function)
    return click.option(
        "--storage-option",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=_keep_storage_options,
        help="An option of the store, such as AWS_ENDPOINT_URL=... or allow_outside=true; may be repeated.",
    )(function)


def _keep_storage_options(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    """Save a command's options for `storage_options`. Values are never shown, right or wrong."""
    for text in given:
        if "=" not in text.lstrip("="):
            raise click.BadParameter("write it as KEY=VALUE")
    options = context.meta.setdefault(_STORAGE_OPTIONS, {})
    options.update(text.split("=", 1) for text in given)


def _keep_table_format(context: click.Context, _: click.Parameter, given: str | None) -> None:
    """Save the format of a command's tables among its storage options."""
    if given is not None:
        from tailbit.tables.storage.store import TABLE_FORMAT

        context.meta.setdefault(_STORAGE_OPTIONS, {})[TABLE_FORMAT] = given


def storage_options() -> dict[str, str]:
    """Return the storage options of the command."""
    options: dict[str, str] = click.get_current_context().meta.get(_STORAGE_OPTIONS, {})
    return options


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read.")(function)


_ENDINGS = {".jsonl": "json", ".ndjson": "json", ".ipc": "arrow", ".feather": "arrow"}
_FORMATS = ("table", "json", "csv", "parquet", "arrow")


def format_options(function: F) -> F:
    """Add `--format` and `--output`."""
    output = click.option(
        "-o", "--output", metavar="FILE", is_eager=True, help="Write to FILE instead of the terminal."
    )
    chosen = click.option(
        "--format",
        "form",
        type=click.Choice(_FORMATS),
        callback=_form,
        help="[default: that of FILE's ending, else table]",
    )
    return chosen(output(function))


def _form(context: click.Context, _: click.Parameter, given: str | None) -> str:
    """Return the format that is given, or the one that the ending of the output names."""
    if given is not None:
        return given
    ending = os.path.splitext(context.params.get("output") or "")[1].lower()
    form = _ENDINGS.get(ending, ending[1:])
    return form if form in _FORMATS else "table"


def to_rows(form: str, output: str | None) -> None:
    """Check that rows can be written in a format: bytes need a file or pipe, Parquet needs a file."""
    if output is None and (form == "parquet" or (form == "arrow" and sys.stdout.isatty())):
        raise click.UsageError(f"--format {form} needs -o FILE")


class VersionText(_Parameter):
    """A version as people write it: the table's format says what names it has."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text without spaces around it."""
        text = str(value).strip()
        if not text:
            self.fail("the version is empty: write its number or its name.", param, ctx)
        return text


def query_options(function: F) -> F:
    """Add the options of every question."""
    for option in (
        click.option("--version", type=VersionText(), help="Answer for this version of the table."),
        click.option("--as-of", metavar="TIME", help="Answer for the last version at this time (ISO 8601)."),
        click.option(
            "--time-zone", default="UTC", show_default=True, help="Session time zone of the predicate."
        ),
        click.option(
            "--partition-time-zone",
            metavar="ZONE",
            help="Time zone of partition values that have none.  [default: that of --time-zone]",
        ),
        click.option(
            "--param",
            "params",
            metavar="NAME=VALUE",
            multiple=True,
            callback=_parameters,
            help="The value of :NAME in the condition, a text that is never read as SQL; may be repeated.",
        ),
        index_option,
        click.option("--where", metavar="CONDITION", help="Only rows where this is true."),
    ):
        function = option(function)
    return function


MEASURES = ("sum", "min", "max", "avg")
"""The aggregates that facets can show of a column by group."""


def measure_options(function: F) -> F:
    """Add `--sum`, `--min`, `--max` and `--avg`."""
    words = {"sum": "the sum", "min": "the least value", "max": "the greatest value", "avg": "the average"}
    for name in reversed(MEASURES):
        text = f"Tell also {words[name]} of these columns."
        function = click.option(f"--{name}", metavar="A,B", multiple=True, help=text)(function)
    return function


def measures_of(options: dict[str, Any]) -> dict[str, Any]:
    """Take the requested measures out of a command's options."""
    given = {
        name: [c for listed in options.pop(name) for c in split_columns(listed) or ()] for name in MEASURES
    }
    return {name: columns for name, columns in given.items() if columns}


def _parameters(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:
    """Parse the values of `--param`; each is a text, compared as Spark compares texts."""
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter("write it as NAME=VALUE")
        if name in values:
            raise click.BadParameter(f"{name} is given twice: each name has one value")
        values[name] = value
    return values or None


_SIGNED = re.compile(r"-[\s(+-]*(?:\d|\.\d).*(?:[=<>]|\b(?:IN|IS|NOT|BETWEEN)\b)", re.IGNORECASE | re.DOTALL)
"""A predicate that begins with a negative number. Two minus signs in a row begin a SQL comment."""


class HintingGroup(click.Group):
    """Commands that say what a word is called here that is none of them."""

    def hint(self, word: str) -> str:
        """Return what to write in place of a word; empty if that is not known."""
        return mistakes.for_command(word)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as wrong:
            hint = self.hint(args[0])
            if not hint:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx) from wrong


class HintingCommand(click.Command):
    """A command that says what to write for arguments and options that it does not take."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            click.UsageError: an argument or option is not the command's, or takes one value and has two.
        """
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as wrong:
            hint = mistakes.for_option(self, wrong.option_name)
            if not hint:
                raise
            raise click.UsageError(f"No such option {wrong.option_name!r}. {hint}", wrong.ctx) from wrong
        except click.UsageError as wrong:
            hint = mistakes.for_more_arguments(self, words) if "extra argument" in wrong.message else ""
            if not hint:
                raise
            raise click.UsageError(f"{wrong.message}. {hint}", wrong.ctx) from wrong
        _, _, given = self.make_parser(ctx).parse_args(words)
        for parameter, times in Counter(given).items():
            if (
                isinstance(parameter, click.Option)
                and times > 1
                and parameter.type is not click.BOOL
                and not parameter.multiple
            ):
                name = max(parameter.opts, key=len)
                raise click.UsageError(mistakes.for_option_again(name, parameter.metavar), ctx)
        return rest


class Question(HintingCommand):
    """A command with a predicate, which may begin with a minus sign, as options do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a blank before a predicate keeps its minus sign from starting an option."""
        return super().parse_args(ctx, [f" {arg}" if _SIGNED.match(arg) else arg for arg in args])


class AnswersOne:
    """The mark in click's context of a process that answers one question and ends."""


def open_for_question(table: str, index: str | None) -> IndexedTable:
    """Open a table for a question."""
    from tailbit.api import open_indexed

    return open_indexed(table, index, storage_options=storage_options())


def ask(table: str, options: dict[str, Any], condition: str | None = None) -> Answer:
    """Return the answer to the question in a command's arguments; its condition may be given by `--where`."""
    if condition is not None and options["where"] is not None:
        raise click.UsageError("give the condition once: as an argument or by --where")
    with _loading():
        from tailbit.tables.storage import one_look

        # Table and index are opened for this question alone, so what opening saw need not be read again.
        with one_look():
            return open_for_question(table, options["index"]).where(
                options["where"] if condition is None else condition,
                options["params"],
                version=options["version"],
                as_of=options["as_of"],
                zone=options["time_zone"],
                partition_zone=options["partition_time_zone"],
            )


@contextmanager
def _loading() -> Iterator[None]:
    """Load modules with garbage collection off: imports leave no garbage.

    Only in a process for one question.
    """
    if click.get_current_context().find_object(AnswersOne) is None:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def emit(value: Any) -> None:
    """Print a value as a line of JSON."""
    from tailbit.outputs.display import json_value

    click.echo(json.dumps(json_value(value), ensure_ascii=False))


def print_values(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> None:
    """Print a table of values of columns, their counts and names."""
    from tailbit.cli.render import print_table
    from tailbit.outputs.display import cell, json_value

    names, *cells = ([cell(json_value(value)) for value in row] for row in (header, *rows))
    print_table(names, cells)


def warn(answer: Answer) -> None:
    """Print damage of the index, past which the answer is right, and what NULL makes of a condition."""
    for damage in answer.damaged:
        click.echo(f"warning: {damage}; the data was read instead", err=True)
    if "null" not in (answer.predicate or "").lower():
        return
    from tailbit.index.predicate.tree import is_never_true

    if is_never_true(answer._selection.node):
        hint = "a comparison with NULL is never true; write IS NULL or IS NOT NULL"
        click.echo(f"note: the condition is true of no row, whatever the table holds: {hint}", err=True)


def or_dash(value: Any) -> Any:
    """Return a value for display: a dash for None."""
    return "-" if value is None else value


def split_columns(text: str | None) -> list[str] | None:
    """Return the names and expressions in a comma-separated list, as `split_names` does."""
    from tailbit.arguments.values import split_names

    return None if text is None else split_names(text)
