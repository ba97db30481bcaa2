"""A table of 200 files, for which Spark plans for some time: random keys, ascending days, few rare names."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
from index_of import Upkeep
from lineitem import folder

FILES, ROWS = 200, 30_000


def files(rows: int = ROWS) -> pathlib.Path:
    """Return the table with that many rows a file, made on first use: random keys, ascending days."""
    path = folder() / ("many_files" if rows == ROWS else f"many_files-{rows}")
    log = path / "_delta_log"
    if not log.exists() or len([*log.glob("*.json")]) < FILES:
        shutil.rmtree(path, ignore_errors=True)
        rng = np.random.default_rng(1)
        for n in range(FILES):
            names = rng.choice([f"name {i}" for i in range(500)], rows).astype(object)
            names[:2] = ["a", "z"]
            if n % 14 == 0:
                names[rng.integers(2, rows, 20)] = "rare"
            columns: dict[str, Any] = {
                "id": np.arange(n * rows, (n + 1) * rows),
                "day": np.full(rows, n),
                "key": rng.integers(0, 100_000, rows),
                "name": names,
                **{f"x{i}": rng.random(rows) for i in range(4)},
            }
            deltalake.write_deltalake(path, pa.table(columns), mode="append")
    return path


def table() -> pathlib.Path:
    """Return the table with its index, made on first use."""
    path = files()
    Upkeep(path, ["name", "key", "day"]).catch_up()
    return path
