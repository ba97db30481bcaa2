"""Results of benchmarks as a page: a table of each, what was missed, and curves.

Results are lines by script, as they were printed, with when and where; they are kept beside the page, so that
a run of some benchmarks leaves what it knows of the others.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalogue import BENCHMARKS, Benchmark, Target

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))

from support.marks import write_between

Line = Mapping[str, Any]
Results = dict[str, dict[str, Any]]
"""By script: `lines`, `date`, `seconds`, `load` (the load average before and after) and `machine`."""

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Points of a curve by its label."""

NAME = "results.json"
CURVES = ("first count ms", "count ms", "one commit ms", "peak MB")

BEGIN, END = "<!-- growth: begin -->", "<!-- growth: end -->"
"""Marks of a page, between which stands how all grows."""

SPARK = "<!-- spark_sql: begin -->", "<!-- spark_sql: end -->"
"""Marks of a page, between which stands what a session's own SQL takes."""


@dataclass(frozen=True)
class Verdict:
    """One figure of one line beside its target."""

    case: str
    figure: str
    measured: float
    bound: str
    kept: bool


def verdicts(benchmark: Benchmark, lines: Iterable[Line], quick: bool = False) -> Iterator[Verdict]:
    """What the lines of a benchmark keep and miss, by its targets or by the bounds of its quick mode."""
    for line in lines:
        case = ", ".join(str(line[name]) for name in benchmark.cases if name in line)
        for target in benchmark.targets:
            measured = line.get(target.figure)
            if measured is None or any(line.get(name) != value for name, value in target.of.items()):
                continue
            if quick and target.quick is None:
                continue
            yield _verdict(target, line, case, float(measured), quick)


def _verdict(target: Target, line: Line, case: str, measured: float, quick: bool) -> Verdict:
    wanted = target.quick if quick else target.least if target.most is None else target.most
    bound = float(line[wanted] if isinstance(wanted, str) else wanted or 0)
    if target.most is None:
        return Verdict(case, target.figure, measured, f"≥ {bound:g}", measured >= bound)
    return Verdict(case, target.figure, measured, f"≤ {bound:g}", measured <= bound)


def load(folder: pathlib.Path) -> Results:
    """The results that are kept; none where there are none."""
    path = folder / NAME
    return json.loads(path.read_text()) if path.exists() else {}


def write(folder: pathlib.Path, results: Results) -> None:
    """Keep the results, and make the page `benchmarks.md` and its curves of them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(json.dumps(results, indent=1) + "\n")
    plots = curves(folder, results)
    (folder / "README.md").write_text("\n".join(_page(results, plots)) + "\n")


def write_growth(page: pathlib.Path, results: Results) -> None:
    """Put how all grows between the marks of a page, if that was measured."""
    if "growth" in results:
        write_between(page, BEGIN, END, "\n".join(growth_table(results["growth"]["lines"])) + "\n")


def write_spark(page: pathlib.Path, results: Results) -> None:
    """Put what a session's own SQL takes between the marks of a page, if that was measured."""
    if "spark_sql" in results:
        write_between(page, *SPARK, "\n".join(spark_table(results["spark_sql"])) + "\n")


def spark_table(result: Mapping[str, Any]) -> Iterator[str]:
    """Return the statements, what serves them, and their times with the index and without."""
    before, after = result["load"]
    yield f"{result['date']}, {result['machine']}; load average {before} before and {after} after.\n"
    figures = ("selects", "served", "plain ms", "accelerated ms", "accelerated / plain", "rules ms")
    yield f"| statement | {' | '.join(figures)} |\n|{'---|' * (1 + len(figures))}"
    for line in result["lines"]:
        yield f"| `{line['statement']}` | {' | '.join(_cell(line[figure]) for figure in figures)} |"


