"""The configuration as values: what is set for the application, for every table, and for each table.

Lengths of time are in seconds, sizes in bytes. Every value is checked by itself here; what several tables
must not share is checked by `read`, and what a table must have by `check`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from tailbit.arguments.values import known_zone
from tailbit.base.errors import StatementError, UsageError
from tailbit.index.maintenance.vacuum import KEPT_S
from tailbit.index.sql.ddl.parser import parse_script
from tailbit.index.sql.ddl.statements import CreateIndex
from tailbit.streaming.settings import StreamSettings, milliseconds
from tailbit.tables.cache import size_of

T = TypeVar("T")

_BATCH = StreamSettings()
_ID = re.compile(r"[A-Za-z0-9_][\w.-]*")
_HOST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.%\w]+\]")


def _seconds(value: Any) -> float:
    """Return a length of time in seconds: a number of seconds, or a text such as `500ms` or `2h`."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    if not isinstance(value, str):
        raise ValueError('a length of time such as "500ms", "2s" or "1h" is expected')
    try:
        return milliseconds(value) / 1000
    except UsageError as wrong:
        raise ValueError(f"{wrong}; write 500ms, 2s or 1h") from None


def _stall_seconds(value: Any) -> float:
    """Return the limit after which a run counts as hung, in seconds; 0 for `off`."""
    return 0.0 if value == "off" else _seconds(value)


def _bytes(value: Any) -> int:
    """Return a size in bytes: a whole number, or a text such as `256MB` or `2 GiB`."""
    size = None if isinstance(value, bool) else size_of(str(value).replace(" ", ""))
    if size is None:
        raise ValueError('a size such as "256MB" or "2 GiB" is expected')
    return size


