"""The file slices of a group at a version, and their hidden rows as descriptors that travel to workers.

A log compaction block holds the outcome of earlier blocks. It is merged after these, which changes no row:
Spark does the same unless it is told to skip the earlier blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace

from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, LogBlockError
from tailbit.tables.cache import Cache, share
from tailbit.tables.hudi.groups import LogFile, requested_of
from tailbit.tables.hudi.log_files.blocks import BlockType, Header, LogBlock, list_blocks
from tailbit.tables.hudi.log_files.merge import Merged, Merging
from tailbit.tables.hudi.log_files.plan import MergePlan, MergeRule, block_name
from tailbit.tables.hudi.log_files.records import refused_block
from tailbit.tables.model import FileSlice
from tailbit.tables.positions import most_bytes
from tailbit.tables.storage import Storage

FIELDS = ("id", "path", "plan")
_MERGED: Cache[tuple[Storage, str], Merged] = Cache(share(1 / 128))
"""The outcomes of plans, by storage and text of the plan."""
_KEPT_BYTES = share(1 / 128)
_KEPT: Cache[tuple[Storage, MergePlan], Merging] = Cache(_KEPT_BYTES)
"""The merge states of groups, by the plan up to the first block; a later plan extends a state."""
_A_PLACE = 256


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The rows of one file or block that lose against others of the file group, or are deleted by them.

    `path`: the path of the slice; `plan`: the text of the plan that merges the group. `id`: a hash of the
    path and of the part of the plan that decides about the slice, so that other blocks do not change the id.
    """

    id: str
    path: str
    plan: str = field(compare=False)

    @classmethod
    def of(cls, path: str, plan: MergePlan, last: int) -> MergedRows:
        """Return the descriptor of the hidden rows of one slice of a group.

        `last`: the number of the last block that may hide or show rows of the slice (`MergePlan.deciding`).
        """
        return cls(plan.identity(path, last), path, plan.text)

    @property
    def cardinality(self) -> None:
        """None: the number of hidden rows is known only after merging."""

    @property
    def stored(self) -> dict[str, str]:
        """The descriptor by field name."""
        return {"id": self.id, "path": self.path, "plan": self.plan}

    def concerns(self, file: str, offset: object) -> bool:
        """Return whether an error that names a file is about these rows: whether the plan has the file."""
        plan = MergePlan.parse(self.plan)
        return file in {
            self.path,
            plan.path(plan.base or ""),
            *(plan.path(block.log) for block in plan.blocks),
        }

    def read(self, storage: Storage) -> BitMap:
        """Return the hidden rows. Cost: for the first slice of a group, reads the keys of its blocks.

        Keys for which a block has no positions are looked up in the base file.
        """
        plan = MergePlan.parse(self.plan)
        try:
            return merged_rows(storage, plan).hidden[self.path].copy()
        except FileNotFoundError as gone:
            lost = (b.part for b in plan.blocks if storage.locate(plan.path(b.log))[1] is None)
            file = plan.path(next(lost, self.path))
            raise DataFileError(file=file, reason="the file is missing") from gone


def merged_rows(storage: Storage, plan: MergePlan) -> Merged:
    """Return the outcome of a plan; cached in the process."""

    def load() -> tuple[Merged, int]:
        merged = _merge_on(storage, plan)
        size = sum(map(most_bytes, merged.hidden.values()))
        return merged, size + _A_PLACE * len(merged.before)

    return _MERGED.get((storage, plan.text), load)


def _merge_on(storage: Storage, plan: MergePlan) -> Merged:
    """Return the outcome of a plan, continued from the group's cached merge state if it leads to the plan."""
    key = storage, plan.upto(0)
    known = _KEPT.take(key)
    merging = known if known is not None and known.leads_to(plan) else Merging.of(storage, plan)
    merged = merging.upto(plan)
    newer = merging if known is None or len(known.plan.blocks) <= len(plan.blocks) else known
    if newer.size <= _KEPT_BYTES:
        _KEPT.hold(key, newer, newer.size)
    return merged


