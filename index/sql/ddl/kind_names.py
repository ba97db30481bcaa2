"""The kinds of an index, their options, and the names by which Hudi and Hive call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tailbit.base.wording import did_you_mean


class KindRules(NamedTuple):
    """Limits of a statement about a kind: the greatest number of terms, and the options with their values."""

    most_terms: int | None
    options: Mapping[str, tuple[str, ...]]


KINDS = {
    "bitmap": KindRules(4, {"counts": ("auto", "on", "off")}),
    "record_key": KindRules(4, {"keys": ("values", "hash")}),
    "bloom_filter": KindRules(4, {}),
    "column_stats": KindRules(None, {}),
}
"""The kinds that an index can be made of, by name."""
DEFAULT = "bitmap"
"""The kind where a statement names none: Hudi makes a secondary index then."""

_HIVE = "org.apache.hadoop.hive.ql.index."
_NAMES = {
    **{kind: kind for kind in KINDS},
    **dict.fromkeys(("record_index", "record_level_index"), "record_key"),
    **dict.fromkeys(("bloom_filters", "bloomfilter"), "bloom_filter"),
    **dict.fromkeys(("secondary_index", "expression_index", "expr_index", "functional_index"), "bitmap"),
    **dict.fromkeys(("compact", f"{_HIVE}bitmap.bitmapindexhandler"), "bitmap"),
    f"{_HIVE}compact.compactindexhandler": "bitmap",
}
"""Kind by each name in lower case. Hive's compact index holds blocks of a value, a bitmap holds rows."""
_OF_A_WRITER = "It is how a Hudi writer finds rows to update; a question is served by USING bitmap (...)."
_REFUSED = {
    "partition_stats": (
        "partition_stats is no index of its own: it is derived from column_stats",
        "Write USING column_stats (...).",
    ),
    "files": ("the list of files is part of every index", "Leave the statement out."),
    **dict.fromkeys(
        ("aggregate", f"{_HIVE}aggregateindexhandler"),
        ("the counts by value are part of an index of kind bitmap", "Write USING bitmap (...)."),
    ),
    **{
        name: (f"{name} is no index of a table", _OF_A_WRITER)
        for name in ("simple", "global_simple", "bloom", "global_bloom", "bucket", "hbase", "inmemory")
    },
    "flink_state": ("flink_state is no index of a table", _OF_A_WRITER),
}
"""Why a kind of Hudi or Hive is not made, and what serves instead, by its name in lower case."""


class WrongKind(ValueError):
    """A kind or an option that is not made here; carries what to write instead."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def kind_named(name: str) -> str:
    """Return the kind of index that has a name, in any case.

    Raises:
        WrongKind: there is no such kind, or it is not made here; the error says what serves instead.

    >>> kind_named("BITMAP"), kind_named("Column_Stats"), kind_named("secondary_index")
    ('bitmap', 'column_stats', 'bitmap')
    """
    lower = name.lower()
    if lower in _NAMES:
        return _NAMES[lower]
    if lower in _REFUSED:
        raise WrongKind(*_REFUSED[lower])
    meant = did_you_mean(name, (*_NAMES, *_REFUSED))
    raise WrongKind(f"there is no kind of index {name}", f"Kinds: {', '.join(KINDS)}.{meant}")


def check_option(kind: str, key: str, value: str) -> None:
    """Raise unless a kind takes an option with a value, in any case.

    Raises:
        WrongKind: the kind takes no such option or value; the error lists those that it takes.
    """
    options = KINDS[kind].options
    if key not in options:
        listed = f"Options of {kind}: {', '.join(options)}." if options else f"{kind} takes none."
        meant = did_you_mean(key, options)
        applied = " OPTIONS (expr = 'lower') applies a function to a column."
        raise WrongKind(f"{kind} takes no option {key}", f"{listed}{meant}{applied}")
    if value.lower() not in options[key]:
        raise WrongKind(f"{key} is not {value!r}", f"Values of {key}: {', '.join(options[key])}.")