def _address(value: str) -> str:
    """Return an address to listen at, `host:port`, or `off`."""
    host, _, port = value.rpartition(":")
    if value != "off" and not (_HOST.fullmatch(host) and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError('an address such as "127.0.0.1:9464" is expected, or "off"')
    return value


def _some(values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        raise ValueError("the list is empty")
    return values


Seconds = Annotated[float, BeforeValidator(_seconds)]
StallSeconds = Annotated[float, BeforeValidator(_stall_seconds)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=1)]
Text = Annotated[str, Field(min_length=1, pattern=r"\A[^\x00]*\z")]
Some = Annotated[tuple[T, ...], AfterValidator(_some)]
AtLeastOne = Annotated[int, Field(ge=1)]


def _zone(value: str) -> str:
    try:
        return known_zone("zone", value)
    except UsageError as unknown:
        raise ValueError(f"{unknown}. {unknown.hint}") from None


def _from_statement(text: str) -> dict[str, Any]:
    """Return the keys of the index that a statement creates."""
    try:
        script = parse_script(text)
    except StatementError as wrong:
        raise ValueError(" ".join(f"{wrong}. {wrong.hint}".split())) from None
    statement = script[0].statement if len(script) == 1 else None
    if not isinstance(statement, CreateIndex):
        raise ValueError("one CREATE INDEX statement is expected, or a table of name and on")
    return {
        "name": statement.name,
        "on": [term.text for term in statement.terms],
        "using": statement.kind,
        "where": None if statement.only is None else statement.only.text,
        "options": dict(statement.options),
        "deferred": statement.deferred,
        "zone": script[0].zone,
        "comment": statement.comment,
        "properties": dict(statement.properties),
        "table": statement.table.text,
    }


class _Section(BaseModel):
    """A section of the file: a key that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Defaults(_Section):
    """The settings of every table that does not set its own values.

    `trigger`: least time between two looks at a table with commits. `idle_poll`: most time between two looks
    at a quiet table; looks become rarer, to a tenth of the time since the last commit. `max_versions`: most
    commits of one batch of a table. `max_files`: most data files of a batch. `max_bytes`: most bytes of a
    batch. `retention`: how long files that left the index are kept. `max_lag`: the lag contract, for how long
    a commit may wait. `stuck_after`: a table whose work gives no sign of life for this long is reported as
    stuck. `storage_options`: options of the stores of table and index, named as in delta-rs; those of a table
    are merged over the defaults.
    """

    trigger: Seconds = 0.2
    idle_poll: Annotated[Seconds, Field(ge=0.1)] = 10.0
    max_versions: AtLeastOne = _BATCH.versions
    max_files: AtLeastOne = _BATCH.files
    max_bytes: Bytes = _BATCH.bytes
    retention: Seconds = KEPT_S
    max_lag: Seconds = 300.0
    stuck_after: Annotated[Seconds, Field(gt=0)] = 60.0
    storage_options: dict[str, Text] = {}


class IndexEntry(_Section):
    """An index by name that a table shall have, as `tailbit index create` makes it.

    An entry may be a CREATE INDEX statement in place of these keys, behind SET TIME ZONE if need be.

    `name`: of the index. `on`: a term in SQL, or a list of up to four. `using`: the kind. `where`: a
    condition on partition columns. `options`: those of the kind. `deferred`: whether the index awaits its
    first rebuild. `zone`: the time zone of its terms. `comment`: a note. `properties`: more notes, by
    name. `table`: the table as a statement names it, which must be the table of the entry.
    """

    name: Text
    on: Some[Text]
    using: Text = "bitmap"
    where: Text | None = None
    options: dict[str, str] = {}
    deferred: bool = False
    zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    comment: str = ""
    properties: dict[str, str] = {}
    table: str = ""

    @model_validator(mode="before")
    @classmethod
    def _by_statement(cls, given: Any) -> Any:
        return _from_statement(given) if isinstance(given, str) else given

    @field_validator("on", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class TableEntry(Defaults):
    """One table, which is given by its path or by its name in Spark's catalog.

    `path`: its folder or URI, from the folder of the file on. `name`: its name in Spark's catalog. `id`: its
    name in lines, metrics, Spark's UI and variables; by default the last part of path or name. `columns`: as
    `--columns`; needed where there is no index yet. `indexes`: indexes by name, of which those that are
    missing are made. `index`: the path or URI of the index; by default `_tailbit` below the table. `paused`:
    whether no work is done for the table.
    """

    path: Text | None = None
    name: Text | None = None
    id: str = ""
    columns: Some[Text] | None = None
    indexes: tuple[IndexEntry, ...] = ()
    index: Text | None = None
    paused: bool = False

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """Check that a table is given in one way, and give it an id."""
        if not isinstance(given, dict):
            return given
        path, name = given.get("path"), given.get("name")
        if (path is None) == (name is None):
            raise ValueError("a table is given by its path or by its name in the catalog, one of them")
        id_ = id_of(given)
        return given if id_ is None else {**given, "id": id_}

    @field_validator("id")
    @classmethod
    def _is_a_word(cls, value: str) -> str:
        if not _ID.fullmatch(value):
            raise ValueError(f"{value!r} is no id: letters, digits, _ . and - are")
        return value

    @property
    def place(self) -> str:
        """Return the path of the table, or its name in the catalog, for people."""
        return self.path or self.name or ""


def id_of(entry: Mapping[str, Any]) -> Any:
    """Return the id of a table as its entry gives it, else the last part of its path or of its name.

    It is None if the entry has neither, or none that is a text.
    """
    if "id" in entry:
        return entry["id"]
    path, name = entry.get("path"), entry.get("name")
    whole = path if name is None else name
    if not isinstance(whole, str):
        return None
    last = re.split(r"/" if name is None else r"\.", whole.rstrip("/"))[-1]
    return re.sub(r"[^\w.-]", "_", last.strip("`"))


class Application(_Section):
    """The settings of the application as a whole, beside those of its tables.

    `name`: of the query and of the Spark application. `master`: Spark's master. `checkpoint`: folder of
    Spark's checkpoint; by default below `$STATE_DIRECTORY`, else in `~/.cache/tailbit`. `lease`: folder
    or URI of the files that say that an application is at work, the states of its tables, and the
    statements of their indexes; by default in the checkpoint. For tables of an object store, name a
    folder there. `threads`: tables whose parts of a batch are indexed at once. Looks at tables
    (`threads`, at least 4) and large parts (half of `threads`) have threads of their own. `stall_limit`:
    as `--stall-limit`. `metrics`: host and port of the pages for people, Prometheus and probes, or `off`.
    `ui`: whether Spark shows its UI. `spark`: settings of Spark, such as of its catalog.
    """

    name: Text = "tailbit"
    master: Text = "local[2]"
    checkpoint: Text | None = None
    lease: Text | None = None
    threads: Annotated[int, Field(ge=1, le=64)] = 4
    stall_limit: StallSeconds = 60.0
    metrics: Annotated[str, AfterValidator(_address)] = "127.0.0.1:9464"
    ui: bool = True
    spark: dict[str, str] = {}


class Config(_Section):
    """A whole configuration; the values of `defaults` are merged into those of the tables."""

    application: Application = Application()
    defaults: Defaults = Defaults()
    table: Some[TableEntry]
