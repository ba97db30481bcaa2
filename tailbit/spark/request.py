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
        *("keeps-all", "no-gain", "many-rows", "many-bytes", "many-groups", "not-exact", "not-covered"),
        *("not-understood", "nothing-understood", "floating-point", "time-zone", "late", "malformed"),
    )
)
"""Reasons that lie in the request itself: after these, the open table is kept."""


class Declined(Exception):
    """A request that is not answered: a reason that does not change between releases, and a detail.

    `instead`: what the reply holds in place of what was asked.
    """

    def __init__(self, reason: str, detail: str = "", instead: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail, self.instead = reason, detail, instead

    def fields(self) -> dict[str, Any]:
        """Return the fields of the reply."""
        fields = {"declined": self.reason, "detail": self.detail}
        return fields if self.instead is None else {**fields, "instead": self.instead}


@dataclass(frozen=True)
class Request:
    """A request whose fields have their types.

    `cores`: of the session. `files`: those that Delta has listed for the scan; 0 before it has. `share`: the
    most of Spark's own time that rows may take; above 1, costs do not matter to files either.
    `or_files`: where rows are declined, the reply names the files.
    """

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
    cores: int = 1
    files: int = 0
    share: float = 0.7
    or_files: bool = False

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
        numbers |= {"cores": given.get("cores", 1), "files": given.get("files", 0)}
        wrong += [name for name, value in numbers.items() if type(value) is not int or value < 0]
        share, or_files = given.get("share", 0.7), given.get("or_files", False)
        wrong += [] if type(share) in (int, float) and share >= 0 else ["share"]
        wrong += [] if type(or_files) is bool else ["or_files"]
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
        fields: dict[str, Any] = {**texts, **numbers, **given_lists, "measures": pairs, "options": options}
        return cls(**fields, share=share, or_files=or_files)


def _is_of_texts(value: object, type_: type[list[Any]]) -> bool:
    return isinstance(value, type_) and all(isinstance(item, str) for item in value)