@dataclass(frozen=True)
class GroupReader:
    """A reader of the log files of groups at one version.

    `is_complete`: whether the instant with a requested time had completed; `completion`: its completion time.
    `is_written`: whether the completed instant with a requested time wrote into a log file; with an empty
    requested time, whether any did. `own_instants`: whether the name of a log file holds the instant of its
    blocks, as from table version 8 on.
    """

    storage: Storage
    rule: MergeRule
    is_complete: Callable[[str], bool]
    completion: Callable[[str], str]
    is_written: Callable[[LogFile, str], bool]
    own_instants: bool

    def slices(self, base: FileSlice | None, logs: Iterable[LogFile]) -> list[FileSlice]:
        """Return the slices of a group: one for the base file, and one for each block of rows.

        Cost: reads the headers of the blocks, unless the process has them cached.
        """
        ordered = sorted(logs, key=lambda log: log.order)
        blocks = self._in_force(ordered)
        if not blocks:
            return [] if base is None else [base]
        name = None if base is None else base.path.rpartition("/")[2]
        names = tuple(block_name(log, block) for log, block in blocks)
        plan = MergePlan(ordered[0].group.folder, name, self.rule, names)
        out = []
        if base is not None:
            out.append(replace(base, hidden=MergedRows.of(base.path, plan, len(names) - 1)))
        instant = None if base is None else requested_of(base.path)
        deciding = plan.deciding([block.rows_of(instant) for _, block in blocks])
        for number, block in enumerate(names):
            if not block.is_deletes:
                path = plan.slice_path(number)
                hidden = MergedRows.of(path, plan, deciding[number])
                out.append(FileSlice(path, block.size, 0, None, hidden=hidden))
        return out

    def _in_force(self, logs: Sequence[LogFile]) -> list[tuple[str, LogBlock]]:
        """Return the data and delete blocks that no other block rolls back, each with its log file's name."""
        named: list[tuple[str, LogBlock]] = []
        undone, compacted = set(), None
        for log in logs:
            for block in self._complete(log):
                if block.type is BlockType.COMMAND:
                    undone.add(self._undone(log, block))
                elif block.type is not BlockType.CDC:
                    self._check(log, block)
                    named.append((log.name, block))
                    compacted = block if Header.COMPACTED in block.places else compacted
        if compacted is not None and any(block.is_partial for _, block in named):
            raise refused_block(self.storage, compacted, "log compaction of partial updates")
        return [(log, block) for log, block in named if block.instant not in undone]

    def _complete(self, log: LogFile) -> Iterator[LogBlock]:
        """Yield the blocks of instants that had completed, and the blocks that roll others back.

        A torn block counts as damage if its instant had completed and names the log file; if the torn block
        does not tell its instant, any completed instant that names the file is enough. Other torn blocks are
        left by writers that died, or by tasks that died and were retried.
        """
        blocks = list_blocks(self.storage, log.path)
        if not blocks and self.is_written(log, ""):
            raise LogBlockError(file=log.path, offset=0, reason="it has no block, and a commit names it")
        for block in blocks:
            instant = block.instant
            if block.type is BlockType.TORN:
                if (not instant or self.is_complete(instant)) and self.is_written(log, instant):
                    reason = f"it is torn: {block.damage}"
                    raise LogBlockError(file=log.path, offset=block.offset, reason=reason)
                continue
            if not instant and self.own_instants:
                instant = log.instant
            if block.type is BlockType.COMMAND or self.is_complete(instant):
                yield block

    def _undone(self, log: LogFile, block: LogBlock) -> str:
        """Return the instant whose blocks a command block rolls back."""
        if not block.undoes or block.texts.get(Header.COMMAND) != "0":
            raise refused_block(self.storage, block, f"a command in {log.path} that is no rollback")
        return block.undoes

    def _check(self, log: LogFile, block: LogBlock) -> None:
        """Check that a block is of a kind that is read.

        A log file written before the table's upgrade is named after the instant of its base file. It is read
        only if that instant had completed when the instant of the block was requested: a log file of a
        compaction or bucket split that was pending then is refused.
        """
        if block.type is BlockType.HFILE:
            raise refused_block(self.storage, block, "log blocks of HFile")
        is_own = not self.own_instants or block.instant == log.instant
        if not is_own and block.instant <= self.completion(log.instant):
            feature = f"a log file of an instant that was pending when it was written ({log.path})"
            raise refused_block(self.storage, block, feature)
