"""Tables whose columns are promoted to other types while files keep the older ones."""

from __future__ import annotations

from collections.abc import Callable

from cow_kinds import partitioned
from made_table import MadeTable
from mor_kinds import compact

OLD: dict[str, tuple[str, list[object]]] = {
    "i": ("int", [0, -1, 16777217, 2**31 - 1, -(2**31), 7, None, 33554435]),
    "l": ("bigint", [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 16777217, None, 9007199791611905]),
    "f": ("float", [0.1, -0.0, float("nan"), float("inf"), 1e-10, 2.0**24, None, 3.4028235e38]),
    "d": ("double", [0.1, -0.0, float("nan"), float("-inf"), 1e-5, 1e7, None, 2e-3]),
    "s": ("string", ["", "é", "a b", "\U0001f600", "x", "NULL", None, "y" * 70]),
    "b": ("binary", [b"", "é".encode(), b"abc", "\U0001f600".encode(), b"x", b"1", None, b"zz"]),
}
NEW: dict[str, tuple[str, Callable[[int], object]]] = {
    "l": ("bigint", lambda key: 2**40 + key),
    "f": ("float", lambda key: key / 3),
    "d": ("double", lambda key: key / 3),
    "s": ("string", lambda key: f"v{key}"),
    "b": ("binary", lambda key: b"v%d" % key),
}
PROMOTIONS = ("il", "if", "id", "is", "lf", "ld", "ls", "fd", "fs", "ds", "sb", "bs")
"""Each promotion that Hudi accepts when it writes: the letters of the older type and of the newer one."""


def promoted(made: MadeTable) -> None:
    """Write rows of the older types, of the newer ones, and of the older ones again; some groups stay."""
    partitioned(made, hive_style=False)
    made.set(parquet__small__file__limit=0)
    head = "id bigint, ts bigint, part string, city string"
    older = head + "".join(f", {p[0]}_{p[1]} {OLD[p[0]][0]}" for p in PROMOTIONS)
    newer = head + "".join(f", {p[0]}_{p[1]} {NEW[p[1]][0]}" for p in PROMOTIONS)

    def old(keys: tuple[int, ...], ts: int, city: str, operation: str = "upsert") -> None:
        rows = [(k, ts, f"p{k % 3}", city, *(OLD[p[0]][1][k // 3 % 8] for p in PROMOTIONS)) for k in keys]
        made.write(made.frame(rows, older), operation)

    def new(keys: tuple[int, ...], ts: int, city: str) -> None:
        rows = [(k, ts, f"p{k % 3}", city, *(NEW[p[1]][1](k) for p in PROMOTIONS)) for k in keys]
        made.write(made.frame(rows, newer))

    old(tuple(range(24)), 5, "Oslo", "insert")
    old((0, 1, 3, 6, 7, 9, 10), 6, "Lima")
    new((0, 12, 24), 7, "Pune")
    old((3, 4, 13), 8, "Kyiv")
    if made.kind == "mor":
        compact(made)
        old((6, 7), 9, "Rome")
    new((2, 4), 10, "Bonn")


def cow_v9_promoted(made: MadeTable) -> None:
    """Promote columns by each of the promotions that Hudi accepts."""
    promoted(made)


def mor_v9_promoted(made: MadeTable) -> None:
    """Promote columns by each of the promotions that Hudi accepts, in logs over older base files."""
    promoted(made)


PROMOTED = (cow_v9_promoted, mor_v9_promoted)
