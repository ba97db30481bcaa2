"""What is merged with what: the base file of a group, its log blocks in order, and the rule of the table.

A block of rows is a file slice of its own, under the name `<log file>!<number of the block>`. The rows of a
block that holds some columns alone depend on what the block is merged with: the name of its slice goes on
with the names of those files, each after a `~`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import orjson
from pyroaring import BitMap64

from tailbit.imports.dataclass import dataclass
from tailbit.tables.hudi.log_files.blocks import BlockType, LogBlock

_SLICE = re.compile(r"((?:.*/)?)(\.([^_/!~]+)_[^/!~]+)!([0-9]{1,9})((?:~[^/]*)?)", re.S)
_END = b"]]"
_IDENTITY = 32
"""Digits of the identity of hidden rows."""
_PARSED = 32
"""How many plans stay parsed: each slice of a group has the text of its plan."""


class MergeRule(NamedTuple):
    """Who wins where two records have one key.

    `by_time`: the greater ordering value wins, and of equal ones the later record; else always the later.
    `ordering`: the columns that hold the ordering value. `contested`: if the later wins, releases before 1.0
    do not let it replace a record of the log that has a greater ordering value.
    """

    by_time: bool
    ordering: tuple[str, ...]
    contested: bool = False


class BlockName(NamedTuple):
    """What tells a log block from all others of its group: log file, number, instant, bytes of content."""

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
    """Return what tells a block of a log file from all others of its group."""
    is_deletes, size = block.type is BlockType.DELETE, block.content.length
    return BlockName(log, block.number, block.instant, size, is_deletes, block.is_partial)


@dataclass(frozen=True)
class MergePlan:
    """The base file of a group (None: the group has only log files), and its blocks in order.

    `folder`: in which all of them lie. Plans that are equal hide the same rows.
    """

    folder: str
    base: str | None
    rule: MergeRule
    blocks: tuple[BlockName, ...]

    @cached_property
    def _texts(self) -> list[bytes]:
        """The plan as a text in parts: what stands before the blocks, and each block."""
        rule = [*self.rule] if self.rule.contested else [*self.rule[:2]]
        head = orjson.dumps([self.folder, self.base, rule])
        return [head[:-1] + b",[", *(orjson.dumps([*block]) for block in self.blocks)]

    @cached_property
    def text(self) -> str:
        """The plan as a text, which `parse` reads."""
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
        """Return an identity of the hidden rows of a slice: of its path, and of the blocks up to the last.

        It is the hash of the text of `upto(last)`, made of what the blocks before it have in common.
        """
        hashed = self._hashes[last].copy()
        hashed.update(_END + b"\0" + path.encode())
        return hashed.hexdigest()[:_IDENTITY]

    @classmethod
    @lru_cache(_PARSED)
    def parse(cls, text: str) -> MergePlan:
        """Return the plan of a text."""
        folder, base, (by_time, ordering, *contested), blocks = orjson.loads(text)
        rule = MergeRule(by_time, tuple(ordering), *contested)
        return cls(folder, base, rule, tuple(BlockName(*block) for block in blocks))

    def path(self, name: str) -> str:
        """Return the path of a file of the plan below the table's root."""
        return f"{self.folder}/{name}" if self.folder else name

    def upto(self, number: int) -> MergePlan:
        """Return the plan of the blocks up to one of them, which is included."""
        return replace(self, blocks=self.blocks[: number + 1])

    def deciding(self, rows: Sequence[BitMap64 | None]) -> list[int]:
        """Return, for each block, the number of the last block that may hide or show rows of it.

        `rows`: the rows of the base file that the records of each block belong to, None where that is not
        known. Records of other rows of the base file never meet. Cost: a union and a comparison per block,
        and for a block that others meet one comparison with each of those after it.
        """
        known = [each for each in rows if each is not None]
        if len(known) < len(rows) or any(block.is_partial for block in self.blocks):
            return [len(rows) - 1] * len(rows)
        out, later = [], BitMap64()
        for number in reversed(range(len(known))):
            mine, last = known[number], number
            if mine.intersect(later):
                last = next(n for n in reversed(range(len(known))) if mine.intersect(known[n]))
            out.append(last)
            later |= mine
        return out[::-1]

    def slice_path(self, number: int) -> str:
        """Return the path of the slice of a block by its place among the blocks."""
        block = self.blocks[number]
        if not block.is_partial:
            return self.path(block.part)
        names = [self.base or "", *(before.part for before in self.blocks[:number])]
        return self.path("~".join([block.part, *names]))


class SliceName(NamedTuple):
    """What the path of a log block's slice says: folder, log file, number, and what is merged before it."""

    folder: str
    log: str
    number: int
    merged: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path of the log file."""
        return f"{self.folder}/{self.log}" if self.folder else self.log


def slice_name(path: str) -> SliceName | None:
    """Return what a path says if it is that of a log block's slice; None for another path.

    >>> slice_name("p0/.f1-0_20260101000000000.log.1_0-1-1!2").number
    2
    """
    match = _SLICE.fullmatch(path) if "!" in path else None
    if match is None or ".log." not in match[2]:
        return None
    merged = tuple(match[5].split("~")[1:])
    return SliceName(match[1].rstrip("/"), match[2], int(match[4]), merged)
