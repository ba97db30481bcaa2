"""Explanation of an answer: what kept or pruned each file; segments and bytes read.

`docs/reasons.md` documents the codes that say why; a test compares the two, and another provokes each code.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Any

import numpy as np
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation.choice import choose
from tailbit.index.evaluation.evaluate import evaluate
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.postings.encoding import Encoding, encoding_of
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.pruning import first_ruled_out
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, columns_of, nodes_of
from tailbit.index.query.scan import can_match
from tailbit.index.query.selection import FileHits, HitSource, Selection
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.rows import Positions


class Reason(enum.Enum):
    """Why a file was treated as it was."""

    KEPT_BY_INDEX = "kept_by_index"
    """The bitmaps tell its matching rows; nothing of it is read."""

    KEPT_BY_LOG = "kept_by_log"
    """The index does not cover it, but by its partition values and statistics all of its rows match."""

    PRUNED_BY_INDEX = "pruned_by_index"
    """By the bitmaps none of its rows match."""

    PRUNED_BY_PARTITION = "pruned_by_partition"
    """By its partition values none of its rows match."""

    PRUNED_BY_STATISTICS = "pruned_by_statistics"
    """By the statistics in the log none of its rows match."""

    COLUMN_NOT_INDEXED = "column_not_indexed"
    """A condition is on a column that the index does not have: rows that it decides are read."""

    BOUNDED = "bounded"
    """An index tells which rows may match, not whether they do: these rows are read."""

    COLUMN_NOT_POSTED = "column_not_posted"
    """The index has the column, but not yet for this file: rows that it decides are read."""

    LONG_VALUES = "long_values"
    """Keys hold only the beginning of long values: rows that have such values are read."""

    COMPUTED = "computed"
    """A condition is on several columns, or has no answer for some key: such rows are read."""

    NO_INDEX = "no_index"
    """There is no index, or none that vouches for this history of the table: the file is read."""

    NOT_COVERED = "not_covered"
    """The index has not got to this file yet, or knows another file by its path: the file is read."""

    INDEX_DAMAGED = "index_damaged"
    """A file of the index cannot be read, so the data is."""


def reason_of_scan(selection: Selection) -> Callable[[int], Reason]:
    """Return a function from the number of an uncovered file in the snapshot to the reason for reading it."""
    coverage = selection.coverage
    uncovered = set(coverage.uncovered.tolist())
    whole = Reason.NOT_COVERED if coverage.trusted else Reason.NO_INDEX
    if list(coverage.damages) or (not coverage.trusted and list(selection.damages)):
        whole = Reason.INDEX_DAMAGED

    def reason(number: int) -> Reason:
        return whole if number in uncovered else Reason.INDEX_DAMAGED

    return reason


def reasons_of_recheck(selection: Selection, space: SpaceView) -> dict[int, tuple[Reason, Node]]:
    """Return, per file with rows left open (by its order in the row space), the reason and the condition.

    Cost: each condition is evaluated once more.
    """
    reasons: dict[int, tuple[Reason, Node]] = {}
    explained = np.zeros(len(space.files), dtype=bool)
    for node in nodes_of(selection.node):
        if isinstance(node, (And, Or, Constant)):
            continue
        bounds = evaluate(node, space)
        if bounds.exact:
            continue
        open_ = (space.counts_by_file(bounds.maybe - bounds.sure) > 0) & ~explained
        for order in np.flatnonzero(open_).tolist():
            reasons[order] = (_reason(node, space, order), node)
        explained |= open_
    return reasons


def _reason(node: Leaf | Computed, space: SpaceView, order: int) -> Reason:
    posted = space.column_sets[int(space.posted[order])]
    if (serving := set(ids_serving(node, space))) and (node.column is None or node.column.id not in serving):
        return Reason.BOUNDED if serving & posted else Reason.COLUMN_NOT_POSTED
    if node.column is None:
        return Reason.COMPUTED
    if not space.serving(node.column):
        return Reason.COLUMN_NOT_INDEXED
    if node.column.id not in posted:
        return Reason.COLUMN_NOT_POSTED
    return Reason.LONG_VALUES if isinstance(node, Leaf) else Reason.COMPUTED


def served(selection: Selection) -> Iterator[tuple[Node, dict[str, Any]]]:
    """Yield each condition of a predicate with the names of the indexes that served it or could have.

    Keys of the second element: `by` (indexes whose postings or bounds were used in some row space), `also`
    (others that could bound the condition). Conditions that one index serves together are yielded as one AND.
    """
    names = {definition.id: definition.name for definition in selection.coverage.definitions}
    spaces = [space for space in selection.coverage.spaces if _is_sound(space)]
    replaced: set[int] = set()
    for node in nodes_of(selection.node):
        if isinstance(node, And):
            replaced_here = _replaced_at_once(node, spaces)
            replaced |= set(map(id, replaced_here))
            node = And(tuple(replaced_here))
        if isinstance(node, (Or, Constant)) or id(node) in replaced or node == And(()):
            continue
        used, able = dict[str, None](), dict[str, None]()
        for space in spaces:
            used |= dict.fromkeys(ids_serving(node, space))
            able |= dict.fromkeys(a.definition.id for a in space.accesses if a.serves(node))
        by = [names[id_] for id_ in used if id_ in names]
        yield node, {"by": by, "also": [n for id_ in able if (n := names.get(id_)) and n not in by]}


def _is_sound(space: SpaceView) -> bool:
    """Return whether the footers of a row space's segments can be read."""
    try:
        return all(segment.columns is not None for segment in space.segments)
    except CorruptIndexError:
        return False


