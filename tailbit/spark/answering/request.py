"""A request to the helper of Spark's driver, whose fields have their types, and how one is declined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailbit.base.dataclass import dataclass

MOST_GROUPS = 10_000
"""Most groups of an answer, unless the request says otherwise: the driver holds them in the plan."""

MEASURES = ("min", "max", "distinct", "count")
"""What may be told of a column beside the number of rows: COUNT(DISTINCT column) and COUNT(column) too."""


OF_CONDITIONS = frozenset(
    (
        *("keeps-all", "many-rows", "many-pages", "many-bytes", "many-groups", "not-exact", "not-covered"),
        *("not-understood", "nothing-understood", "floating-point", "time-zone", "late", "malformed"),
    )
)
"""Reasons that lie in the request itself: after these, the open table is kept."""


class Declined(Exception):
    """A request that is not answered: a reason that does not change between releases, and a detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Request:
    """A request whose fields have their types."""

    want: str
    root: str
    table: str
    version: int
    where: tuple[str, ...]
    by: tuple[str, ...]
    options: Mapping[str, str]
    most: int = MOST_GROUPS
    columns: tuple[str, ...] = ()
    measures: tuple[tuple[str, str], ...] = ()
    budget_ms: int = 60_000

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Request:
        """Return the request of the fields of a line.

        Raises:
            Declined: a field is missing or is not of its type.
        """
        texts: dict[str, Any] = {name: given.get(name) for name in ("want", "root", "table")}
        wrong = [name for name, value in texts.items() if not isinstance(value, str) or not value]
        numbers: dict[str, Any] = {"version": given.get("version")}
        numbers |= {"most": given.get("most", MOST_GROUPS), "budget_ms": given.get("budget_ms", 60_000)}
        wrong += [name for name, value in numbers.items() if type(value) is not int or value < 0]
        lists: dict[str, Any] = {name: given.get(name) or [] for name in ("where", "by", "columns")}
        wrong += [name for name, value in lists.items() if not _is_of_texts(value, list)]
        measures = given.get("measures") or []
        if not isinstance(measures, list) or not all(_is_of_texts(pair, list) for pair in measures):
            wrong.append("measures")
        elif not all(len(pair) == 2 and pair[0] in MEASURES for pair in measures):
            wrong.append("measures")
        options = given.get("options") or {}
        if not isinstance(options, dict) or not _is_of_texts([*options.values()], list):
            wrong.append("options")
        if wrong:
            raise Declined("malformed", f"{', '.join(wrong)}: missing, or not of its type")
        given_lists: dict[str, Any] = {name: (*value,) for name, value in lists.items()}
        pairs = tuple((function, column) for function, column in measures)
        return cls(**texts, **numbers, **given_lists, measures=pairs, options=options)


def _is_of_texts(value: object, type_: type[list[Any]]) -> bool:
    return isinstance(value, type_) and all(isinstance(item, str) for item in value)
