"""What to write in place of a usual mistake on the command line."""

from __future__ import annotations

from collections.abc import Sequence

import click

_QUESTION = "tailbit count TABLE \"carrier = 'UA'\", or tailbit read for the rows"
_KEEP = "tailbit run TABLE --columns carrier,origin,dest"
_BY_NAME = "tailbit index create TABLE NAME --on TERM; plain columns: tailbit run TABLE --columns carrier"

_OF_OTHER_TOOLS = {
    _QUESTION: ("query", "select", "search", "filter", "find", "where", "ask"),
    "tailbit read TABLE \"carrier = 'UA'\"": ("rows", "show", "head", "scan", "cat", "export"),
    "tailbit facets TABLE COLUMN": ("group", "groupby", "group-by", "distinct", "values"),
    _KEEP: ("build", "init", "start", "sync", "watch", "follow", "update", "refresh"),
    _BY_NAME: ("create", "create-index", "add", "add-index"),
    "tailbit index list TABLE": ("list", "ls", "indexes", "list-indexes", "show-indexes"),
    "tailbit index drop TABLE NAME": ("drop", "drop-index", "remove"),
    "tailbit status TABLE": ("info", "describe", "stats", "lag"),
    "tailbit verify TABLE": ("check", "validate", "test", "fsck"),
    "tailbit compact TABLE": ("optimize", "merge"),
    "tailbit erase TABLE \"carrier = 'UA'\"": ("delete", "rm"),
    "tailbit COMMAND --help": ("help",),
}
_BY_WORD = {word: command for command, words in _OF_OTHER_TOOLS.items() for word in words}


def for_command(word: str) -> str:
    """Return what a word that is no command probably means; empty if that is not known.

    >>> for_command("describe"), for_command("xyz")
    ('Write: tailbit status TABLE', '')
    """
    command = _BY_WORD.get(word.lower().replace("_", "-"), "")
    return command and f"Write: {command}"


def for_option_before_command(name: str) -> str:
    """Return what to write for an option that stands before the command."""
    return f"Options stand behind the command: tailbit COMMAND TABLE {name} ..."


def for_more_arguments(command: click.Command, arguments: Sequence[str]) -> str:
    """Return what to write for arguments beyond those that a command has."""
    options = {option for parameter in command.params for option in parameter.opts}
    # Arguments of click have their own names among `opts`.
    if "condition" in options:
        return "A condition stands in quotes: \"carrier = 'UA'\"."
    if "--columns" in arguments:
        return "Names stand together, joined by commas: --columns carrier,origin,dest"
    if "--where" in options:
        return "A condition is given by --where: --where \"carrier = 'UA'\""
    return ""