def growth_table(lines: Sequence[Line]) -> Iterator[str]:
    """Per dimension the figures of its smallest and largest size, and the fitted exponent."""
    yield f"| grown | from, to | {' | '.join(CURVES)} |\n|{'---|' * (2 + len(CURVES))}"
    for dimension in dict.fromkeys(line["dimension"] for line in lines):
        of = [line for line in lines if line["dimension"] == dimension]
        fitted = next((line for line in of if line["size"] == "fitted"), None)
        if fitted is not None:
            least, *_, most = (line for line in of if line is not fitted)
            sizes = f"{least['size']:,}, {most['size']:,}"
            cells = [f"{least[c]:,}, {most[c]:,} ({fitted[f'{c}, exponent']})" for c in CURVES]
            yield f"| {dimension} | {sizes} | {' | '.join(cells)} |"


def _page(results: Results, plots: Sequence[str]) -> Iterator[str]:
    known = [benchmark for benchmark in BENCHMARKS if benchmark.script in results]
    yield "# What was measured\n\nMade by `make bench`; do not edit. What each benchmark does, and why the"
    yield "figures are what they are: [benchmarks/README.md](../README.md).\n"
    yield from ("## Held to\n", "| benchmark | kept | missed |", "|---|---|---|")
    judged = {b.script: list(verdicts(b, results[b.script]["lines"])) for b in known}
    for benchmark in known:
        kept = sum(verdict.kept for verdict in judged[benchmark.script])
        yield f"| {benchmark.title} | {kept} | {len(judged[benchmark.script]) - kept} |"
    for benchmark in known:
        result = results[benchmark.script]
        yield f"\n## {benchmark.title}\n\n{result['date']}, {result['machine']}; {result['seconds']:.0f} s,"
        yield f"load average {result['load'][0]} before and {result['load'][1]} after.\n"
        yield from _table(result["lines"])
        missed = [verdict for verdict in judged[benchmark.script] if not verdict.kept]
        for verdict in missed:
            of = f" of {verdict.case}" if verdict.case else ""
            yield f"- **Missed**: {verdict.figure}{of} is {verdict.measured:g}, to be {verdict.bound}."
        yield from (f"\n![{benchmark.title}]({name})" for name in plots if name.startswith(benchmark.script))


def _table(lines: Sequence[Line]) -> Iterator[str]:
    """Lines of the same figures as one table each."""
    shape: tuple[str, ...] = ()
    for line in lines:
        if tuple(line) != shape:
            shape = tuple(line)
            yield f"\n| {' | '.join(shape)} |\n|{'---|' * len(shape)}"
        yield f"| {' | '.join(_cell(value) for value in line.values())} |"
    yield ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def curves(folder: pathlib.Path, results: Results) -> list[str]:
    """The plots that the results allow, as files of the folder; their names."""
    if not {"growth", "encodings"} & set(results):
        return []
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures make the same file.
    mpl.rcParams.update({"svg.hashsalt": "tailbit", "svg.fonttype": "none", "axes.grid": True})
    made = []
    if "growth" in results:
        made += _growth(folder, results["growth"]["lines"])
    if "encodings" in results:
        made += _encodings(folder, results["encodings"]["lines"])
    return made


def _growth(folder: pathlib.Path, lines: Sequence[Line]) -> Iterator[str]:
    for figure in CURVES:
        dimensions: dict[str, list[tuple[float, float]]] = {}
        for line in lines:
            if figure in line:
                dimensions.setdefault(line["dimension"], []).append((line["size"], line[figure]))
        series = {name: points for name, points in dimensions.items() if len(points) > 1}
        if series:
            yield _plot(folder, f"growth-{figure.replace(' ', '-')}", figure, "size", series)


def _encodings(folder: pathlib.Path, lines: Sequence[Line]) -> Iterator[str]:
    series: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if not line["clustered"]:
            for name in ("entropy", "parquet", "bitmap_index"):
                series.setdefault(name, []).append((line["distinct"], line[name]))
    if any(len(points) > 1 for points in series.values()):
        yield _plot(folder, "encodings", "bytes a row", "distinct values", series)


def _plot(
    folder: pathlib.Path,
    name: str,
    figure: str,
    size: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
) -> str:
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for label, points in series.items():
        axes.loglog(*zip(*sorted(points), strict=True), marker="o", label=label)
    lowest = min(value for points in series.values() for _, value in points)
    axes.set(xlabel=size, ylabel=figure, ylim=(10 ** math.floor(math.log10(lowest)), None))
    axes.legend()
    drawn.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(drawn)
    return f"{name}.svg"
