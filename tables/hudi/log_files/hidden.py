"""The rows that merging hides from a base file or a log block, as a descriptor that travels to workers."""

from __future__ import annotations

from dataclasses import field

from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError
from tailbit.tables.cache import Cache, share
from tailbit.tables.hudi.log_files.merge import Merged, Merging
from tailbit.tables.hudi.log_files.plan import MergePlan
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

        Raises:
            LogBlockError: a block is damaged.
            DataFileError: a log file or the base file is gone, or cannot be read.
            UnsupportedFeatureError: records are merged in a way that is not proven.
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
