"""What tests cost: seconds and CPU seconds of each, with all processes that it started.

`pytest -p support.costs --costs FILE` writes a line of JSON a test; `python -m support.costs FILE...` prints
the table of docs/testing.md. CPU is counted by the kernel, so that it says the same on a busy machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

TICK = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """The cost of a test; `cpu` is of all its processes, `java` of those Javas that outlive it, in s."""

    test: str
    seconds: float
    cpu: float
    java: float
    fixtures: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder of the test below `tests`."""
        parts = self.test.split("/")
        return next(name for name in parts if name != "tests")

    @property
    def kind(self) -> str:
        """What the test spends its time on, by the fixtures that it asks for."""
        for fixture, kind in KINDS.items():
            if fixture in self.fixtures:
                return kind
        return {"fault": "kill and wait", "e2e": "process start"}.get(self.folder, "computing")


KINDS = {
    "run": "process start",
    "spark": "Spark judge",
    "verdicts": "Spark judge",
    "s3": "object store",
    "s3_root": "object store",
}
"""What a test with a fixture spends most of its time on."""


def processes_below(root: int) -> Iterator[tuple[str, int]]:
    """Yield the name and CPU ticks of a process and of all below it, with the children that they awaited."""
    children: dict[int, list[int]] = defaultdict(list)
    stats: dict[int, tuple[str, int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            head, _, rest = (folder / "stat").read_text().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        children[int(fields[1])].append(int(folder.name))
        stats[int(folder.name)] = head.partition("(")[2], sum(map(int, fields[11:15]))
    waiting = [root]
    while waiting:
        process = waiting.pop()
        waiting += children[process]
        if process in stats:
            yield stats[process]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--costs FILE`: append the cost of each test."""
    parser.addoption("--costs", metavar="FILE", help="append the cost of each test, a line of JSON each")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure a test with its fixtures; each worker appends its own lines."""
    target = item.config.getoption("--costs")
    if target is None:
        yield
        return
    start, before = time.monotonic(), list(processes_below(os.getpid()))
    yield
    after = list(processes_below(os.getpid()))
    used = {
        name: max(
            0,
            sum(ticks for process, ticks in after if name in process)
            - sum(ticks for process, ticks in before if name in process),
        )
        / TICK
        for name in ("", "java")
    }
    fixtures = tuple(getattr(item, "fixturenames", ()))
    cost = Cost(item.nodeid, round(time.monotonic() - start, 3), used[""], used["java"], fixtures)
    with Path(target).open("a") as file:
        file.write(json.dumps(cost._asdict()) + "\n")


def table(costs: Iterable[Cost]) -> str:
    """Return minutes of CPU and of waiting by folder and kind, as Markdown."""
    cells: dict[tuple[str, str], list[Cost]] = defaultdict(list)
    for cost in costs:
        cells[cost.folder, cost.kind].append(cost)
    lines = ["| folder | spends its time on | tests | minutes | CPU minutes |", "|---|---|---|---|---|"]
    for (folder, kind), own in sorted(cells.items(), key=lambda cell: -sum(c.cpu for c in cell[1])):
        minutes, cpu = sum(c.seconds for c in own) / 60, sum(c.cpu for c in own) / 60
        lines.append(f"| `tests/{folder}` | {kind} | {len(own)} | {minutes:.1f} | {cpu:.1f} |")
    return "\n".join(lines)


def main(files: list[str]) -> None:
    """Print the table of costs, and the tests that cost most."""
    rows: list[dict[str, Any]] = [
        json.loads(line) for file in files for line in Path(file).read_text().splitlines()
    ]
    costs = [Cost(**{**row, "fixtures": tuple(row["fixtures"])}) for row in rows]
    print(table(costs))
    for cost in sorted(costs, key=lambda cost: -cost.cpu)[:60]:
        print(f"{cost.cpu:8.1f} CPU {cost.seconds:8.1f} s  {cost.test}")


if __name__ == "__main__":
    main(sys.argv[1:])
