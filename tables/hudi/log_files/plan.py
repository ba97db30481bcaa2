"""What is merged with what, by which rule; rules that are not proven are refused.

The merge plan of a file group is its base file, its log blocks in order, and the merge rule of the table. A
block of rows is a file slice of its own, with the path `<log file>!<number of the block>`. The rows of a
block that holds only some columns depend on the files and blocks that it is merged with, so the names of
these follow in the path of its slice, each after a `~`. From table version 8 on the properties name a merge
mode; before, the payload class implied the mode. Source: HoodieTableConfig,
inferMergingConfigsForV9TableCreation; HoodieRecordPayload.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import orjson
from pyroaring import BitMap64

from tailbit.base.dataclass import dataclass
from tailbit.tables.hudi.log_files.blocks import BlockType, LogBlock

_SLICE = re.compile(r"((?:.*/)?)(\.([^_/!~]+)_[^/!~]+)!([0-9]{1,9})((?:~[^/]*)?)", re.S)
_END = b"]]"
_IDENTITY = 32
"""Hexadecimal digits of the identity of hidden rows."""
_PARSED = 32
"""Number of parsed plans that are cached: the slices of a group share the text of one plan."""


class MergeRule(NamedTuple):
    """The rule that decides which of two records with one key wins.

    `by_time`: the greater ordering value wins, and of equal ones the later record; else the later record
    always wins. `ordering`: the columns that hold the ordering value. `contested`: whether releases before
    1.0 decide otherwise: they keep an older record of the log that has a greater ordering value.
    """

    by_time: bool
    ordering: tuple[str, ...]
    contested: bool = False


class BlockName(NamedTuple):
    """The identity of a log block in its group: log file, number, instant, size of the content in bytes."""

    log: str
    number: int
    instant: str
    size: int
    is_deletes: bool
    is_partial: bool

    @property
    def part(self) -> str:
        """The name of the block within its group's folder."""
        return f"{self.log}!{self.number}"


def block_name(log: str, block: LogBlock) -> BlockName:
    """Return the identity of a block of a log file in its group."""
    is_deletes, size = block.type is BlockType.DELETE, block.content.length
    return BlockName(log, block.number, block.instant, size, is_deletes, block.is_partial)


@dataclass(frozen=True)
class MergePlan:
    """The base file of a group (None: the group has only log files), and its blocks in order.

    `folder`: the folder of all these files. Equal plans hide the same rows.
    """

    folder: str
    base: str | None
    rule: MergeRule
    blocks: tuple[BlockName, ...]

    @cached_property
    def _texts(self) -> list[bytes]:
        """The parts of the text of the plan: the part before the blocks, and one part per block."""
        rule = [*self.rule] if self.rule.contested else [*self.rule[:2]]
        head = orjson.dumps([self.folder, self.base, rule])
        return [head[:-1] + b",[", *(orjson.dumps([*block]) for block in self.blocks)]

    @cached_property
    def text(self) -> str:
        """The plan as text, which `parse` reads."""
        head, *blocks = self._texts
        return (head + b",".join(blocks) + _END).decode()

    @cached_property
    def _hashes(self) -> list[hashlib._Hash]:
        """The hash of the text up to each block."""
        head, *blocks = self._texts
        out, hashed = [], hashlib.sha256(head)
        for number, block in enumerate(blocks):
            hashed.update(b"," + block if number else block)
            out.append(hashed.copy())
        return out

    def identity(self, path: str, last: int) -> str:
        """Return an identity of a slice's hidden rows: a hash of its path and of the blocks up to `last`.

        It is the hash of the text of `upto(last)` and the path, computed from the cached hash of the blocks.
        """
        hashed = self._hashes[last].copy()
        hashed.update(_END + b"\0" + path.encode())
        return hashed.hexdigest()[:_IDENTITY]

    @classmethod
    @lru_cache(_PARSED)
    def parse(cls, text: str) -> MergePlan:
        """Parse the text of a plan."""
        folder, base, (by_time, ordering, *contested), blocks = orjson.loads(text)
        rule = MergeRule(by_time, tuple(ordering), *contested)
        return cls(folder, base, rule, tuple(BlockName(*block) for block in blocks))

    def path(self, name: str) -> str:
        """Return the path of a file of the plan below the table's root."""
        return f"{self.folder}/{name}" if self.folder else name

    def upto(self, number: int) -> MergePlan:
        """Return the plan with the blocks up to and including one of them."""
        return replace(self, blocks=self.blocks[: number + 1])

    def deciding(self, rows: Sequence[BitMap64 | None]) -> list[int]:
        """Return, for each block, the number of the last block that may hide or show rows of that block.

        `rows`: for each block, the rows of the base file that its records belong to; None if unknown. Records
        of different rows of the base file do not affect each other. Cost: a union and a comparison per block;
        for a block whose rows later blocks share, also a comparison with later blocks.
        """
        positions = [bits for bits in rows if bits is not None]
        if len(positions) < len(rows) or any(block.is_partial for block in self.blocks):
            return [len(rows) - 1] * len(rows)
        out, later = [], BitMap64()
        for number in reversed(range(len(positions))):
            own, last = positions[number], number
            if own.intersect(later):
                last = next(n for n in reversed(range(len(positions))) if own.intersect(positions[n]))
            out.append(last)
            later |= own
        return out[::-1]

    def slice_path(self, number: int) -> str:
        """Return the path of the slice of the block with this index in the plan."""
        block = self.blocks[number]
        if not block.is_partial:
            return self.path(block.part)
        names = [self.base or "", *(before.part for before in self.blocks[:number])]
        return self.path("~".join([block.part, *names]))


