"""Action reconciliation: the newest action of each logical file says whether the file is live.

A remove takes away the logical file that it names, a path with one deletion vector; the same path with
another vector stays. Writers remove logical files that were not live, split a change of hidden rows over
several commits, and forget the vector in a remove, so that a path is live twice. Rows are addressed by path
and position: such a version is refused. Source: Delta protocol, Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailbit.base.errors import LiveTwiceError
from tailbit.tables.delta.files import DeltaFiles
from tailbit.tables.delta.log.actions import LogicalFile, logical_file, path_of
from tailbit.tables.model import FileSlice, Version

Outcomes = Mapping[LogicalFile, FileSlice | None]
"""Logical files that some commits name, each with its slice after them; None if the file was removed."""


def reconcile(files: DeltaFiles, outcomes: Outcomes, root: str, version: Version) -> DeltaFiles:
    """Return the live files after commits, from the live files before and what the commits name.

    Cost: as `FileList.overlaid`. `root` and `version` are for errors.

    Raises:
        LiveTwiceError: a path is live with two deletion vectors, or with one and without.
    """
    changes: dict[str, FileSlice | None] = {}
    for file, slice_ in outcomes.items():
        if slice_ is None:
            changes.setdefault(path_of(file), None)
        elif changes.get(slice_.path) is None:
            changes[slice_.path] = slice_
        else:
            raise LiveTwiceError(path=root, version=version, file=slice_.path)
    if not len(files):
        return files.overlaid(changes)
    places, has_vectors = files.places_of(changes), files.any_hidden
    for path, (number, is_live) in places.items():
        hidden = files.hidden(number) if is_live and has_vectors else None
        if is_live and logical_file(path, hidden) not in outcomes and changes.pop(path) is not None:
            raise LiveTwiceError(path=root, version=version, file=path)
    return files.overlaid(changes, places)