def _replaced_at_once(node: And, spaces: Sequence[SpaceView]) -> list[Node]:
    """Return the parts of an AND that one condition on an index replaces in some row space."""
    replaced: dict[int, Node] = {}
    for space in spaces:
        best = choose(node, space).node
        remaining = set(map(id, best.children if isinstance(best, And) else (best,)))
        lost = [child for child in node.children if id(choose(child, space).node) not in remaining]
        replaced |= {id(child): child for child in lost if len(lost) > 1}
    return list(replaced.values())


def all_serving(node: Node, space: SpaceView) -> set[str]:
    """Return the ids of the definitions that bound a condition or parts of it in a row space."""
    choice = choose(node, space)
    bounding = (access.definition.id for accesses in choice.bounding.values() for access, _ in accesses)
    return {column.id for column in columns_of(choice.node)}.union(bounding)


def ids_serving(node: Node, space: SpaceView) -> list[str]:
    """Return the ids of the definitions by which a condition is bounded in a row space."""
    choice = choose(node, space)
    bounding = [access.definition.id for access, _ in choice.bounding.get(id(choice.node), ())]
    return [column.id for column in columns_of(choice.node) if space.posts(column.id)] + bounding


class Outcome(enum.Enum):
    """Treatment of a file."""

    KEPT = "kept"
    """The index or the log alone proved its matching rows."""

    PRUNED = "pruned"
    """The index or the log alone proved that no row matches."""

    RECHECKED = "rechecked"
    """Rows that the index left open were read."""

    SCANNED = "scanned"
    """The file is not covered by the index and was read."""


@dataclass(frozen=True)
class Account:
    """An account of an answer, or of a portion of one: what `explain` adds up.

    `files`: accounts by path. `touched`: bytes read by path of a segment. `conditions`: by text, the indexes.
    """

    files: Mapping[str, dict[str, Any]]
    files_scanned: int
    touched: Mapping[str, int]
    conditions: Sequence[tuple[str, dict[str, Any]]]
    encodings: Mapping[str, Encoding]
    took: float

    @classmethod
    def of(cls, selection: Selection) -> Account:
        """Return the account of a selection. Cost: answers it, then evaluates each leaf once more."""
        begun = time.perf_counter()
        matching = {hit.slice_.path: len(hit.positions) for hit in selection.hits()}
        rechecked = {hit.slice_.path for hit in selection.read_hits if hit.source is HitSource.RECHECK}
        took = (time.perf_counter() - begun) * 1e3
        files: dict[str, dict[str, Any]] = {}
        for space, _ in selection.bounds:
            files |= _covered_files(selection, space, matching, rechecked)
        files |= _uncovered_files(selection, files.keys())
        conditions = [(render(node), indexes) for node, indexes in served(selection)]
        touched, encodings = _segments(selection), _encodings(selection)
        return cls(files, selection.files_scanned, touched, conditions, encodings, took)


