"""The properties of a Hudi table: `.hoodie/hoodie.properties`, in the format of Java's `Properties`.

Source: java.util.Properties, load; Hudi technical specification, Table properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    MalformedLogError,
    NotATableError,
    TableInTransitionError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from tailbit.tables.hudi.words import LOG, WORDS
from tailbit.tables.storage import Storage

FILE = f"{LOG}/hoodie.properties"
BACKUP = f"{FILE}.backup"
"""The copy that Hudi keeps while it rewrites the properties."""
SMALL = 1 << 20
VERSIONS = (6, 8, 9)
"""The table versions that are read."""
_NO_PROPERTIES = "Give the folder of a whole table, or restore the file from a backup."
_UPGRADE = "Upgrade the table with Hudi 1.x (hoodie.write.table.version, or hudi-cli)."
_TOO_NEW = "Use a tailbit release that lists it, or downgrade the table with Hudi (hudi-cli)."
NEWEST = "(newest)"
"""The version in errors that concern the table as a whole."""

_ENTRY = re.compile(r"((?:[^\\:=\s]|\\.)*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.S)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties of a table by name, and those that tell how to read its timeline.

    `version`: the version of the table's format. `active`: the folder of the active timeline; `history`: the
    folder of archived instants. Both are relative to the table's root.
    """

    values: Mapping[str, str]
    version: int
    active: str
    history: str

    @property
    def has_completion_times(self) -> bool:
        """Whether the names of completed instants hold the completion time, as from table version 8 on."""
        return self.version >= 8

    @property
    def has_meta_columns(self) -> bool:
        """Whether the table fills Hudi's own columns; only then are they shown."""
        return self.values.get("hoodie.populate.meta.fields", "true").lower() != "false"

    @property
    def is_merged(self) -> bool:
        """Whether the rows of the table result from merging base files and log files."""
        return is_merged(self.values)


def is_merged(values: Mapping[str, str]) -> bool:
    """Return whether the properties are those of a MERGE_ON_READ table."""
    return values.get("hoodie.table.type", "").upper() == "MERGE_ON_READ"


def read_properties(storage: Storage) -> TableProperties:
    """Read the properties of the table below a root.

    Raises:
        NotATableError: there is no file of properties.
        TableInTransitionError: Hudi is writing the properties at this moment, or died while it did.
        MalformedLogError: the properties are damaged.
        UnsupportedFeatureError: the table has another version than those that are read.
        UnsafePathError: a folder of the timeline is outside of the table.
    """
    try:
        values = parse_properties(storage.read(FILE, SMALL))
    except FileNotFoundError:
        if storage.exists(BACKUP):
            raise TableInTransitionError(path=storage.root, file=FILE) from None
        raise NotATableError(
            path=storage.root, reason=f"it has no {FILE}", kind=WORDS.kind, log=LOG, hint=_NO_PROPERTIES
        ) from None
    if "hoodie.table.version" not in values and storage.exists(BACKUP):
        raise TableInTransitionError(path=storage.root, file=FILE)
    version = _version_of(values, storage.root)
    if version >= 8:
        active = _folder(values, "hoodie.timeline.path", "timeline", LOG, storage.root)
        history = _folder(values, "hoodie.timeline.history.path", "history", active, storage.root)
    else:
        active = LOG
        history = _folder(values, "hoodie.archivelog.folder", "archived", LOG, storage.root)
    return TableProperties(values, version, active, history)


def _version_of(values: Mapping[str, str], root: str) -> int:
    """Return the table version."""
    text = values.get("hoodie.table.version")
    if text is None:
        raise MalformedLogError(file=FILE, reason="it has no hoodie.table.version")
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise MalformedLogError(file=FILE, reason=f"hoodie.table.version is {text!r}, not a number")
    version = int(text)
    if version not in VERSIONS:
        raise UnsupportedFeatureError(
            path=root,
            version=NEWEST,
            feature=f"hudi table version {version}",
            hint=_TOO_NEW if version > VERSIONS[-1] else _UPGRADE,
        )
    layout, expected = values.get("hoodie.timeline.layout.version"), "2" if version >= 8 else "1"
    if layout not in (None, expected):
        reason = f"table version {version} has timeline layout {layout}, and should have {expected}"
        raise MalformedLogError(file=FILE, reason=reason)
    return version


def _folder(values: Mapping[str, str], name: str, usual: str, parent: str, root: str) -> str:
    """Return the path of the folder below `parent` that a property names; `usual` if it is not set."""
    text = values.get(name) or usual
    steps = text.split("/")
    if "\0" in text or any(step in ("", ".", "..") for step in steps):
        raise UnsafePathError(file=text, path=root, reason=f"{name} must be the name of a folder in {parent}")
    return f"{parent}/{text}"


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Return the properties in a file that Java wrote; the last value of a name that occurs twice.

    >>> parse_properties(b"#saved\na\\:b=c\\=d\n")
    {'a:b': 'c=d'}
    """
    values = {}
    for line in _logical_lines(data.decode("latin-1")):
        match = _ENTRY.fullmatch(line)
        if match is not None:
            values[_unescaped(match[1])] = _unescaped(match[2])
    return values


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines that hold a property; a line that ends in an odd number of backslashes continues."""
    begun: str | None = None
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if begun is None and (not line or line[0] in "#!"):
            continue
        whole = (begun or "") + line
        goes_on = (len(whole) - len(whole.rstrip("\\"))) % 2 == 1
        begun = whole[:-1] if goes_on else None
        if not goes_on:
            yield whole
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _CONTROL.get(code, code)
