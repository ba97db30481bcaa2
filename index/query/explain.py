"""Why an answer is what it is: what kept or pruned each file; segments and bytes touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tailbit.index.predicate.file_truth import file_can_match, whole_file_truth
from tailbit.index.predicate.tree import And, Compare, Constant, Node, Or, columns_of
from tailbit.index.query.evaluate import evaluate
from tailbit.tables.model import FileSlice

if TYPE_CHECKING:
    from tailbit.index.query.answer import FileHits, Selection
    from tailbit.index.query.row_space import SpaceView


def explain(answer: Selection) -> Mapping[str, Any]:
    """A JSON-able account of one answer.

    Keys: `version`, `covered_version`, `predicate`, `count`, `files` (a list of per-file accounts: path,
    covered, outcome `kept | pruned | scanned | rechecked`, by, rows, matching), `files_scanned`, `segments`,
    `bytes_touched` (of bitmaps, read by this process so far), `damaged`. `by` names the part of the predicate
    that no row of a pruned file can satisfy, for an uncovered file with what proves it. Cost: answers the
    question, then evaluates each leaf once more to name what pruned a file.
    """
    matching = {h.number: h for h in answer.hits()}
    rechecked = {h.number for h in answer.read_hits if h.source == "recheck"}
    files: dict[int, dict[str, Any]] = {}
    for space, _ in answer.bounds:
        files |= _covered_files(answer, space, matching, rechecked)
    for hit in answer.read_hits:
        if hit.number not in files:
            files[hit.number] = _uncovered_file(answer, hit)
    touched = _segments(answer)
    return {
        "version": answer.version,
        "covered_version": answer.covered_version,
        "predicate": render(answer.node),
        "count": sum(int(f["matching"]) for f in files.values()),
        "files": [files[number] for number in sorted(files)],
        "files_scanned": answer.files_scanned,
        "segments": len(touched),
        "bytes_touched": sum(touched.values()),
        "damaged": [str(d) for d in answer.damaged],
    }


def _covered_files(
    answer: Selection, space: SpaceView, matching: Mapping[int, FileHits], rechecked: set[int]
) -> dict[int, dict[str, Any]]:
    visible = space.counts_by_file(space.visible)
    blockers = _blockers(answer, space)
    out = {}
    for order, number in enumerate(space.files.tolist()):
        hit = matching.get(number)
        outcome = "rechecked" if number in rechecked else "pruned" if hit is None else "kept"
        piece: FileSlice = answer.snapshot.files[number]
        by = blockers[order] or _by_log(answer.node, piece) or render(answer.node)
        out[number] = {
            "path": piece.path,
            "covered": True,
            "outcome": outcome,
            "by": by if outcome == "pruned" else None,
            "rows": int(visible[order]),
            "matching": 0 if hit is None else len(hit.positions),
        }
    return out


def _parts(node: Node) -> Sequence[Node]:
    return node.children if isinstance(node, And) else (node,)


def _blockers(answer: Selection, space: SpaceView) -> list[str | None]:
    """Per file, the first top-level conjunct that no row of it can satisfy by the index; None for none."""
    names: list[str | None] = [None] * len(space.files)
    for part in reversed(_parts(answer.node)):
        counts = space.counts_by_file(evaluate(part, space).maybe)
        for order in np.flatnonzero(counts == 0).tolist():
            names[order] = render(part)
    return names


def _by_log(node: Node, piece: FileSlice) -> str | None:
    """The first top-level conjunct that the log alone rules out for a file, and by what; None for none."""
    for part in _parts(node):
        if whole_file_truth(part, piece) is False:
            return f"{render(part)} (partition values)"
        if not file_can_match(part, piece):
            return f"{render(part)} (statistics)"
    return None


def _uncovered_file(answer: Selection, hit: FileHits) -> dict[str, Any]:
    piece: FileSlice = answer.snapshot.files[hit.number]
    n = len(hit.positions)
    outcome, by = "scanned", None
    if hit.source == "pruned":
        outcome, by = ("kept", "partition values") if n else ("pruned", _by_log(answer.node, piece))
    hidden = answer.coverage.hidden_of(hit.number)
    rows = None if piece.rows is None else piece.rows - (len(hidden) if hidden else 0)
    return {
        "path": piece.path,
        "covered": False,
        "outcome": outcome,
        "by": by,
        "rows": rows,
        "matching": n,
    }


def _segments(answer: Selection) -> dict[str, int]:
    """Path to bytes read so far of every segment that a leaf of the predicate asks."""
    wanted = {c.id for c in columns_of(answer.node)}
    return {
        segment.path: segment.bytes_read
        for space, _ in answer.bounds
        for segment in space.segments
        if wanted & set(segment.columns)
    }


def render(node: Node) -> str:
    """A predicate as text, NOT pushed to the leaves; cut where it is long."""
    text = "".join(islice(_texts(node), _LONGEST))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_LONGEST = 4000
"""Characters, and pieces of text: what stands in several places is written in each of them."""


def _texts(node: Node) -> Iterator[str]:
    if isinstance(node, (And, Or)):
        word = ""
        for child in node.children:
            yield word
            word = " AND " if isinstance(node, And) else " OR "
            yield from _nested(child)
    elif isinstance(node, Constant):
        yield "NULL" if node.value is None else str(node.value).upper()
    elif isinstance(node, Compare):
        yield f"{node.left.label} {node.op} {node.right.label}"
    else:
        yield node.text


def _nested(node: Node) -> Iterator[str]:
    if not isinstance(node, (And, Or)):
        yield from _texts(node)
        return
    yield "("
    yield from _texts(node)
    yield ")"
