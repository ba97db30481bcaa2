"""What a first question in a fresh process imports: what it uses, and little else."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import index_of

OWN_MODULES = 150
"""Most modules of tailbit that a first count may import; each costs some 0.3 ms of CPU."""

NEVER = {
    *("pandas", "numpy.ma", "sqlglot", "deltalake", "obstore", "pyspark", "polars"),
    *("pyarrow.compute", "pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset", "zoneinfo"),
    # What reads and builds expressions that are not a column beside a constant, and what evaluates them.
    *(f"tailbit.index.{room}" for room in ("expression.evaluate", "expression.calls", "expression.times")),
    *(f"tailbit.index.functions.{name}" for name in ("table", "vectors", "casting", "dates", "texts")),
    *("tailbit.index.evaluation.computed", "tailbit.index.predicate.truth"),
    # What writes an index, and what only large questions need.
    "tailbit.index.postings.written",
    *(f"tailbit.index.roaring.{name}" for name in ("collected", "decode", "bitmaps")),
    *("tailbit.index.postings.codes", "tailbit.tables.delta.checkpoint"),
    *(
        "tailbit.index.postings.postings",
        "tailbit.index.postings.postings",
        "tailbit.tables.storage.scratch",
    ),
    "tailbit.index.roaring.spilled",
    # What other stores, other columns and other questions need.
    *("tailbit.tables.storage.locations", "tailbit.tables.storage.refusals", "tailbit.upkeep.description"),
    *("tailbit.tables.partition_values", "tailbit.index.expression.indexed_term"),
    *(f"tailbit.index.{room}" for room in ("grouping", "write", "maintenance", "query.scan")),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of 3,000 rows, whose columns k and v are indexed; not to be changed."""
    path = str(tmp_path_factory.mktemp("first") / "t")
    rows = pa.table(
        {"k": pa.array(range(3000), pa.int64()), "v": [f"v{n % 7}" for n in range(3000)], "f": range(3000)}
    )
    write_deltalake(path, rows)
    index_of(path, ["k", "v"])
    return path


def imported(program: str) -> tuple[str, set[str]]:
    """What a process prints, and which modules it has imported at its end."""
    ending = "; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program + ending], capture_output=True, text=True, check=True
    )
    answer, modules = done.stdout.splitlines()
    return answer, set(json.loads(modules))


QUESTIONS = [
    ("v = 'v1'", "429"),
    ("v IN ('v1', 'v2')", "858"),
    ("v = 'v1' AND k = 8", "1"),
    ("v = 'v1' OR k = 7", "430"),
    ("NOT (v = 'v1')", "2571"),
]


@pytest.mark.parametrize(("where", "answer"), QUESTIONS, ids=[where for where, _ in QUESTIONS])
def test_a_first_count_imports_few_modules_and_none_that_it_does_not_use(
    table: str, where: str, answer: str
) -> None:
    printed, modules = imported(f"import tailbit; print(tailbit.open({table!r}).where({where!r}).count())")
    assert printed == answer
    assert sorted(NEVER & modules) == []
    assert len([name for name in modules if name.partition(".")[0] == "tailbit"]) <= OWN_MODULES


ASKED_BY_SPARK = (
    {"want": "known"},
    {"want": "files", "where": ["k = 8"]},
    {"want": "rows", "where": ["k = 8"], "columns": ["k", "v"]},
    {"want": "count", "where": ["v = 'v1'"]},
    {"want": "groups", "where": ["k < 50"], "by": ["v"], "measures": [["min", "v"]]},
    {"want": "groups", "where": ["k < 50"], "measures": [["max", "v"], ["distinct", "v"], ["count", "v"]]},
)


