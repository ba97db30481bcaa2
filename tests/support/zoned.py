"""Times around the clock changes of a named zone, and random predicates over them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

from tailbit.tables.zone_rules import ZoneRules, zone_rules

SECOND, DAY = 1_000_000, 86_400_000_000
COLUMNS = {"ts": pa.timestamp("us", "UTC"), "ntz": pa.timestamp("us"), "day": pa.date32()}
SIGNS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
FAR = (-(10**17), -(10**15), 10**15, 3 * 10**15, 10**17)
"""Microseconds since 1970: some 3,000 and 30 years before it, and 30 to 3,000 years after it."""
_CASTS = (
    "CAST(ntz AS TIMESTAMP)",
    "TRY_CAST(ntz AS TIMESTAMP)",
    "CAST(ts AS DATE)",
    "CAST(day AS TIMESTAMP)",
    "ts + INTERVAL 1 DAY",
    "ts - INTERVAL 1 MONTH",
    "ts - INTERVAL 1 DAY 90 MINUTES",
    "ts + INTERVAL 3 HOURS",
    "ntz - INTERVAL 1 DAY",
    "day + INTERVAL 26 HOURS",
    "dateadd(HOUR, 30, ts)",
    "timestampadd(MINUTE, -2881, day)",
    "dateadd(DAY, 1, ts)",
    "date_trunc('HOUR', ts)",
    "date_trunc('DAY', ts)",
    "date_trunc('WEEK', ntz)",
    "date_trunc('MONTH', day)",
)
_DIFFERENCES = (
    "ts - {0} {s} INTERVAL 1 DAY",
    "ntz - {0} {s} INTERVAL 2 HOURS",
    "day - ts {s} INTERVAL -1 HOUR",
    "INTERVAL 0 DAYS {s} ts - ntz",
)
_SHAPES = (
    "{c} BETWEEN {0} AND {1}",
    "{c} NOT IN ({0}, {1})",
    "{c} IN ({0})",
    "{c} IN ({0}, {0})",
    "{c} IN ({0}, NULL)",
)
YEARS = range(1, 10_000)
"""What a text in quotes can name with four digits."""


def edges(rules: ZoneRules) -> list[int]:
    """Microseconds around every change of a zone, before and after it, by clock and by instant."""
    changes = [*rules.changes, *(y.in_year(year) for y in rules.yearly for year in (2040, 2099, 2400, 9999))]
    seams = {
        SECOND * (change.instant + ahead)
        for change in changes
        for ahead in (0, change.before, change.after, (change.before + change.after) // 2)
    }
    return sorted({seam + part for seam in seams for part in (-1, 0)} | set(FAR))


def zoned_rows(rng: random.Random, zone: str, count: int) -> pa.Table:
    """Rows whose `ts`, `ntz` and `day` lie near the changes of a zone; NULL is among them."""
    columns = {}
    for name, type_ in COLUMNS.items():
        micros = [rng.choice(_readable(zone)) for _ in range(count - 1)]
        whole = [m // DAY for m in micros] if name == "day" else micros
        columns[name] = pa.array([*whole, None], pa.int32() if name == "day" else pa.int64()).cast(type_)
    return pa.table(columns)


def zoned_predicates(rng: random.Random, zone: str, others: Sequence[str], count: int) -> list[str]:
    """Comparisons of times with constants of every kind, some in a zone of their own (one of `others`)."""
    return [_predicate(rng, zone, others) for _ in range(count)]


def _predicate(rng: random.Random, zone: str, others: Sequence[str]) -> str:
    column: str = rng.choice((*COLUMNS, *_CASTS))
    # What is computed is computed before BETWEEN is asked of it, except in a WHERE.
    shapes = _SHAPES if column in COLUMNS else _SHAPES[1:]
    shape: str = rng.choice((*shapes, "{c} {s} {0}", "{0} {s} {c}", rng.choice(_DIFFERENCES)))
    constants = [_constant(rng, rng.choice(_readable(zone)), others) for _ in range(2)]
    return shape.format(*constants, c=column, s=rng.choice(SIGNS))


def _constant(rng: random.Random, micros: int, others: Sequence[str]) -> str:
    day, part = divmod(micros, DAY)
    date = str(pa.scalar(day, pa.int32()).cast(pa.date32()))
    second, fraction = divmod(part, SECOND)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{fraction:06}"
    local = f"{date} {clock}"
    zoned = f"{local} {rng.choice(others)}"
    return rng.choice(
        (
            f"DATE'{date}'",
            f"TIMESTAMP'{local}'",
            f"TIMESTAMP'{date}'",
            f"TIMESTAMP'{zoned}'",
            f"TIMESTAMP_NTZ'{local}'",
            f"CAST(DATE'{date}' AS TIMESTAMP)",
            f"CAST(TIMESTAMP_NTZ'{local}' AS TIMESTAMP)",
            f"CAST(TIMESTAMP'{zoned}' AS TIMESTAMP_NTZ)",
            f"CAST(TIMESTAMP'{zoned}' AS DATE)",
            f"CAST('{zoned}' AS TIMESTAMP)",
        )
    )


def _readable(zone: str) -> list[int]:
    """Edges that four digits of a year and Arrow's dates can name."""
    return [m for m in edges(zone_rules(zone)) if -(6 * 10**16) < m < 25 * 10**16]
