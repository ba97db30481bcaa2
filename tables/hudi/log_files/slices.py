"""The file slices of a file group at a version: its base file and its log blocks, with their hidden rows.

A log compaction block holds the outcome of earlier blocks. It is merged after these, which changes no row:
Spark does the same unless it is told to skip the earlier blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import LogBlockError
from tailbit.tables.hudi.groups import LogFile, requested_of
from tailbit.tables.hudi.log_files.blocks import BlockType, Header, LogBlock, list_blocks
from tailbit.tables.hudi.log_files.hidden import MergedRows
from tailbit.tables.hudi.log_files.plan import MergePlan, MergeRule, block_name
from tailbit.tables.hudi.log_files.records import refused_block
from tailbit.tables.model import FileSlice
from tailbit.tables.storage import Storage


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

        Raises:
            FileNotFoundError: a log file is gone.
            LogBlockError: a block of an instant that had completed is torn.
            UnsupportedFeatureError: a block is of a kind that is not read.
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
