"""A small table with an index, deletion vectors and a commit of lag, and questions that every mode serves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from support.tables import index_of


def asked_of_every_mode(path: str) -> list[str]:
    """Make the table; return statements for `support.release_questions`."""
    for n in range(6):
        rows = [(f"k{row % 10 * 6 + n:02}", row % 3, n * 100 + row) for row in range(100)]
        names = ("k", "g", "v")
        columns = {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
        write_deltalake(path, pa.table(columns), mode="append")
    DeltaTable(path).delete("v = 3")
    index_of(path, ["k", "g"])
    table = f"delta.`{path}`"
    covered = f"{table} VERSION AS OF {DeltaTable(path).version()}"
    write_deltalake(path, pa.table({"k": ["k31"], "g": [1], "v": [7000]}), mode="append")
    joined = "SELECT a.v, b.g FROM {t} a JOIN {t} b ON a.v = b.v WHERE a.k = 'k26' AND b.g < 2"
    return [
        "SET spark.tailbit.serve=files",
        f"SELECT * FROM {table} WHERE k = 'k31' AND g < 2",
        joined.format(t=table),
        "SET spark.tailbit.serve=rows,counts,groups",
        f"SELECT * FROM {covered} WHERE k = 'k31' AND g < 2",
        joined.format(t=covered),
        f"SELECT count(*) FROM {covered} WHERE k IN ('k21', 'k32') AND g <> 1",
        f"SELECT g, count(*) FROM {covered} WHERE k LIKE 'k1%' GROUP BY g",
        "SET spark.tailbit.mostRows=5",
        f"SELECT a.v, a.m FROM (SELECT v, max(g) m FROM {covered} GROUP BY v) a"
        f" JOIN {covered} b ON a.v = b.v WHERE b.k = 'k31' AND b.g = 1",
    ]


def check_told(told: dict[str, Any]) -> None:
    """Check that each mode was served, that keys of a join filtered rows, and that no row differs."""
    assert told["wrong"] == []
    assert any("keys" in scan for notes in told["last"] for scan in notes), told
    assert all(told["served"].values()), told
    assert sum(told["rows"]) > 8
