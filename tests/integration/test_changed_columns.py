"""Columns dropped, renamed, widened or replaced under each kind of definition; Spark judges the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tailbit
from support.drive import Drive
from support.replay import answer, run
from tailbit.api import IndexedTable
from tailbit.errors import UnknownColumnError
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table

KINDS: dict[str, dict[str, Any]] = {
    "plain": {"on": "n"},
    "expression": {"on": "n % 3"},
    "composite": {"on": ["s", "n"]},
    "statistics": {"on": ["n", "s"], "kind": "column_stats"},
    "statistics of an expression": {"on": "n * 2", "kind": "column_stats"},
    "partial": {"on": "n", "only": "p = 'x'"},
}
CREATE = (
    "create table {t} (n int, s string, p string) using delta partitioned by (p) tblproperties"
    " ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')"
)
CHANGES = {
    "dropped": ["alter table {t} drop column n"],
    "renamed": ["alter table {t} rename column n to m", "alter table {t} rename column p to region"],
    "widened": ["alter table {t} alter column n type bigint"],
    "in place of another": ["alter table {t} drop column n", "alter table {t} add column n int"],
}
QUESTIONS = (
    "{n} = 3",
    "{n} % 3 = 1",
    "s = 's1' AND {n} = 4",
    "{n} * 2 > 70",
    "{n} > 1000000",
    "{n} IS NULL",
    "{n} = 4 AND {p} = 'x'",
    "s = 's1'",
)


N, REST = "int(if(id % 11 = 0, null, id % 37))", "concat('s', id % 3), if(id % 2 = 0, 'x', 'y')"
ROWS_AFTER = {
    "dropped": REST,
    "renamed": f"{N}, {REST}",
    "widened": f"if(id % 11 = 0, null, id * 100000000), {REST}",
    "in place of another": f"{REST}, int(id % 5)",
}


WIDENED = "column n was of type integer, and is long now: ALTER INDEX ... REBUILD makes it anew"


def filled(first: int, columns: str) -> str:
    """Insert forty rows into the columns of a select list over `id`."""
    return f"insert into {{t}} select {columns} from range({first}, {first + 40}, 1, 1)"


@pytest.fixture(scope="module")
def spark(replayed_once: tuple[Any, Path]) -> Any:
    """A session for what is not recorded."""
    return replayed_once[0]


@pytest.fixture(scope="module")
def tables(replayed_once: tuple[Any, Path]) -> dict[str, str]:
    """A table a change, with an index a kind that was built before the change; rows came before and after."""
    spark, folder = replayed_once
    paths = {change: str(folder / change) for change in CHANGES}
    for change, path in paths.items():
        before = [CREATE, filled(0, f"{N}, {REST}")]
        after = [*CHANGES[change], filled(40, ROWS_AFTER[change])]
        run(spark, *(statement.format(t=f"delta.`{path}`") for statement in before))
        for kind, definition in KINDS.items():
            IndexedTable(open_table(path), index_of(path, kind)).create_index("i", **definition)
        run(spark, *(statement.format(t=f"delta.`{path}`") for statement in after))
    return paths


def index_of(path: str, kind: str) -> str:
    return f"{path} {kind}-index"


def judged(spark: Any, path: str, questions: list[str]) -> list[int]:
    """Spark's counts, in one job."""
    counts = ", ".join(f"count_if({question})" for question in questions)
    statement = f"select {counts} from delta.`{path}`"
    return list(answer(spark, statement, lambda: list(spark.sql(statement).first())))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_answers_over_a_changed_column_are_those_of_spark(
    spark: Any, tables: dict[str, str], kind: str, change: str
) -> None:
    path = tables[change]
    names = {"n": "m", "p": "region"} if change == "renamed" else {"n": "n", "p": "p"}
    questions = [question.format(**names) for question in QUESTIONS]
    table = tailbit.open(path, index=index_of(path, kind))
    if change == "dropped":
        with pytest.raises(UnknownColumnError):
            table.where("n = 3").count()
        questions = [question for question in questions if "n " not in question.replace("IN ", "")]
    expected = judged(spark, path, questions)

    def assert_right() -> None:
        assert [table.where(question).count() for question in questions] == expected
        assert table.verify(derive=10).problems == []

    assert [table.where(question).count() for question in questions] == expected
    account = table.where(questions[0]).explain()["not_used"]
    if change == "widened" and kind in ("expression", "composite", "statistics of an expression"):
        assert [other["reason"] for other in account] == [WIDENED]
    else:
        assert all("is gone" in other["reason"] for other in account)
    Drive(path, index_of(path, kind), None, StreamSettings()).drain()
    assert_right()
    if change == "dropped":
        with pytest.raises(UnknownColumnError):
            table.rebuild_index("i")
    else:
        assert table.rebuild_index("i").state == "complete"
    assert_right()
    served = {"plain": "{n} = 3", "expression": "{n} % 3 = 1", "composite": "s = 's1' AND {n} = 4"}.get(kind)
    if served is not None and change != "dropped":
        assert table.where(served.format(**names)).files_scanned == 0
