"""What a file group of a MERGE_ON_READ table shows: told key by key, from the events of each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from support.hudi_builder import META, BaseFile
from support.hudi_timeline import Instant

Files = dict[str, tuple[int, set[int]]]
"""By path: the number of the content, and the hidden rows."""


@dataclass(frozen=True)
class Base:
    """A base file: group, path, requested time of its instant, number of its content."""

    group: str
    path: str
    requested: str
    content: int
    file: BaseFile


@dataclass(frozen=True)
class Block:
    """A block of a log file: `rows` with a content, or `deletes` of keys with ordering values."""

    kind: str
    content: int | None
    deletions: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Log:
    """A log file of one instant. `named`: the instant in its name. `completed`: when its own completed."""

    group: str
    path: str
    requested: str
    named: str
    number: int
    blocks: tuple[Block, ...]
    completed: str = ""


class Applied(Protocol):
    """What a completed instant did."""

    @property
    def instant(self) -> Instant:
        """The instant."""

    @property
    def bases(self) -> Sequence[Base]:
        """The base files that it wrote."""

    @property
    def logs(self) -> Sequence[Log]:
        """The log files that it wrote."""

    @property
    def replaced(self) -> frozenset[str]:
        """The file groups that it replaced."""


@dataclass
class Group:
    """The base file and the log files that a group shows."""

    base: Base | None = None
    logs: list[Log] = field(default_factory=list)

    @classmethod
    def fold(cls, effects: Iterable[Applied], own_instants: bool) -> dict[str, Group]:
        """Fold what instants did, in the order of completion."""
        groups: dict[str, Group] = {}
        for effect in effects:
            for base in effect.bases:
                group = groups.setdefault(base.group, cls())
                if group.base is None or group.base.requested < base.requested:
                    group.base = base
            for log in effect.logs:
                known = replace(log, completed=effect.instant.completed)
                groups.setdefault(log.group, cls()).logs.append(known)
            for replaced in effect.replaced:
                groups.pop(replaced, None)
        for group in groups.values():
            group._keep_later(own_instants)
        return groups

    def _keep_later(self, own_instants: bool) -> None:
        """Forget the log files that a compaction has merged, and put the others into the order of reading."""
        if self.base is not None:
            since = self.base.requested
            self.logs = [log for log in self.logs if (log.completed if own_instants else log.named) >= since]
        self.logs.sort(key=lambda log: (log.named, log.number))


@dataclass(frozen=True)
class Event:
    """What a log says of a key: a row of a block, or a deletion. `ordering`: None of one without a value."""

    ordering: int | None
    path: str = ""
    row: int = -1

    @property
    def deletes(self) -> bool:
        """Whether the event is a deletion."""
        return not self.path


def visible(group: Group, contents: Mapping[int, pa.Table], by_time: bool) -> Files:
    """Return the files of a group with their hidden rows; a deletion hides, and so does a row that wins."""
    files: Files = {}
    events: dict[str, list[Event]] = {}
    for log in group.logs:
        for number, block in enumerate(log.blocks):
            if block.content is None:
                for key, ordering in block.deletions:
                    events.setdefault(key, []).append(Event(ordering))
                continue
            path, rows = f"{log.path}!{number}", contents[block.content]
            files[path] = (block.content, set(range(len(rows))))
            pairs = zip(rows[META[2]].to_pylist(), rows["ts"].to_pylist(), strict=True)
            for row, (key, ts) in enumerate(pairs):
                events.setdefault(key, []).append(Event(ts, path, row))
    if group.base is not None:
        files[group.base.path] = (group.base.content, set())
        _against_base(group.base, contents[group.base.content], events, files, by_time)
    for known in events.values():
        last = left(known, by_time)
        if not last.deletes:
            files[last.path][1].discard(last.row)
    return files


def _against_base(
    base: Base, rows: pa.Table, events: dict[str, list[Event]], files: Files, by_time: bool
) -> None:
    """Hide the rows of a base file that lose, and forget the events of those that win."""
    met = set()
    for row, (key, ts) in enumerate(zip(rows[META[2]].to_pylist(), rows["ts"].to_pylist(), strict=True)):
        if key in met or key not in events:
            continue
        met.add(key)
        last = left(events[key], by_time)
        if by_time and last.ordering is not None and ts > last.ordering:
            del events[key]
        else:
            files[base.path][1].add(row)


def left(events: Sequence[Event], by_time: bool) -> Event:
    """Return the event that is left of those of one key.

    A deletion without an ordering value stays until a row comes: no other deletion takes its place.
    """
    last = events[0]
    for event in events[1:]:
        if by_time and event.deletes and last.ordering is None:
            continue
        if not by_time or event.ordering is None or last.ordering is None:
            last = event
        elif event.ordering >= last.ordering:
            last = event
    return last
