"""Every benchmark that `make bench` runs, and what its figures are held to.

A target names a figure of the lines that a script prints, and what it is to be at most or at least: a number,
or the name of another figure of the same line. `quick` is the bound of the quick mode, which runs on a small
table for a moment on any machine: so far off that noise does not explain a miss. A target without it is not
judged there, and a script without `quick` arguments is not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """What one figure is held to, in the lines that say `of`."""

    figure: str
    most: float | str | None = None
    least: float | str | None = None
    of: Mapping[str, object] = field(default_factory=dict)
    quick: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """A script, its arguments and its targets.

    `cases`: the figures that name a line. `quick`: the arguments of the quick mode; None where it has none.
    """

    script: str
    title: str
    cases: tuple[str, ...]
    targets: tuple[Target, ...]
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = None


BENCHMARKS = (
    Benchmark(
        "count",
        "Warm counts, and `tailbit count` as a process",
        ("question",),
        (
            Target("quicker peer / tailbit", least=10, of={"keys": 50}, quick=0.3),
            Target("lance / tailbit", least=1, quick=0.1),
            Target("tailbit ms", most=1, of={"keys": 50}),
            Target("tailbit ms", most=5, of={"keys": 400}),
            Target("tailbit s", most=0.6, of={"question": "cold process"}),
        ),
        quick=("--no-spark",),
    ),
    Benchmark(
        "first",
        "First questions, in fresh processes",
        ("question", "scale"),
        tuple(
            Target(f"{ours} / quicker, {clock}", most="at most", quick=20)
            for ours in ("python", "command line")
            for clock in ("cpu", "wall")
        ),
        quick=("--repeats", "1"),
    ),
    Benchmark(
        "rows",
        "Rows read, warm",
        ("rows of", "selectivity", "columns"),
        (Target("tailbit / quicker", most="at most", quick=10),),
        quick=("--repeats", "3", "--no-spark"),
    ),
    Benchmark(
        "facets",
        "Facets, cold and warm",
        ("facets", "where"),
        (
            Target("quicker / warm, wall", least="warm at least", quick=0.2),
            Target("quicker / cold, wall", least=1),
        ),
        quick=("--repeats", "3", "--no-spark"),
    ),
    Benchmark(
        "many_keys",
        "Tens of thousands of keys, 60 M rows, warm",
        ("question",),
        (Target("tailbit / quicker", most="at most", quick=10),),
        quick=("--repeats", "1"),
    ),
    Benchmark(
        "elements",
        "Counts by the elements of arrays, warm, and the build of their index",
        ("question",),
        (
            Target("quicker peer / tailbit", least=10, quick=0.3),
            Target("M elements / s", least=3, quick=0.1),
        ),
        quick=("--rows", "80000", "--repeats", "2"),
    ),
    Benchmark(
        "definitions",
        "Indexes of expressions beside those of stored columns",
        ("question",),
        (Target("expression / stored", most=1.2, quick=20),),
        quick=("--rows", "80000", "--repeats", "2"),
    ),
    Benchmark(
        "definition_cost",
        "What a commit costs under twenty definitions, beside one",
        ("question",),
        (Target("twenty / one", most=3, quick=9),),
        quick=("--no-spark", "--commits", "5"),
    ),
    Benchmark(
        "tuples",
        "An index of two columns together, beside one of a stored column of the same values",
        ("question",),
        (Target("tuples / stored, cpu", most=1.2, quick=10),),
        quick=("--rows", "80000", "--repeats", "2"),
    ),
    Benchmark(
        "unindexed",
        "Counts, rows and groups by columns without an index, warm",
        ("question",),
        (Target("tailbit / quicker", most=1.1, quick=60),),
        quick=("--repeats", "3"),
    ),
    Benchmark(
        "functions",
        "Functions over many distinct keys",
        ("question",),
        (Target("second / first", most=0.5, quick=3),),
        quick=("--rows", "50000"),
    ),
    Benchmark(
        "encodings",
        "Bytes of the index, and questions of one, 400 and 59,000 keys",
        ("distinct", "clustered"),
        (
            Target("index / entropy", most=1.3, of={"clustered": False}, quick=4),
            Target("index / apart", most=1.2, of={"clustered": False}, quick=4),
            Target("index / parquet", most=1, of={"clustered": False}, quick=3),
        ),
        quick=("300000", "3", "2526"),
    ),
    Benchmark(
        "build_kernel",
        "Building postings beside decoding the columns",
        ("column",),
        (Target("ratio", most=2, of={"column": "all four"}, quick=10),),
        quick=(),
    ),
    Benchmark(
        "merge",
        "Merging beside building what is merged",
        ("distinct",),
        (Target("merge / build", most=1, quick=4),),
        quick=("50000", "3", "2526"),
    ),
    Benchmark(
        "idle_tables",
        "Many idle tables in one application",
        ("tables",),
        (
            Target("% of a core", most=10),
            Target("PSS MB", most=2000),
            Target("requests a day and table", most=11_000),
        ),
    ),
    Benchmark(
        "cold_store",
        "First questions over an object store that answers after 0.2 s",
        ("table", "index", "question"),
        (Target("s", most=3, of={"index": "of v"}, quick=30),),
        quick=("--commits", "10", "--delay", "0.02"),
    ),
    Benchmark("many_live", "Many tables with commits, and one that fails", ("tables",), ()),
    Benchmark("capacity", "What an index costs to build and to keep, in CPU time", ("rows",), ()),
    Benchmark("five_columns", "What a first build of five columns costs, in CPU time", ("rows",), ()),
    Benchmark(
        "executors",
        "A large table indexed and asked by one executor and by two, beside one process",
        ("by",),
        (Target("most MB of a python process", most=1000),),
        ("400",),
        ("5",),
    ),
    Benchmark("memory", "Peak memory of a task", ("file",), (Target("peak MB", most=1000),)),
    Benchmark(
        "commit_cost",
        "One commit, after many and in a large table",
        ("question",),
        (Target("grown", most=1.5),),
    ),
    Benchmark(
        "log_cost",
        "Reading the log of 100,000 files",
        ("question", "contestant"),
        (
            Target("wall / deltalake", most=0.5, of={"contestant": "tailbit"}, quick=4),
            Target("grown", most=1.5, of={"contestant": "changes"}, quick=6),
        ),
        quick=("10000",),
    ),
    Benchmark(
        "growth",
        "Growth with files, rows, indexed columns and commits of the index",
        ("dimension", "size"),
        (
            Target("first count ms", most=1000, of={"dimension": "files", "size": 100_000}),
            Target("count ms", most=20, of={"dimension": "files", "size": 100_000}),
            Target("peak MB", most=700, of={"dimension": "files", "size": 100_000}),
            *(
                Target("one commit ms, exponent", most=most, of={"dimension": dimension, "size": "fitted"})
                for dimension, most in (("files", 0.1), ("rows", 0.1), ("commits of the index", 0.1))
            ),
            # Each column is posted.
            Target("one commit ms, exponent", most=1, of={"dimension": "indexed columns", "size": "fitted"}),
            Target("first count ms, exponent", most=1, of={"size": "fitted"}, quick=2),
        ),
        quick=("files", "100", "2000"),
    ),
    Benchmark(
        "long_lists",
        "Long lists over files without an index",
        ("question",),
        (Target("tailbit / DuckDB", most=1.1),),
    ),
    Benchmark(
        "column_stats",
        "Questions over 10,000 files by column statistics, beside Delta's own",
        ("question",),
        (
            Target("column statistics ms", most="Delta's own ms", quick=1000),
            Target("column statistics ms", most=5, of={"question": "no file, warm"}, quick=1000),
            Target("bytes per cell", most=14, quick=100),
            Target("us per cell", most=50, quick=5000),
        ),
        quick=("300", "40"),
    ),
    Benchmark(
        "run_once",
        "A whole `run --once` beside the kernel",
        ("columns",),
        (
            Target("above / kernel", most=4),
            Target("nothing to do s", most=7),
            Target("whole s", most=11, of={"columns": 8}),
        ),
    ),
    Benchmark(
        "freshness",
        "From a commit to its being covered",
        ("per second",),
        (Target("median s", most=0.10), Target("p99 s", most=0.25)),
    ),
    Benchmark(
        "freshness_hudi",
        "From a commit of a Hudi table to its being covered, beside Delta's",
        ("table",),
        (Target("of Delta's", most=1.2),),
    ),
    Benchmark(
        "freshness_iceberg",
        "From a commit of an Iceberg table to its being covered, beside Delta's",
        ("table",),
        (Target("of Delta's", most=1.2),),
    ),
    Benchmark(
        "hudi_cost",
        "A commit of a Hudi table by file groups, history and base file; a cold count",
        ("question",),
        (
            Target("ratio", most=1.5, of={"question": "a commit, by file groups"}),
            Target("ratio", most=1.5, of={"question": "a commit, by history"}),
            Target("ratio", most=2, of={"question": "1,000 updates by positions, by base file"}),
            Target("CPU s", most=0.6, of={"question": "a cold count, 1,000 file groups"}),
            Target("CPU s", most=1.5, of={"question": "a cold count, 20,000 file groups"}),
        ),
    ),
    Benchmark(
        "iceberg_cost",
        "An Iceberg table by manifests and history: opening, a commit, a question",
        ("question",),
        (
            Target("wall s", most=1, of={"question": "opening, 100,000 files in 1,000 manifests"}),
            Target("large, CPU ms", most=50, of={"question": "a commit"}),
            Target("large, CPU ms", most=50, of={"question": "a commit with a deletion vector"}),
            Target("ratio", most=1.2, of={"question": "a warm count, by history"}),
            Target("ratio", most=1.2, of={"question": "a cold count, by history"}),
        ),
    ),
    Benchmark(
        "row_changes",
        "`tailbit.spark.delete` and `upsert` beside Delta's DELETE and MERGE",
        ("rows", "change", "keys"),
        (Target("tailbit / delta", most="at most"),),
        ("--rows", "6000000", "60000000"),
    ),
    Benchmark(
        "buckets",
        "A join of tables in buckets of their key, bucket by bucket, beside Spark's own",
        ("rows",),
        (Target("by bucket shuffles", most=0),),
        quick=("--rows", "20000"),
    ),
    Benchmark(
        "record_keys",
        "Keys located by a record key, beside a bitmap, DuckDB's semi-join and Lance's BTREE",
        ("keys of", "keys"),
        (
            Target("record_key ms", most="at most", quick=1_000_000),
            Target("record_key / duckdb", most=0.3, of={"keys": 10_000}, quick=100),
        ),
        quick=("--rows", "200000", "--no-lance"),
    ),
    Benchmark(
        "key_shapes",
        "Keys of fourteen shapes, located and listed in conditions, beside DuckDB's semi-join",
        ("shape", "keys"),
        (
            Target("same", least=1),
            Target("locate / duckdb", most="at most", quick=100),
        ),
        quick=("--rows", "20000", "--repeats", "1"),
    ),
    Benchmark(
        "dashboards",
        "Statements of dashboards over a star of tables, in the order of keys and of days",
        ("layout", "statement"),
        (Target("accelerated / plain", most=1.05, quick=20),),
        quick=("--rows", "60000", "--repeats", "1"),
    ),
    Benchmark(
        "tpch",
        "The 22 statements of TPC-H, in the order of keys and of days",
        ("layout", "statement"),
        (Target("accelerated / plain", most=1.05, quick=20),),
        quick=("--scale", "0.01", "--repeats", "1"),
    ),
    Benchmark(
        "spark_sql",
        "A session's own SQL with the index and without, on 200 files and on lineitem",
        ("statement",),
        (
            Target("accelerated / plain", most="at most", quick=20),
            Target("rules ms", most="rules at most", quick=200),
            Target("as told", least=1),
        ),
        quick=("--rows", "300", "--repeats", "1"),
    ),
)
