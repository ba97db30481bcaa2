"""Spark's own queries of random tables as a command: `python -m support.plain_sql --conditions 10000`.

Run in the folder tests. A process with a Spark of its own asks each field of tables, a new one every `TURN`
fields. Ctrl-C stops after the field that is being asked, and still says what was found. Exit status 1 where
anything was, or where a mode was never served.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import shutil
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from support.fuzzer.turns import gather, tallies
from support.marks import write_row
from support.plain_sql.rounds import EACH, MODES, ROUNDS, TABLES, Field, Tally
from support.spark_session import start_spark
from tailbit.spark import accelerate, jar

MARKS = "<!-- plain SQL fuzzer: begin -->", "<!-- plain SQL fuzzer: end -->"
"""Where the last whole run stands."""

TURN = 10
"""Fields of one Spark: what it keeps of each query fills its heap in time."""

PATIENT = 60_000
"""Milliseconds that a query waits: what is judged is the answer, on a machine at work."""


def main() -> int:
    """Ask as the command line says."""
    asked = _arguments()
    fields = -(-asked.conditions // (TABLES * EACH * ROUNDS))
    seeds = range(1_000_000 * asked.seed, 1_000_000 * asked.seed + fields)
    if asked.field is not None:
        seeds = range(asked.field, asked.field + 1)
    began, total = time.monotonic(), Tally()
    whole = gather(tallies(_field, seeds, TURN), total, _so_far)
    minutes = (time.monotonic() - began) / 60
    print(f"\n{_told(total)}, {minutes:.1f} minutes{'' if whole else ' (stopped early)'}", file=sys.stderr)
    for mode in (idle := never_served(total)):
        print(f"never served: {mode}", file=sys.stderr)
    if whole and asked.record is not None and asked.field is None:
        record(asked.record, asked.seed, total, minutes)
    return 1 if total.findings or idle else 0


def never_served(total: Tally) -> list[str]:
    """Return the modes that were asked and have served no scan, of which nothing is proven."""
    return [str(mode) for mode in MODES if not total.served[str(mode)]]


def _so_far(total: Tally) -> str:
    return f"{total.conditions} conditions, {len(total.findings)} mismatches"


def _told(total: Tally) -> str:
    served = "; ".join(f"{mode}: {total.served[mode]:,}" for mode in sorted(total.served))
    return (
        f"{total.conditions:,} conditions, {total.lagging:,} with a lagging index, {total.answers:,} answers,"
        f" {len(total.findings)} mismatches, {total.refused} raise without the index too; served: {served}"
    )


def record(page: Path, seed: int, total: Tally, minutes: float) -> None:
    """Put the result of a whole run between the marks of a page."""
    day = datetime.datetime.now(datetime.timezone.utc).date()
    cells: dict[str, object] = {"date": day, "seed": seed, "conditions": f"{total.conditions:,}"}
    cells |= {"with lag": f"{total.lagging:,}", "answers": f"{total.answers:,}"}
    cells |= {f"served: {mode}": f"{total.served[str(mode)]:,}" for mode in MODES}
    write_row(page, *MARKS, cells | {"mismatches": len(total.findings), "minutes": f"{minutes:.0f}"})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.plain_sql", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--conditions", type=int, default=10_000)
    parser.add_argument("--field", type=int, help="ask the field of this seed alone, as a finding names it")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a whole run there")
    return parser.parse_args()


@cache
def _acceleration(folder: str) -> Any:
    jar.build()
    spark = start_spark(Path(folder), lives_long=True)
    # Conditions that raise are left out, with what Spark says of them.
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return accelerate(spark, budget_ms=PATIENT)


def _tell(seed: int, tally: Tally) -> None:
    print(f"\rfield {seed}: {_so_far(tally)}", end="", file=sys.stderr, flush=True)


def _field(folder: str, seed: int) -> Tally:
    place = tempfile.mkdtemp(dir=folder)
    try:
        return Field(_acceleration(folder), place, seed).go(tell=lambda tally: _tell(seed, tally))
    finally:
        shutil.rmtree(place)
