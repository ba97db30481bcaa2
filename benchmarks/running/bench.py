"""Every benchmark one after the other, each in a process of its own: what `make bench` runs.

Usage: python running/bench.py [--quick] [name ...]. A whole run takes about an hour on two cores, and says
how far it is. What is measured goes to `benchmarks/results/`: the lines as they were printed, a page of
tables, and curves. What is interrupted keeps what is done, and a run of some benchmarks leaves the others.

The quick mode takes two minutes on small tables and writes nothing; its exit status is 1 if a figure is so
far from its target that noise does not explain it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
from typing import Any

from catalogue import BENCHMARKS, Benchmark
from report import load, verdicts, write, write_growth, write_spark

BENCHMARKS_FOLDER = pathlib.Path(__file__).parents[1]
WORKLOADS, RESULTS = BENCHMARKS_FOLDER / "workloads", BENCHMARKS_FOLDER / "results"
DOCS = BENCHMARKS_FOLDER.parent / "docs"
QUICK_SCALE = "0.05"


def main() -> int:
    """Run the benchmarks of the command line; 0 where all ran, and in the quick mode kept its bounds."""
    options = _arguments()
    chosen = [b for b in BENCHMARKS if not options.names or b.script in options.names]
    if options.quick:
        chosen = [b for b in chosen if b.quick is not None]
    failed = 0
    for number, benchmark in enumerate(chosen, 1):
        _say(f"[{number}/{len(chosen)}] {benchmark.script}: {benchmark.title}")
        result = _run(benchmark, options.quick)
        failed += result["status"] != 0
        for verdict in verdicts(benchmark, result["lines"], options.quick):
            if not verdict.kept:
                failed += options.quick
                _say(f"  missed: {verdict.case} {verdict.figure} {verdict.measured:g}, not {verdict.bound}")
        if not options.quick and result.pop("status") == 0:
            results = load(RESULTS) | {benchmark.script: result}
            write(RESULTS, results)
            write_growth(DOCS / "operations.md", results)
            write_spark(DOCS / "spark.md", results)
    _say(f"{failed} of {len(chosen)} benchmarks failed" if failed else "done")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small tables, wide bounds, nothing written")
    names = [benchmark.script for benchmark in BENCHMARKS]
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(names)}; all if none")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}: there are {', '.join(names)}")
    return options


def _run(benchmark: Benchmark, quick: bool) -> dict[str, Any]:
    """Run a script and return its lines, shown as they come, with when and where they were measured."""
    arguments = (benchmark.quick or ()) if quick else benchmark.arguments
    command = [sys.executable, str(WORKLOADS / f"{benchmark.script}.py"), *arguments]
    scale = {"TAILBIT_BENCH_SCALE": QUICK_SCALE} if quick else {}
    before, began, lines = os.getloadavg()[0], time.monotonic(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | scale) as script:
        assert script.stdout is not None
        for text in script.stdout:
            _say("  " + text.rstrip())
            lines.append(json.loads(text))
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": _machine(),
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "seconds": time.monotonic() - began,
        "status": script.returncode,
        "lines": lines,
    }


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, {memory} GiB, {system}, Python {platform.python_version()}"


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