def test_no_answer_to_spark_imports_pandas_which_takes_longer_than_a_query_waits(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for first in (0, 400):
        rows = {"k": pa.array(range(first, first + 400), pa.int64()), "v": [f"v{n % 7}" for n in range(400)]}
        write_deltalake(path, pa.table(rows), mode="append")
    index_of(path, ["k", "v"])
    table = DeltaTable(path)
    table.create_checkpoint()
    given = {"root": path, "table": str(table.metadata().id), "version": 1}
    program = (
        "import json, time; from tailbit.spark.helper import Helper; helper = Helper(); replies = "
        f"[helper.reply(json.dumps({{**{given}, **asked}}).encode(), time.monotonic())[0] "
        f"for asked in {ASKED_BY_SPARK}]; print([reply.get('declined') for reply in replies])"
    )
    printed, modules = imported(program)
    assert printed == str([None] * len(ASKED_BY_SPARK))
    assert "tailbit.tables.delta.checkpoint" in modules
    assert "pandas" not in modules


def test_a_function_imports_its_own_kernels_alone(table: str) -> None:
    where = "upper(v) = 'V1'"
    printed, modules = imported(f"import tailbit; print(tailbit.open({table!r}).where({where!r}).count())")
    assert printed == "429"
    assert "tailbit.index.functions.texts" in modules
    others = ("nested", "digests")
    assert sorted({f"tailbit.index.functions.{name}" for name in others} & modules) == []


SCANNED = [("f < 100", "100"), ("f = 7", "1"), ("f = 7 OR v = 'v1'", "430")]


@pytest.mark.parametrize(("where", "answer"), SCANNED, ids=[where for where, _ in SCANNED])
def test_a_first_scan_imports_no_functions_and_no_executor(table: str, where: str, answer: str) -> None:
    printed, modules = imported(f"import tailbit; print(tailbit.open({table!r}).where({where!r}).count())")
    assert printed == answer
    others = {f"tailbit.index.functions.{name}" for name in ("casting", "dates", "patterns", "vectors")}
    assert sorted({*others, "logging", "concurrent.futures", "polars"} & modules) == []


@pytest.mark.parametrize(
    ("where", "column", "answer"), [("k < 100", "v", "7"), ("k < 100", "f", "100"), ("v = 'v1'", "k", "429")]
)
def test_first_facets_import_no_measures_and_no_large_library(
    table: str, where: str, column: str, answer: str
) -> None:
    question = f"tailbit.open({table!r}).where({where!r}).facets({column!r})"
    printed, modules = imported(f"import tailbit; print(len({question}))")
    assert printed == answer
    others = {
        "tailbit.index.grouping.measures",
        "tailbit.index.predicate.truth",
        "logging",
        "polars",
        "pyarrow.compute",
    }
    assert sorted(others & modules) == []
    reads_data = "tailbit.tables.parquet.column_codes" in modules
    assert reads_data is (column == "f")


ROWS = 20_000
OF_FUNCTIONS = [
    *("substring(n, 1, 2) = 's1'", "substring_index(n, '1', 1) = 's'", "regexp_extract(n, 's(.)', 1) = '3'"),
    *(
        "upper(u) = 'U1'",
        "lpad(i, 3, '0') = '007'",
        "concat_ws('-', n, u) = 's1-u1'",
        "coalesce(n, u) = 'u1'",
    ),
    *("CASE WHEN i < 3 THEN n ELSE u END = 's1'", "n IS NULL AND x < 3", "greatest(i, k) = 3", "n <=> u"),
    *(
        "round(x, 1) = 1.1",
        "abs(i) = 3",
        "m + 1 > 3.3",
        "CAST(i AS STRING) = '3'",
        "CAST(u AS BINARY) = X'75'",
    ),
    *("hour(t) = 3", "date_trunc('month', t) < TIMESTAMP'2020-02-01'", "date_format(t, 'yyyy') = '2020'"),
    *(
        "CAST(t AS DATE) = d",
        "d + INTERVAL 1 DAY > DATE'2021-01-01'",
        "dayname(d) = 'Mon'",
        "last_day(d) = d",
    ),
    *(
        "array_contains(a, 'e1')",
        "size(a) = 2",
        "a[0] = 'e1'",
        "exists(a, v -> v = 'e1')",
        "array_max(a) = 'e1'",
    ),
    *("q['k'] = 3", "g.c = 'c1'"),
]
OF_EVERY_TYPE = [
    *[f"where('{where}').facets('{column}')" for where in ("i < 300", "x < 3") for column in "isdtxmbup"],
    "where(\"d > DATE'2021-01-01' AND t > TIMESTAMP'2020-02-01' AND m > 1.5\").count()",
    "where(\"b OR u = 'u7' OR s IS NULL\").count()",
    "where(\"x > 3.5 AND s = 's1'\").count()",
    "where(\"p = 'p1' AND i IN (1, 2)\").count()",
    "where(\"s LIKE 's1%' OR u LIKE '%77' OR upper(s) = 'S1'\").count()",
    "where('i < 300').read(['i', 's', 'u'])",
    "where('i < 300').top('s', 3)",
    "where('i < 300').count_distinct('u')",
    "where('i < 300').sum('x')",
    "where('i < 300').min('d')",
    "where('i < 300').histogram('x', 5)",
    *[f'where("{where}").count()' for where in OF_FUNCTIONS],
    "where('i < 300').read()",
    "where('i < 300').read(['i', 's'], order_by=['x', 't'], limit=5)",
    "where('i < 300').facets('s', 'b', min='t', sum='m', avg='x')",
    "where('i < 300').facets(\"date_trunc('month', t)\")",
    "where('i < 300').facet_table('t')",
    "where('i < 300').date_histogram('t', 'week', 'Europe/Paris')",
    "where('i < 300').summary('m')",
    "where('i < 300').explain()",
    "where('i < 300')._repr_html_()",
    "where(\"k = 7 OR w = 'w8'\").count()",
    "locate([5, 99], on='k')",
    "locate([(5, 's5')], on=['i', 's'])",
    "transitions('t', 0, 1)",
    "transitions('p', 0, 1)",
]
"""Questions about columns of every type, indexed or not."""


@pytest.mark.parametrize("checkpoint", [False, True])
def test_questions_about_columns_of_every_type_import_no_pandas_and_no_pyarrow_compute(
    tmp_path: Path, checkpoint: bool
) -> None:
    number, path = np.arange(ROWS), str(tmp_path / "t")
    rows = {
        "i": pa.array(number % 1000, pa.int32()),
        "s": [f"s{n % 50}" if n % 9 else None for n in range(ROWS)],
        "d": pa.array(18_262 + number % 800, pa.int32()).cast(pa.date32()),
        "t": pa.array(number % 3000 * 3_600_000_000 + 1_577_836_800_000_000).cast(pa.timestamp("us", "UTC")),
        "x": number % 77 / 7,
        "m": pa.array([Decimal(n % 500) / 100 for n in range(ROWS)], pa.decimal128(12, 2)),
        "b": number % 3 == 0,
        "u": [f"u{n}" for n in range(ROWS)],
        "p": [f"p{n % 2}" for n in range(ROWS)],
        "k": number,
        "w": [f"w{n}" for n in range(ROWS)],
        "n": [f"s{n % 50}" if n % 9 else None for n in range(ROWS)],
        "a": [[f"e{n % 10}", None] if n % 3 else None for n in range(ROWS)],
        "g": [{"c": f"c{n % 10}"} if n % 3 else None for n in range(ROWS)],
        "q": pa.array(
            [[("k", n % 10)] if n % 3 else None for n in range(ROWS)], pa.map_(pa.string(), pa.int32())
        ),
    }
    for _ in range(2):
        write_deltalake(path, pa.table(rows), partition_by=["p"], mode="append")
    if checkpoint:
        DeltaTable(path).create_checkpoint()
    index_of(path, ["i", "s", "d"])
    given = tailbit.open(path)
    given.create_index("two", ["s", "b"])
    given.create_index("keys", "k", kind="record_key")
    given.create_index("filters", "w", kind="bloom_filter")
    given.create_index("bounds", ["x"], kind="column_stats")
    asked = "; ".join(f"table.{question}" for question in OF_EVERY_TYPE)
    _, modules = imported(f"import tailbit; table = tailbit.open({path!r}); {asked}; print()")
    assert sorted({"pandas", "pyarrow.compute"} & modules) == []


def test_the_collector_examines_nothing_of_what_a_first_question_imports(table: str) -> None:
    program = (
        "import gc, time, tailbit; spent, began = [], []; "
        "note = lambda phase, _: (began if phase == 'start' else spent).append(time.thread_time()); "
        f"gc.callbacks.append(note); print(tailbit.open({table!r}).where('f < 100').count()); "
        "assert gc.isenabled() and gc.get_freeze_count() == 0; "
        "print(sum(end - start for start, end in zip(began, spent)) < 0.01)"
    )
    printed, _ = imported(program.replace("print(tailbit", "_ = (tailbit"))
    assert printed == "True"


def test_every_module_that_a_first_count_may_not_import_exists() -> None:
    """A name that is misspelt, or of a module that was renamed, would forbid nothing."""
    root = Path(__file__).parents[2]
    own = [name.split(".")[1:] for name in NEVER if name.startswith("tailbit.")]
    places = [(root.joinpath(*parts), root.joinpath("tailbit", *parts)) for parts in own]
    known = [any(at.is_dir() or at.with_suffix(".py").is_file() for at in both) for both in places]
    assert [name for name, exists in zip(own, known, strict=True) if not exists] == []


def test_the_first_use_of_the_front_door_leaves_the_process_as_it_was() -> None:
    program = (
        "import gc, os, sys, tailbit; before = dict(os.environ); tailbit.open; "
        "print('numpy' in sys.modules and gc.isenabled() and dict(os.environ) == before)"
    )
    assert imported(program)[0] == "True"


def test_numpys_threads_sleep_soon_unless_the_environment_says_how_soon() -> None:
    program = (
        "import os, tailbit.base.lazy as lazy; seen = []; "
        "lazy.import_module = lambda name: seen.append(os.environ.get(lazy._SPINNING)); "
        "lazy.quickly_imported('m'); os.environ[lazy._SPINNING] = '20'; lazy.quickly_imported('m'); "
        "print(*seen, os.environ[lazy._SPINNING])"
    )
    assert imported(program)[0] == "16 20 20"
