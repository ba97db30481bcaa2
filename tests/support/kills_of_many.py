"""Applications of many tables are killed at random under writers, and a standby takes over each time.

In the end each index must equal one built in one go. Usage, from `tests`: python -m support.kills_of_many
[--kills 20] [--tables 5] [--seed 1]. One line: seconds from a kill until another application is at work, and
until every commit written before the kill is covered.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from support.application import Application
from support.contents import contents_of
from support.drive import Drive
from support.shipped import covered
from support.tables import rows, three_commits
from support.waiting import wait_until

_PAUSE_S = 0.5


class Writers:
    """One commit each half second, to the tables in turn, until `stop` is set."""

    def __init__(self, tables: list[str]) -> None:
        self.stop, self.commits = threading.Event(), 0
        self._tables = tables
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def _write(self) -> None:
        while not self.stop.wait(_PAUSE_S):
            table = self._tables[self.commits % len(self._tables)]
            write_deltalake(table, rows(1000 + 10 * self.commits, 10), mode="append")
            self.commits += 1


def killed(leader: Application, standby: Application, tables: list[str]) -> tuple[float, float]:
    """Kill the application at work; return the seconds until the other is, and until it has caught up."""
    heads = {table: DeltaTable(table).version() for table in tables}
    leader.kill()
    began = time.monotonic()
    standby.wait_for_words("taken over from")
    taken = time.monotonic() - began
    wait_until(lambda: all(covered(table) >= head for table, head in heads.items()), standby.death)
    return taken, time.monotonic() - began


def main() -> None:
    """Kill, and print what was measured."""
    parser = argparse.ArgumentParser()
    for name, default in (("kills", 20), ("tables", 5), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as place:
        names = [f"t{number}" for number in range(given.tables)]
        folder = Path(place)
        tables = [three_commits(str(folder / name)) for name in names]
        leader = Application(folder, "0.txt")
        leader.configure(*names)
        leader.start()
        leader.wait_for_head(*names)
        writers = Writers(tables)
        taken, caught_up = [], []
        for number in range(1, given.kills + 1):
            standby = Application(folder, f"{number}.txt")
            standby.start()
            standby.wait_for_words("standing by")
            time.sleep(chance.uniform(0, 3))
            seconds = killed(leader, standby, tables)
            taken.append(seconds[0])
            caught_up.append(seconds[1])
            leader = standby
        writers.stop.set()
        writers.thread.join()
        leader.wait_for_head(*names)
        ended = leader.end()
        wrong = [table for table in tables if not _is_as_built_in_one_go(table)]
        line = {"kills": given.kills, "tables": given.tables, "commits": writers.commits, "ended": ended}
        line |= {"taken over s": _figures(taken), "caught up s": _figures(caught_up), "wrong": wrong}
        print(json.dumps(line))


def _is_as_built_in_one_go(table: str) -> bool:
    Drive(table, f"{table}-whole", ["v"]).drain()
    return contents_of(f"{table}/_tailbit") == contents_of(f"{table}-whole")


def _figures(seconds: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(seconds), 2), "max": round(max(seconds), 2)}


if __name__ == "__main__":
    main()
