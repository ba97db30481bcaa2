"""Why an answer is what it is: what kept or pruned each file; segments and bytes touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tailbit.index.evaluate import evaluate
from tailbit.index.predicate import And, Compare, Constant, Leaf, Node, Or, columns_of
from tailbit.index.scan import file_can_match, whole_file_truth

if TYPE_CHECKING:
    from tailbit.index.answer import Answer
    from tailbit.index.coverage import SpaceView


def explain(answer: Answer) -> Mapping[str, Any]:
    """A JSON-able account of one answer.

    Keys: `version`, `covered_version`, `predicate`, `count`, `files` (a list of per-file accounts: path,
    covered, outcome `kept | pruned | scanned | rechecked`, by, rows, matching), `segments`, `bytes_touched`,
    `damaged`. Cost: answers the question, then evaluates each leaf once more to name what pruned a file.
    """
    matching = {h.number: h for h in answer.hits()}
    files: list[dict[str, Any]] = []
    for space, _ in answer.bounds:
        files += _covered_files(answer, space, matching)
    for hit in answer.read_hits:
        if hit.number not in {f["number"] for f in files}:
            files.append(_uncovered_file(answer, hit.number, hit.source, len(hit.positions)))
    files.sort(key=lambda f: int(f["number"]))
    touched = _segments(answer)
    for entry in files:
        del entry["number"]
    return {
        "version": answer.version,
        "covered_version": answer.covered_version,
        "predicate": render(answer.node),
        "count": sum(int(f["matching"]) for f in files),
        "files": files,
        "segments": len(touched),
        "bytes_touched": sum(touched.values()),
        "damaged": [str(d) for d in answer.damaged],
    }


def _covered_files(answer: Answer, space: SpaceView, matching: Mapping[int, Any]) -> list[dict[str, Any]]:
    visible = space.counts_by_file(space.visible)
    blockers = _blockers(answer, space)
    out = []
    for order, number in enumerate(space.files.tolist()):
        hit = matching.get(int(number))
        outcome = "pruned" if hit is None else "rechecked" if hit.source == "recheck" else "kept"
        out.append(
            {
                "number": int(number),
                "path": answer.snapshot.files[int(number)].path,
                "covered": True,
                "outcome": outcome,
                "by": blockers[order] if hit is None else None,
                "rows": int(visible[order]),
                "matching": 0 if hit is None else len(hit.positions),
            }
        )
    return out


def _blockers(answer: Answer, space: SpaceView) -> list[str]:
    """Per file, the first top-level conjunct that no row of it can satisfy, else the whole predicate."""
    parts = answer.node.children if isinstance(answer.node, And) else (answer.node,)
    names = [render(answer.node)] * len(space.files)
    for part in reversed(parts):
        counts = space.counts_by_file(evaluate(part, space, answer.snapshot).maybe)
        for order in np.flatnonzero(counts == 0).tolist():
            names[order] = render(part)
    return names


def _uncovered_file(answer: Answer, number: int, source: str, matching: int) -> dict[str, Any]:
    piece = answer.snapshot.files[number]
    by = None
    if source == "pruned":
        by = "partition values" if whole_file_truth(answer.node, piece) is not None else "statistics"
        if not file_can_match(answer.node, piece) and not any(c.partition for c in columns_of(answer.node)):
            by = "statistics"
    hidden = answer.coverage.hidden_of(number)
    rows = None if piece.rows is None else piece.rows - (len(hidden) if hidden else 0)
    return {
        "number": number,
        "path": piece.path,
        "covered": False,
        "outcome": "pruned"
        if source == "pruned" and not matching
        else "kept"
        if source == "pruned"
        else "scanned",
        "by": by,
        "rows": rows,
        "matching": matching,
    }


def _segments(answer: Answer) -> dict[str, int]:
    """Path to bytes read so far of every segment that a leaf of the predicate asks."""
    wanted = {c.id for c in columns_of(answer.node)}
    return {
        segment.path: segment.bytes_read
        for space, _ in answer.bounds
        for segment in space.segments
        if wanted & set(segment.columns)
    }


def render(node: Node) -> str:
    """A predicate as text, NOT pushed to the leaves."""
    if isinstance(node, And):
        return " AND ".join(_nested(child) for child in node.children)
    if isinstance(node, Or):
        return " OR ".join(_nested(child) for child in node.children)
    if isinstance(node, Constant):
        return "NULL" if node.value is None else str(node.value).upper()
    if isinstance(node, Compare):
        return f"{node.left.label} {node.op} {node.right.label}"
    assert isinstance(node, Leaf)
    return node.text


def _nested(node: Node) -> str:
    return f"({render(node)})" if isinstance(node, (And, Or)) else render(node)