def explain(
    selection: Selection, covered_version: Version | None, accounts: Sequence[Account]
) -> Mapping[str, Any]:
    """Return a JSON-able account of one answer. `accounts`: that of the selection, or those of its portions.

    Keys: `version`, `covered_version`, `predicate`, `count`, `files` (a list of per-file accounts: path,
    covered, outcome (a word of `Outcome`), reason (a code of `Reason`), by, rows, matching, row_groups and
    row_groups_read, None where the footer was not read), `files_scanned`, `segments`, `bytes_touched` (of
    bitmaps, read by this process so far), `conditions` (per condition, the names of the indexes that served
    it (`by`) and of others that could (`also`)), `encodings` (per index that serves the predicate, the form
    of its postings, keys, sparse keys, bytes, bytes per row), `damaged`, `set_aside` (a line for each
    unreadable part of the log that was not used), `took_ms` (ms to find the rows; near 0 if they were found
    before). `by` names, for a pruned file, the part of the predicate that none of its rows can satisfy (for
    an uncovered file also the proof); for a rechecked file, the condition that left rows open.
    """
    files = {path: file for account in accounts for path, file in account.files.items()}
    touched = {path: size for account in accounts for path, size in account.touched.items()}
    encodings = {label: Encoding() for account in accounts for label in account.encodings}
    conditions: dict[str, dict[str, Any]] = {}
    for account in accounts:
        for label, encoding in account.encodings.items():
            encodings[label] += encoding
        for text, indexes in account.conditions:
            lists = conditions.setdefault(text, {"condition": text, "by": [], "also": []})
            lists["by"] += [name for name in indexes["by"] if name not in lists["by"]]
            lists["also"] += [name for name in indexes["also"] if name not in lists["also"]]
    for lists in conditions.values():
        lists["also"] = [name for name in lists["also"] if name not in lists["by"]]
    paths = selection.snapshot.files.paths.to_pylist()
    uncovered = [number for number, path in enumerate(paths) if not files[path]["covered"]]
    return {
        "version": selection.version,
        "covered_version": covered_version,
        "predicate": render(selection.node),
        "count": sum(int(f["matching"]) for f in files.values()),
        "files": [files[path] for path in sorted(files)],
        "files_scanned": sum(account.files_scanned for account in accounts),
        "segments": len(touched),
        "bytes_touched": sum(touched.values()),
        "conditions": list(conditions.values()),
        "encodings": {label: encodings[label].account() for label in sorted(encodings)},
        "damaged": [str(d) for d in selection.damaged],
        "set_aside": selection.snapshot.set_aside(uncovered),
        "took_ms": round(sum(account.took for account in accounts), 3),
    }


def _covered_files(
    selection: Selection, space: SpaceView, matching: Mapping[str, int], rechecked: set[str]
) -> dict[str, dict[str, Any]]:
    visible = space.counts_by_file(space.visible)
    blockers, files = _blockers(selection, space), selection.snapshot.files
    open_ = reasons_of_recheck(selection, space) if rechecked else {}
    open_rows = dict(space.split(_left_open(selection, space))) if rechecked else {}
    unnamed = np.array([by is None for by in blockers], dtype=bool)
    by_log, whole = _by_log(selection, space.files[unnamed].tolist()), render(selection.node)
    out = {}
    for order, number in enumerate(space.files.tolist()):
        path = files.paths[number].as_py()
        by, outcome, reason = None, Outcome.KEPT, Reason.KEPT_BY_INDEX
        groups: tuple[int | None, int] = (None, 0)
        if path in rechecked:
            reason, node = open_[order]
            by, outcome = render(node), Outcome.RECHECKED
            groups = _row_groups(selection, files[number], open_rows[number])
        elif path not in matching:
            outcome, reason, by = Outcome.PRUNED, Reason.PRUNED_BY_INDEX, blockers[order]
            if by is None:
                reason, by = by_log[number] or (reason, whole)
        rows = int(visible[order]), matching.get(path, 0)
        out[path] = _account(path, True, outcome, reason, by, rows, groups)
    return out


def _account(
    path: str,
    covered: bool,
    outcome: Outcome,
    reason: Reason,
    by: str | None,
    rows: tuple[int | None, int],
    groups: tuple[int | None, int],
) -> dict[str, Any]:
    """Return the account of a file; `rows`: visible, matching ones; `groups`: row groups, and those read."""
    account = {"path": path, "covered": covered, "outcome": outcome.value, "reason": reason.value, "by": by}
    account |= {"rows": rows[0], "matching": rows[1], "row_groups": groups[0], "row_groups_read": groups[1]}
    return account


def _conjuncts(node: Node) -> Sequence[Node]:
    return node.children if isinstance(node, And) else (node,)


def _blockers(selection: Selection, space: SpaceView) -> list[str | None]:
    """Return, per file, the first top-level conjunct that no row can satisfy by the index.

    None if there is none.
    """
    names: list[str | None] = [None] * len(space.files)
    for conjunct in reversed(_conjuncts(selection.node)):
        counts, name = space.counts_by_file(evaluate(conjunct, space).maybe), render(conjunct)
        for order in np.flatnonzero(counts == 0).tolist():
            names[order] = name
    return names


def _by_log(selection: Selection, numbers: Sequence[int]) -> dict[int, tuple[Reason, str] | None]:
    """Return, per file, the first top-level conjunct that the log alone rules out, with the proof.

    Else None.
    """
    slices, conjuncts = selection.snapshot.files.at(numbers), _conjuncts(selection.pruning)
    ruled_out = first_ruled_out(conjuncts, slices)
    texts = {index: render(conjuncts[index]) for index in {index for index, _ in filter(None, ruled_out)}}

    def why(first: tuple[int, bool] | None) -> tuple[Reason, str] | None:
        if first is None:
            return None
        index, by_partition = first
        if by_partition:
            return Reason.PRUNED_BY_PARTITION, f"{texts[index]} (partition values)"
        return Reason.PRUNED_BY_STATISTICS, f"{texts[index]} (statistics)"

    return dict(zip(numbers, map(why, ruled_out), strict=True))


