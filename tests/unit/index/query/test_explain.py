"""An explanation names, per file, what kept or pruned it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.tables import LONG, index_of, with_vectors
from tailbit.index.predicate import pruning


def rows(first: int, p: str) -> pa.Table:
    keys = list(range(first, first + 10))
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [f"v{first}"] * 10, "w": keys, "p": [p] * 10})


@pytest.fixture
def path(table_path: str) -> str:
    for first, p in ((0, "x"), (10, "x"), (20, "y")):
        write_deltalake(table_path, rows(first, p), mode="append", partition_by=["p"])
    return table_path


def explained(path: str, predicate: str | None) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """The account, and of each file, in the order of its rows: covered, outcome, by, rows, matching."""
    account = dict(tailbit.open(path).where(predicate).explain())
    json.dumps(account)
    first_k = {
        p: tailbit.open(path).where(f"k = {k}").files()[0]
        for k, p in ((0, "first"), (10, "second"), (20, "third"))
    }
    files = {
        f["path"]: (f["covered"], f["outcome"], f["by"], f["rows"], f["matching"]) for f in account["files"]
    }
    assert sorted(files) == [f["path"] for f in account["files"]]
    return account, [files[first_k[p]] for p in ("first", "second", "third")]


def test_an_uncovered_file_is_scanned_or_pruned_by_the_log(path: str) -> None:
    account, files = explained(path, "k < 5 AND p = 'x'")
    assert files == [
        (False, "scanned", None, 10, 5),
        (False, "pruned", "k < 5 (statistics)", 10, 0),
        (False, "pruned", "k < 5 (statistics)", 10, 0),
    ]
    assert (account["count"], account["files_scanned"], account["segments"]) == (5, 1, 0)
    _, files = explained(path, "p = 'x' OR p IS NULL")
    assert files == [
        (False, "kept", "partition values", 10, 10),
        (False, "kept", "partition values", 10, 10),
        (False, "pruned", "p = 'x' OR p IS NULL (partition values)", 10, 0),
    ]


def test_a_covered_file_is_pruned_by_the_leaf_that_no_row_satisfies(path: str) -> None:
    index_of(path, ["k", "v"])
    account, files = explained(path, "k >= 0 AND v = 'v10' AND p = 'x'")
    assert files == [
        (True, "pruned", "v = 'v10'", 10, 0),
        (True, "kept", None, 10, 10),
        (True, "pruned", "v = 'v10'", 10, 0),
    ]
    assert account["segments"] == 1
    assert account["bytes_touched"] > 0
    assert account["predicate"] == "k >= 0 AND v = 'v10' AND p = 'x'"


def test_where_only_the_whole_rules_a_file_out_the_whole_is_named(path: str) -> None:
    index_of(path, ["k", "v"])
    _, files = explained(path, "(k = 1 OR k = 25) AND v = 'v0' AND (k = 2 OR v = 'v20' OR k = 1)")
    assert [f[1] for f in files] == ["kept", "pruned", "pruned"]
    _, files = explained(path, "(v = 'v0' AND k = 15) OR v = 'v99'")
    assert [f[2] for f in files] == ["(v = 'v0' AND k = 15) OR v = 'v99'"] * 3


def test_rows_that_the_index_leaves_open_are_rechecked_unless_the_log_decides(path: str) -> None:
    index_of(path, ["v"])
    _, files = explained(path, "v <> 'v10' AND w = 5")
    assert files == [
        (True, "rechecked", "w = 5", 10, 1),
        (True, "pruned", "v <> 'v10'", 10, 0),
        (True, "pruned", "w = 5 (statistics)", 10, 0),
    ]
    _, files = explained(path, f"v = '{LONG}' OR w = k")
    assert [f[1] for f in files] == ["rechecked"] * 3


def test_rows_are_the_visible_ones(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with_vectors(path)
    account = tailbit.open(path).where("v = 'v0'").explain()
    assert [(f["rows"], f["matching"]) for f in account["files"]] == [(8, 3), (10, 3)]
    account = tailbit.open(path).where("v = 'v0'", version=2).explain()
    assert [(f["rows"], f["matching"]) for f in account["files"]] == [(10, 4), (10, 3)]


def test_a_constant_predicate_is_explained(path: str) -> None:
    account, files = explained(path, None)
    assert (account["predicate"], account["count"], files[0][1]) == ("TRUE", 30, "kept")
    account, files = explained(path, "NULL = 1")
    assert (account["predicate"], account["count"]) == ("NULL", 0)
    assert [f[1] for f in files] == ["pruned"] * 3
    index_of(path, ["v"])
    account, files = explained(path, "k = w")
    assert (account["predicate"], account["count"]) == ("k = w", 30)


def test_the_way_in_which_rows_would_be_read_is_told_per_file(path: str) -> None:
    index_of(path, ["k"])
    account = tailbit.open(path).where("k IN (3, 4, 25)").explain(columns=["v", "p"])
    assert [line["path"] for line in account["read"]] == [
        file["path"] for file in account["files"] if file["matching"]
    ]
    assert [(line["way"], line["batches"], line["row_groups"]) for line in account["read"]] == [
        ("pages", 1, 1)
    ] * 2
    assert sorted(line["rows"] for line in account["read"]) == [1, 2]


def test_an_explanation_asks_the_log_for_all_files_at_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    before = pruning.FileTruths.__init__

    def counted(self: Any, node: Any, slices: Any) -> None:
        asked.append(len(slices))
        before(self, node, slices)

    monkeypatch.setattr(pruning.FileTruths, "__init__", counted)
    conditions = " OR ".join(f"(k = {100 + n} AND v = 'v{n}')" for n in range(40))
    explained_files = tailbit.open(path).where(conditions).explain()["files"]
    assert [f["reason"] for f in explained_files] == ["pruned_by_statistics"] * 3
    assert len(asked) <= 4
