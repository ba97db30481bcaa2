"""Commands over indexes by name: create, drop, list, describe and rebuild, and `sql`, for statements."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tailbit.base.wording import counted, size_text, visible
from tailbit.cli import mistakes
from tailbit.cli.options import (
    HintingCommand,
    HintingGroup,
    emit,
    index_option,
    json_option,
    open_for_question,
    storage_options,
)

if TYPE_CHECKING:
    from tailbit.checkpoints.builds import Builds
    from tailbit.index.sql.ddl.statements import Statement
    from tailbit.upkeep.description import IndexDescription


@click.command(cls=HintingCommand)
@click.argument("statement")
@click.option("--zone", "--time-zone", metavar="ZONE", default="UTC", help="Session time zone of terms.")
@index_option
@json_option
def sql(statement: str, zone: str, index: str | None, as_json: bool) -> None:
    r"""Carry out an index statement of SQL; `-` reads it from standard input.

    \b
    tailbit sql 'CREATE INDEX by_place ON delta.`flights` USING bitmap (lower(dest))'
    tailbit sql "CREATE INDEX IF NOT EXISTS by_route ON flights (carrier, dest)"
    tailbit sql "SHOW INDEXES FROM flights"
    tailbit sql "DESCRIBE INDEX by_place ON flights" --json
    tailbit sql "ALTER INDEX by_place ON flights REBUILD"
    echo "DROP INDEX IF EXISTS by_place ON flights" | tailbit sql -

    Statements are those of Hudi, Hive and Spark. A table is delta.`path`, a path in quotes, or the name of a
    folder here. With --json, an object a line per index; DROP INDEX prints none.
    """
    from tailbit.arguments.values import known_zone
    from tailbit.index.sql.ddl.parser import parse_statement
    from tailbit.index.sql.ddl.statements import DropIndex, ShowIndexes
    from tailbit.upkeep.statements import run, table_of

    text = _standard_input() if statement == "-" else statement
    parsed = parse_statement(text)
    zone = known_zone("zone", zone)
    table = table_of(parsed, text, storage_options(), index)
    if isinstance(parsed, DropIndex):
        _print_dropped(parsed.name, table.drop_index(parsed.name, parsed.if_exists), as_json=None)
        return
    with _building(parsed, as_json) as builds:
        described = run(table, parsed, zone, builds)
    if isinstance(parsed, ShowIndexes) and not parsed.formatted:
        _print_listed(described, as_json)
    else:
        _print_described(described, as_json)


def _standard_input() -> str:
    """Return what standard input holds."""
    if sys.stdin is None:
        raise click.UsageError("standard input is closed")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as wrong:
        raise click.UsageError(f"standard input is no text in {wrong.encoding.upper()}") from wrong


class _IndexCommands(HintingGroup):
    """The commands of the indexes of a table."""

    def hint(self, word: str) -> str:
        """Return what to write in place of a word; empty if that is not known."""
        return mistakes.for_word_of_index(word)


@click.group(name="index", cls=_IndexCommands)
def index_group() -> None:
    r"""Create, drop, list, describe, rebuild and export the indexes of a table by name.

    \b
    tailbit index create flights by_place --on "lower(dest)"
    tailbit index list flights
    tailbit index create --help
    """


@index_group.command(cls=HintingCommand)
@click.argument("table")
@click.argument("name", required=False)
@click.option("--on", "terms", metavar="TERM", multiple=True, help="A column or expression.")
@click.option(
    "--from",
    "file",
    metavar="FILE",
    help="In place of NAME and --on: the statements of `tailbit index export`; `-` is standard input.",
)
@click.option(
    "--kind", default="bitmap", show_default=True, help="bitmap, record_key, bloom_filter or column_stats."
)
@click.option("--where", metavar="CONDITION", help="Only partitions where this is true.")
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, help="An option of the kind.")
@click.option("--deferred", is_flag=True, help="Build it by the first `tailbit index rebuild`.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if there is an index of that name.")
@click.option("--zone", "--time-zone", metavar="ZONE", default="UTC", help="Session time zone of terms.")
@index_option
@json_option
def create(table: str, name: str | None, terms: Sequence[str], file: str | None, **given: Any) -> None:
    r"""Create the index NAME of TABLE, and build it unless an indexer runs, which then does.

    \b
    tailbit index create flights by_place --on "lower(dest)"
    tailbit index create flights by_route --on carrier --on dest
    tailbit index create flights sizes --on dep_delay --on flight --kind column_stats
    tailbit index create trips recent --on rider --where "year >= 2024" --deferred
    tailbit index create flights --from indexes.sql      # those that it lacks, of `tailbit index export`

    Several --on make one index of their combinations. Interrupted with Ctrl-C, it keeps what is built:
    questions are right all the while, and `tailbit index rebuild TABLE NAME` goes on.
    """
    from tailbit.arguments.values import known_zone
    from tailbit.index.sql.ddl.statements import CreateIndex, TableReference, WrittenExpression
    from tailbit.upkeep.statements import run, table_of

    if file is not None:
        _only_from((name, *terms), given)
        _create_from(table, file, given["index"], as_json=given["as_json"])
        return
    if name is None or not terms:
        raise click.UsageError("name the index and its terms: NAME --on TERM; or --from FILE")
    statement = CreateIndex(
        name=name,
        table=TableReference("path", (table,)),
        terms=tuple(map(WrittenExpression.term, terms)),
        kind=given["kind"],
        options=dict(_pair(option) for option in given["options"]),
        only=None if given["where"] is None else WrittenExpression(given["where"]),
        deferred=given["deferred"],
        if_not_exists=given["if_not_exists"],
    )
    zone = known_zone("zone", given["zone"])
    opened = table_of(statement, str(statement), storage_options(), given["index"])
    with _building(statement, given["as_json"]) as builds:
        _print_described(run(opened, statement, zone, builds), given["as_json"])


def _only_from(named: Sequence[str | None], given: Mapping[str, Any]) -> None:
    """Check that nothing is given beside --from that the statements of the file say themselves."""
    context = click.get_current_context()
    others = [option for option in given if option not in ("index", "as_json")]
    source = click.core.ParameterSource.COMMANDLINE
    if any(named) or any(context.get_parameter_source(option) is source for option in others):
        raise click.UsageError("--from takes names, terms and options from the statements in the file")


def _create_from(table: str, file: str, index: str | None, *, as_json: bool) -> None:
    """Create the indexes of a file of statements that a table lacks; print those that it names."""
    from tailbit.cli.building import builds_shown
    from tailbit.index.maintenance.definitions import named_as
    from tailbit.index.sql.ddl.parser import parse_script
    from tailbit.index.sql.ddl.statements import TableReference
    from tailbit.upkeep.statements import table_for

    here = TableReference("path", (table,))
    text = _standard_input() if file == "-" else _text_of(file)
    script = [named_as(scripted, here) for scripted in parse_script(text)]
    if not script:
        raise click.UsageError(f"{file} holds no statement")
    opened = table_for(table, storage_options(), index)
    try:
        with builds_shown(hidden=as_json) as builds:
            described = opened._created_by(script, builds, partial(click.echo, err=True))
    except KeyboardInterrupt:
        again = shlex.join(["tailbit", "index", "create", table, "--from", file])
        click.echo(f"what is built stays; go on with: {again}", err=True)
        raise
    _print_listed(described, as_json)


def _text_of(file: str) -> str:
    """Return the text of a file on disk, or of an object in a store by its URL."""
    from tailbit.base.errors import TailbitError, UsageError
    from tailbit.tables.storage import SMALL, StorageOptions, open_storage

    folder, slash, name = file.rpartition("/")
    try:
        stored = open_storage(folder or slash or ".", StorageOptions.of(storage_options() or {}))
        return stored.read(name, SMALL).decode("utf-8")
    except (OSError, TailbitError, UnicodeDecodeError) as refused:
        raise UsageError(
            reason=f"{file} cannot be read: {refused}", hint="Give a file of `tailbit index export`."
        ) from refused


def _pair(option: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"write --option as KEY=VALUE, not {option!r}")
    return key, value


@index_group.command(cls=HintingCommand)
@click.argument("table")
@click.argument("name")
@click.option("--where", metavar="CONDITION", help="Partitions that a part or deferred index covers now.")
@index_option
@json_option
def rebuild(table: str, name: str, where: str | None, index: str | None, as_json: bool) -> None:
    r"""Build what the index NAME of TABLE lacks, or a deferred one for the first time.

    \b
    tailbit index rebuild flights by_place
    tailbit index rebuild trips recent --where "year = 2023"     # besides what it covers already
    """
    from tailbit.index.sql.ddl.statements import RebuildIndex, TableReference, WrittenExpression
    from tailbit.upkeep.statements import run

    only = None if where is None else WrittenExpression(where)
    statement = RebuildIndex(name, TableReference("path", (table,)), only)
    opened = open_for_question(table, index)
    with _building(statement, as_json) as builds:
        _print_described(run(opened, statement, builds=builds), as_json)


@index_group.command(cls=HintingCommand)
@click.argument("table")
@click.option("--output", metavar="FILE", help="Write to this file in place of standard output.")
@index_option
def export(table: str, output: str | None, index: str | None) -> None:
    r"""Write the statements that create the indexes of TABLE again, for `tailbit index create --from`.

    \b
    tailbit index export flights --output indexes.sql
    tailbit index create flights --from indexes.sql

    They have columns by their present names, options, partial conditions and time zones. Keep them with
    the rest of what you deploy: deleting the folder of an index deletes its definitions too.
    """
    script = open_for_question(table, index)._script()
    if output is None:
        click.echo(script, nl=False)
        return
    from tailbit.cli.render import finished

    with finished(output) as path, open(path, "w", encoding="utf-8") as file:
        file.write(script)


@index_group.command(cls=HintingCommand)
@click.argument("table")
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is none of that name.")
@index_option
@json_option
def drop(table: str, name: str, if_exists: bool, index: str | None, as_json: bool) -> None:
    r"""Drop the index NAME of TABLE; its bytes go with the next merges and `tailbit vacuum`.

    \b
    tailbit index drop flights by_place --if-exists
    """
    _print_dropped(name, open_for_question(table, index).drop_index(name, if_exists), as_json)


@index_group.command(name="list")
@click.argument("table")
@index_option
@json_option
def list_(table: str, index: str | None, as_json: bool) -> None:
    r"""List the indexes of TABLE, and how far each is built; with --json, an object a line.

    \b
    tailbit index list flights
    """
    _print_listed(open_for_question(table, index).indexes(), as_json)


@index_group.command(cls=HintingCommand)
@click.argument("table")
@click.argument("name")
@index_option
@json_option
def describe(table: str, name: str, index: str | None, as_json: bool) -> None:
    r"""Describe the index NAME of TABLE: its terms, kind, options, time zone, size, and how far it is built.

    \b
    tailbit index describe flights by_place
    tailbit index describe flights by_place --json
    """
    _print_described([open_for_question(table, index).describe_index(name)], as_json)


def _print_dropped(name: str, was_there: bool, as_json: bool | None) -> None:
    """Print whether an index was dropped; `as_json`: None for the form of `sql`, which prints no object."""
    if as_json:
        emit({"dropped": was_there})
    else:
        message = f"dropped: {name}" if was_there else f"there is no index {name}"
        click.echo(visible(message), err=as_json is None)


def _print_listed(described: Sequence[IndexDescription], as_json: bool) -> None:
    from tailbit.cli.render import print_table

    if as_json:
        _print_described(described, as_json)
        return
    rows = [
        [index.name, index.kind, ", ".join(index.terms), index.only, _state(index), index.files_left]
        for index in described
    ]
    print_table(["name", "kind", "terms", "where", "state", "files left"], rows)


def _state(description: IndexDescription) -> str:
    """Return how far an index is built, and what changed so that it serves no questions any more."""
    unserved = f", not used: {description.changed}" if description.changed else ""
    return f"{description.state}{unserved}"


def _print_described(described: Sequence[IndexDescription], as_json: bool) -> None:
    """Print each description: an object a line, or a line per fact and a blank line between."""
    from tailbit.upkeep.statements import as_dict

    for number, description in enumerate(described):
        if as_json:
            emit(as_dict(description))
            continue
        if number:
            click.echo()
        for name, fact in _facts(description):
            click.echo(visible(f"{name:<{_WIDTH}}{fact}"))


_WIDTH = 14
_STATES = {
    "complete": "every file is indexed",
    "deferred": "built by its first rebuild; until then its conditions read the data",
    "building": "",
}


def _facts(description: IndexDescription) -> Iterator[tuple[str, str]]:
    yield "name", description.name
    yield "kind", description.kind
    for term in description.terms:
        yield "term", term
    if description.only:
        yield "where", description.only
    if description.zone:
        yield "time zone", f"{description.zone}: other questions read the data"
    for key, value in description.options.items():
        yield "option", f"{key} = {value}"
    if description.counts_reason:
        yield "not counted", description.counts_reason
    said = _STATES[description.state] or f"{counted(description.files_left, 'file')} left, read until then"
    yield "state", f"{description.state}: {said}"
    if description.changed:
        yield "changed", description.changed
    if description.bytes is not None:
        yield "size", size_text(description.bytes)
    if description.indexer is not None:
        yield "indexer", f"{description.indexer} builds it"


@contextmanager
def _building(statement: Statement, as_json: bool) -> Iterator[Builds | None]:
    """Yield the builds of a statement that builds, and show them; say how to go on after Ctrl-C."""
    from tailbit.cli.building import builds_shown
    from tailbit.index.sql.ddl.statements import CreateIndex, RebuildIndex

    if not isinstance(statement, (CreateIndex, RebuildIndex)):
        yield None
        return
    again = f"ALTER INDEX {statement.name} ON {statement.table} REBUILD"
    try:
        with builds_shown(hidden=as_json) as builds:
            yield builds
    except KeyboardInterrupt:
        click.echo(f"what is built stays; go on with: tailbit sql {shlex.quote(again)}", err=True)
        raise
