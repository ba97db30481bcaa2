"""Do the tables of one application keep up when one of them fails again and again?

Twenty tables get one small commit a second in all, in turn. The same is measured twice in one run: with
every table well, and with one whose newest commit is torn, so that each look at it fails. Lag: from the
return of the writer to the line that says that the commit is covered.

Usage: python workloads/many_live.py [tables] [seconds a phase]. One line.
"""

from __future__ import annotations

import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import psutil
import pyarrow as pa
from deltalake import write_deltalake
from timing import tell

POISONED = "t0"
ROWS = 100
SETTLE_S = 10.0


class Live:
    """The application, and when each version of each table was covered, by `time.monotonic`."""

    def __init__(self, folder: pathlib.Path, tables: int) -> None:
        self.folder, self.names = folder, [f"t{n}" for n in range(tables)]
        self.covered: dict[str, list[tuple[int, float]]] = {name: [] for name in self.names}
        lines = [f'[application]\ncheckpoint = "{folder}/checkpoint"\nmetrics = "off"']
        for name in self.names:
            self.commit(name)
            lines.append(f'[[table]]\npath = "{name}"\ncolumns = ["v"]')
        file = folder / "tailbit.toml"
        file.write_text("\n".join(lines))
        command = [sys.executable, "-m", "tailbit.cli", "run", "--config", str(file), "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def commit(self, name: str) -> float:
        """Write one small commit; return when it was visible."""
        rows = pa.table({"k": list(range(ROWS)), "v": [f"v{k % 7}" for k in range(ROWS)]})
        write_deltalake(str(self.folder / name), rows, mode="append")
        return time.monotonic()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if told.get("covered_version") is not None:
                covered = self.covered[pathlib.Path(told["table"]).name]
                covered.append((int(told["covered_version"]), time.monotonic()))

    def moment_of(self, name: str, version: int) -> float | None:
        """Return when a version was covered; None if it is not yet."""
        return next((at for covered, at in list(self.covered[name]) if covered >= version), None)

    def memory_mb(self) -> float:
        """Return the proportional set size of the command and all that it started."""
        parent = psutil.Process(self.process.pid)
        tree = [parent, *parent.children(recursive=True)]
        return sum(process.memory_full_info().pss for process in tree) / 1e6


def measured(live: Live, names: list[str], versions: dict[str, int], seconds: float) -> list[float]:
    """Write to tables in turn, one commit a second; return the lag of each commit."""
    written: list[tuple[str, int, float]] = []
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        name = names[len(written) % len(names)]
        at = live.commit(name)
        versions[name] += 1
        written.append((name, versions[name], at))
        time.sleep(max(0.0, len(written) - passed))
    until = time.monotonic() + 60.0
    lags: list[float] = []
    for name, version, at in written:
        while (covered := live.moment_of(name, version)) is None and time.monotonic() < until:
            time.sleep(0.01)
        lags.append(float("inf") if covered is None else covered - at)
    return lags


def figures(lags: list[float]) -> dict[str, float]:
    """Return median, 99th percentile and maximum of lags, in seconds."""
    lags = sorted(lags)
    p99 = lags[max(0, int(len(lags) * 0.99) - 1)]
    return {
        "median s": round(statistics.median(lags), 3),
        "p99 s": round(p99, 3),
        "max s": round(lags[-1], 3),
    }


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:]]
    tables, seconds = (numbers + [20, 300][len(numbers) :])[:2]
    with tempfile.TemporaryDirectory() as folder:
        live = Live(pathlib.Path(folder), tables)
        try:
            versions = dict.fromkeys(live.names, 0)
            while any(live.moment_of(name, 0) is None for name in live.names):
                if live.process.poll() is not None:
                    raise SystemExit("the command has ended")
                time.sleep(0.2)
            time.sleep(SETTLE_S)
            others = [name for name in live.names if name != POISONED]
            before_mb = live.memory_mb()
            well = measured(live, others, versions, seconds)
            torn = live.folder / POISONED / "_delta_log" / f"{1:020}.json"
            torn.write_text('{"add": {"path": "torn')
            time.sleep(SETTLE_S)
            poisoned = measured(live, others, versions, seconds)
            line: dict[str, object] = {"tables": tables, "commits": [len(well), len(poisoned)]}
            line |= {"all well": figures(well), "one poisoned": figures(poisoned)}
            line["PSS MB"] = [round(before_mb), round(live.memory_mb())]
            tell(line)
        finally:
            live.process.send_signal(signal.SIGTERM)
            live.process.wait()


if __name__ == "__main__":
    main()
