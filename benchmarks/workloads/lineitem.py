"""TPC-H lineitem as a Delta table of eight files: the input of the benchmarks.

Its scale factor is 1, or what TAILBIT_BENCH_SCALE says: a tenth will do to see that a benchmark runs.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import deltalake

FILES = 8
COLUMNS = ("l_returnflag", "l_shipmode", "l_shipdate", "l_suppkey")


def folder() -> pathlib.Path:
    """Where the benchmarks keep their data: TAILBIT_BENCH, else a folder in the temporary folder."""
    return pathlib.Path(os.environ.get("TAILBIT_BENCH", os.path.join(tempfile.gettempdir(), "tailbit-bench")))


def scale() -> str:
    """The scale factor, as it is written: 6 M rows a unit."""
    return os.environ.get("TAILBIT_BENCH_SCALE", "1")


def lineitem() -> pathlib.Path:
    """The table's path; made on first use."""
    table = folder() / f"lineitem-{scale()}"
    if not (table / "_delta_log").exists():
        shutil.rmtree(table, ignore_errors=True)
        made = folder() / f"making-{scale()}"
        shutil.rmtree(made, ignore_errors=True)
        cli = pathlib.Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run(
            [
                cli,
                "parquet",
                "-s",
                scale(),
                "--tables",
                "lineitem",
                "--parts",
                str(FILES),
                "--output-dir",
                made,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (made / "lineitem").rename(table)
        shutil.rmtree(made)
        deltalake.convert_to_deltalake(str(table))
    return table


def without_index(table: pathlib.Path) -> pathlib.Path:
    """The table with any index removed."""
    shutil.rmtree(table / "_tailbit", ignore_errors=True)
    return table
