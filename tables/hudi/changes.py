"""Changes between two versions of a Hudi table: its commits folded into one change per path."""

from __future__ import annotations

from tailbit.tables.hudi.snapshot import Fold, HudiSnapshot, known_commit
from tailbit.tables.hudi.versions import Versions
from tailbit.tables.model import Changes, CommitInfo, SliceChange, Version


def read_changes(versions: Versions, before: HudiSnapshot, first: Version, last: Version) -> Changes:
    """Return the net effect of the versions from `first` to `last`, which follow the snapshot `before`.

    Raises:
        FileNotFoundError: an instant has been archived, or taken back, since the timeline was read.
        MalformedLogError: a commit is damaged, or its metadata are lost.
    """
    fold, avro, infos = Fold(versions, before), before.avro, []
    for at in versions.between(first, last):
        instant = versions.instants[at]
        commit = known_commit(versions.timeline, instant)
        came, left, size = fold.apply(commit)
        avro = avro.after(commit, instant)
        number, time = versions.numbers[at], versions.times[at]
        infos.append(CommitInfo(number, time, commit.operation, came, left, size))
    fold.settle(last, avro)
    slices = tuple(
        SliceChange(path, before.files.get(path), fold.slices[path]) for path in sorted(fold.slices)
    )
    return Changes(first, last, slices, tuple(infos), avro.text != before.avro.text)