def _left_open(selection: Selection, space: SpaceView) -> BitMap:
    """Return the rows of a row space that its bitmaps leave open."""
    bounds = next(bounds for other, bounds in selection.bounds if other is space)
    return bounds.maybe - bounds.sure


def _row_groups(selection: Selection, slice_: FileSlice, rows: Positions | None) -> tuple[int, int]:
    """Count the row groups of a data file, and those read for some rows (None: for all rows)."""
    layout = open_layout(selection.storage, slice_.path, slice_.size)
    may = can_match(selection.node, layout, slice_, selection.storage)
    return len(may), int(np.count_nonzero(may[layout.groups_with(rows)]))


def _uncovered_files(selection: Selection, covered: Set[str]) -> dict[str, dict[str, Any]]:
    reason, by_log = reason_of_scan(selection), _by_log(selection, selection.to_scan)
    hits = {hit.slice_.path: hit for hit in selection.read_hits if hit.slice_.path not in covered}
    out = {}
    for number in selection.to_scan:
        path = selection.snapshot.files.paths[number].as_py()
        out[path] = _uncovered_file(selection, hits[path], reason(number), by_log[number])
    return out


def _uncovered_file(
    selection: Selection, hit: FileHits, why: Reason, by_log: tuple[Reason, str] | None
) -> dict[str, Any]:
    slice_, matching = hit.slice_, len(hit.positions)
    by: str | None = None
    groups: tuple[int | None, int] = (None, 0)
    if hit.source is HitSource.SCAN:
        outcome, reason = Outcome.SCANNED, why
        groups = _row_groups(selection, slice_, None)
    elif matching:
        outcome, reason, by = Outcome.KEPT, Reason.KEPT_BY_LOG, "partition values"
    else:
        outcome = Outcome.PRUNED
        reason, by = by_log or (Reason.PRUNED_BY_STATISTICS, None)
    rows = _visible_rows(selection, hit), matching
    return _account(slice_.path, False, outcome, reason, by, rows, groups)


def _visible_rows(selection: Selection, hit: FileHits) -> int | None:
    """Return the number of visible rows by the footer, or by the log if pruned; None if it is unknown."""
    slice_ = hit.slice_
    pruned = hit.source is HitSource.PRUNED and not len(hit.positions)
    rows = slice_.rows if pruned else selection.physical_rows([hit])[0]
    hidden = 0 if slice_.hidden is None else slice_.hidden.cardinality
    return None if rows is None or hidden is None or rows < hidden else rows - hidden


def _segments(selection: Selection) -> dict[str, int]:
    """Return path to bytes read so far, for every segment with postings that serve the predicate."""
    return {
        segment.path: segment.bytes_read
        for space, _ in selection.bounds
        if (serving := all_serving(selection.node, space))
        for segment in space.segments
        if not serving.isdisjoint(segment.columns)
    }


def _encodings(selection: Selection) -> dict[str, Encoding]:
    """Return the encoding of the postings of each index that serves the predicate.

    The key is the label of the column, or the name of an index of expressions or of several terms.
    """
    segments = [segment for space, _ in selection.bounds for segment in space.segments]
    serving = set[str]().union(*(all_serving(selection.node, space) for space, _ in selection.bounds))
    labels = {d.id: d.name for d in selection.coverage.definitions if d.id in serving}
    labels |= {c.id: c.label for c in columns_of(selection.node)}
    encodings = {label: encoding_of(segments, id_) for id_, label in labels.items()}
    return {label: encoding for label, encoding in encodings.items() if encoding.keys}


def render(node: Node) -> str:
    """Return a predicate as text, in which NOT stands only before single conditions.

    Text beyond `_LONGEST` characters is cut.
    """
    text = "".join(islice(_texts(node), _LONGEST))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_LONGEST = 4000
"""Limit of characters and of pieces of text: a part that occurs twice in a predicate is written twice."""


def _texts(node: Node) -> Iterator[str]:
    if isinstance(node, (And, Or)):
        word = ""
        for child in node.children:
            yield word
            word = " AND " if isinstance(node, And) else " OR "
            yield from _nested(child)
    elif isinstance(node, Constant):
        yield "NULL" if node.value is None else str(node.value).upper()
    else:
        yield node.text


def _nested(node: Node) -> Iterator[str]:
    if not isinstance(node, (And, Or)):
        yield from _texts(node)
        return
    yield "("
    yield from _texts(node)
    yield ")"