class SliceName(NamedTuple):
    """The parts of the path of a log block's slice; `merged`: the names of what the block is merged with."""

    folder: str
    log: str
    number: int
    merged: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path of the log file."""
        return f"{self.folder}/{self.log}" if self.folder else self.log


def slice_name(path: str) -> SliceName | None:
    """Return the parts of the path of a log block's slice; None for any other path.

    >>> slice_name("p0/.f1-0_20260101000000000.log.1_0-1-1!2").number
    2
    """
    match = _SLICE.fullmatch(path) if "!" in path else None
    if match is None or ".log." not in match[2]:
        return None
    merged = tuple(match[5].split("~")[1:])
    return SliceName(match[1].rstrip("/"), match[2], int(match[4]), merged)


MODE, ORDERING, OLD_ORDERING = (
    *("hoodie.record.merge.mode", "hoodie.table.ordering.fields"),
    "hoodie.table.precombine.field",
)
MODES = ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")
_STRATEGY = "hoodie.record.merge.strategy.id"
_OLD_STRATEGY = "hoodie.compaction.record.merger.strategy"
"""The property that releases before 1.0 write with one value for all payload classes; the class decides."""
_STRATEGIES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MODES[0],
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MODES[1],
}
_PAYLOADS = {
    "DefaultHoodieRecordPayload": MODES[0],
    "EventTimeAvroPayload": MODES[0],
    "OverwriteWithLatestAvroPayload": MODES[1],
}
_CLASSES = ("hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class")
_NEVER = ("hoodie.table.partial.update.mode", "hoodie.payload.delete.field", "hoodie.payload.delete.marker")
_NEVER_BEGINS = "hoodie.record.merge.property."


def merge_rule(values: Mapping[str, str]) -> MergeRule:
    """Return the rule of a table whose properties `refused_rules` does not refuse."""
    ordering = values.get(ORDERING) or values.get(OLD_ORDERING) or ""
    columns = tuple(name.strip() for name in ordering.split(",") if name.strip())
    said = _modes(values)
    mode = next(iter(said.values())) if said else MODES[0 if columns else 1]
    by_time = mode == MODES[0]
    return MergeRule(by_time, columns, not by_time and bool(columns) and _is_old(values))


def _is_old(values: Mapping[str, str]) -> bool:
    """Return whether a release before 1.0 made a table: then only the payload class tells its merge mode."""
    return not values.get(MODE) and not values.get(_STRATEGY)


def refused_rules(values: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that demand a merge that is not proven, with their values.

    >>> refused_rules({"hoodie.record.merge.mode": "CUSTOM"})
    {'hoodie.record.merge.mode': 'CUSTOM'}
    """
    wrong = {
        name: value for name, value in values.items() if name in _NEVER or name.startswith(_NEVER_BEGINS)
    }
    if values.get(_OLD_STRATEGY) and values[_OLD_STRATEGY] not in _STRATEGIES:
        wrong[_OLD_STRATEGY] = values[_OLD_STRATEGY]
    said = _modes(values)
    wrong |= {name: values[name] for name, mode in said.items() if mode not in MODES}
    if len({*said.values()}) > 1 and not wrong:
        wrong = {name: values[name] for name in said}
    if values.get("hoodie.populate.meta.fields", "true").lower() == "false":
        wrong["hoodie.populate.meta.fields"] = values["hoodie.populate.meta.fields"]
    return wrong


def _modes(values: Mapping[str, str]) -> dict[str, str]:
    """Return the mode that each property stands for, if it is set; its own value if the mode is unknown."""
    said = {MODE: values[MODE].upper()} if values.get(MODE) else {}
    if values.get(_STRATEGY):
        said[_STRATEGY] = _STRATEGIES.get(values[_STRATEGY], values[_STRATEGY])
    for name in _CLASSES:
        if values.get(name):
            said[name] = _PAYLOADS.get(values[name].rpartition(".")[2], values[name])
    return said
