"""What to write in place of a usual mistake on the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

_QUESTION = "tailbit count TABLE \"carrier = 'UA'\", or tailbit read for the rows"
_KEEP = "tailbit run TABLE --columns carrier,origin,dest"
_BY_NAME = "tailbit index create TABLE NAME --on TERM; plain columns: tailbit run TABLE --columns carrier"

_OF_OTHER_TOOLS = {
    _QUESTION: ("query", "select", "search", "filter", "find", "where", "ask"),
    "tailbit read TABLE \"carrier = 'UA'\"": ("rows", "show", "head", "scan", "cat", "export"),
    "tailbit facets TABLE COLUMN": ("group", "groupby", "group-by", "distinct", "values"),
    _KEEP: "build init start sync watch follow update refresh serve server stream daemon".split(),
    _BY_NAME: ("create", "create-index", "add", "add-index"),
    "tailbit index list TABLE": ("list", "ls", "indexes", "list-indexes", "show-indexes"),
    "tailbit index drop TABLE NAME": ("drop", "drop-index", "remove"),
    "tailbit status TABLE": ("info", "describe", "stats", "lag"),
    "tailbit verify TABLE": ("check", "validate", "test", "fsck"),
    "tailbit compact TABLE": ("optimize", "merge"),
    "tailbit erase TABLE --where \"carrier = 'UA'\" --dry-run": ("delete", "rm"),
    "tailbit locate TABLE --on COLUMN KEY": ("lookup", "get", "key", "keys"),
    "tailbit count TABLE --version 0": ("history", "log", "time-travel"),
    "tailbit COMMAND --help": ("help",),
}
_OPTIONS = {
    "--where": ("--condition", "--filter", "--predicate", "-w"),
    "--columns": ("--select", "--fields", "--cols", "--column"),
    "--order-by": ("--sort", "--sort-by", "--order"),
    "--limit": ("--top", "--head", "--rows", "--max", "-n"),
    "--top": ("--limit", "--head", "-n"),
    "--as-of": ("--at", "--time", "--timestamp", "--timestamp-as-of"),
    "--format": ("--json", "--csv", "--parquet", "--arrow"),
    "--version": ("--version-as-of", "-v"),
    "--on": ("--columns", "--column", "--key", "--keys"),
}
"""By option the names that other tools have for it."""

_CONDITION = "--where \"carrier = 'UA'\""
_BY_WORD = {word: command for command, words in _OF_OTHER_TOOLS.items() for word in words}


def for_command(word: str) -> str:
    """Return what a word that is no command probably means; empty if that is not known.

    >>> for_command("describe"), for_command("xyz")
    ('Write: tailbit status TABLE', '')
    """
    command = _BY_WORD.get(word.lower().replace("_", "-"), "")
    if not command and os.path.isdir(word):
        return f"The command stands first, and the table behind it: tailbit count {word}"
    return command and f"Write: {command}"


def for_option_before_command(name: str) -> str:
    """Return what to write for an option that stands before the command."""
    return f"Options stand behind the command: tailbit COMMAND TABLE {name} ..."


def for_more_arguments(command: click.Command, arguments: Sequence[str]) -> str:
    """Return what to write for arguments beyond those that a command has."""
    options = _options_of(command)
    # Arguments of click have their own names among `opts`.
    if "condition" in options:
        return "A condition stands in quotes: \"carrier = 'UA'\"."
    if "--columns" in arguments:
        return "Names stand together, joined by commas: --columns carrier,origin,dest"
    if "--where" in options:
        return f"A condition is given by --where: {_CONDITION}"
    return ""


def for_word_of_index(word: str) -> str:
    """Return which command of `tailbit index` a word probably means; empty if that is not known."""
    if os.path.isdir(word):
        return f"The command stands first: tailbit index list {word}"
    commands = {"drop": ("delete", "remove", "rm"), "list": ("show", "ls"), "create": ("add", "build", "new")}
    return next(
        (f"Write: tailbit index {name} TABLE" for name, words in commands.items() if word in words), ""
    )


def for_option(command: click.Command, name: str) -> str:
    """Return which option of a command a name of another tool probably means; empty if that is not known."""
    options = _options_of(command)
    meant = [option for option, names in _OPTIONS.items() if name in names and option in options]
    if not meant:
        return ""
    return f"Write: {meant[0]} {name[2:]}" if meant[0] == "--format" else f"Write: {meant[0]}"


def for_option_again(name: str, metavar: str | None) -> str:
    """Return what to say of an option that is given twice, and takes one value."""
    listed = f": names stand together, as {name} {metavar}" if metavar == "A,B" else ""
    return f"{name} is given twice{listed}"


def _options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}
