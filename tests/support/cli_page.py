"""`docs/cli.md`, made from the help of the commands: `python -m support.cli_page FILE`."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from support.docstrings import escaped
from tailbit.cli.main import COMMANDS, SUBCOMMANDS, cli

_HEAD = """# The command line

Made by `make cli-page` from the help of the commands (`tailbit COMMAND --help`); a test compares them.
How to ask by example: [guide.md](guide.md). How to run an index, and what exit statuses mean:
[operations.md](operations.md).
"""

_SHARED = 5
"""An option that at least this many commands have, with the same words, is told once."""


def page() -> str:
    records = {name: list(_records(command)) for name, command in commands().items()}
    count = Counter(record for all_ in records.values() for record in all_)
    shared = [record for record, times in count.items() if times >= _SHARED]
    parts = [_HEAD.strip("\n"), _text(cli), _index(), _options("## Options of most commands", shared)]
    for name, command in commands().items():
        own = [record for record in records[name] if record not in shared]
        more = [f"`{_flag(record)}`" for record in records[name] if record in shared]
        parts.append(f"## `tailbit {name}`\n\n```\n{_usage(name, command)}\n```\n\n{_text(command)}")
        if own:
            parts.append(_options("", own))
        if more:
            parts.append(f"{'Also' if own else 'Options:'} {', '.join(more)}.")
    return "\n\n".join(parts) + "\n"


def commands() -> dict[str, click.Command]:
    """Return the commands by name, in the order in which a person meets them."""
    listed: dict[str, click.Command] = {}
    for command in COMMANDS:
        name = str(command.name)
        parts = {words: part for words, part in SUBCOMMANDS.items() if words.partition(" ")[0] == name}
        listed |= parts or {name: command}
    return listed


def _context(command: click.Command) -> click.Context:
    return click.Context(command, info_name=command.name, **cli.context_settings)


def _usage(name: str, command: click.Command) -> str:
    return " ".join(["tailbit", name, *command.collect_usage_pieces(_context(command))])


def _records(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield each option of a command with its help; not `--help` itself."""
    context = _context(command)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None and "--help" not in parameter.opts:
            yield record


def _flag(record: tuple[str, str]) -> str:
    return record[0].split()[0].rstrip(",")


def _index() -> str:
    lines = ["| command | what it does |", "|---|---|"]
    for name, command in commands().items():
        said = _paragraphs(command)[0]
        lines.append(f"| [`{name}`](#tailbit-{name.replace(' ', '-')}) | {escaped(' '.join(said.split()))} |")
    return "\n".join(lines)


def _options(title: str, records: list[tuple[str, str]]) -> str:
    rows = [f"| `{_cell(option)}` | {escaped(_cell(text))} |" for option, text in records]
    return "\n".join([*([title, ""] if title else []), "| option | meaning |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _text(command: click.Command) -> str:
    """Return the help of a command: prose, and what stands in it line by line as code."""
    parts = []
    for paragraph in _paragraphs(command):
        if paragraph.startswith("\b\n"):
            parts.append(f"```\n{paragraph.removeprefix(chr(8)).strip(chr(10))}\n```")
        else:
            parts.append(escaped(paragraph))
    return "\n\n".join(parts)


def _paragraphs(command: click.Command) -> list[str]:
    return re.split(r"\n{2,}", inspect.cleandoc(command.help or ""))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
