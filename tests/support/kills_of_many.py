"""Applications of many tables are killed at random under writers, and the index must not know.

With a standby (`--kills`) another application takes over each time; without (`--restarts`) the killed one is
started again, and `tailbit status` is asked while nobody is at work, all the while until it has caught up,
and after that. Each time the next application must be at work, and have caught up, within `MOST_S`. In the
end each index must equal one built in one go. Usage, from `tests`: python -m support.kills_of_many
[--kills 20] [--restarts 0] [--tables 5] [--seed 1] [--minutes 60] [--record FILE]. Exit status 1 where
anything is wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from support.application import Application
from support.contents import contents_of
from support.drive import Drive
from support.forked import command
from support.marks import write_row
from support.shipped import covered
from support.tables import rows, three_commits
from support.waiting import wait_until

MOST_S = 30.0
"""Most seconds from a kill to the next application at work, and from a start until it has caught up."""

_PAUSE_S = 0.5


class Writers:
    """One commit each `pause_s` seconds, to the tables in turn, until `end`."""

    def __init__(self, tables: list[str], pause_s: float = _PAUSE_S) -> None:
        self.commits, self._stop = 0, threading.Event()
        self._tables, self._pause_s = tables, pause_s
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Write nothing more."""
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.wait(self._pause_s):
            table = self._tables[self.commits % len(self._tables)]
            write_deltalake(table, rows(1000 + 10 * self.commits, 10), mode="append")
            self.commits += 1


@dataclass
class Account:
    """What was measured. `looks`: how often `tailbit status` was asked; `wrong`: what must not be."""

    taken: list[float] = field(default_factory=list)
    caught_up: list[float] = field(default_factory=list)
    looks: int = 0
    wrong: list[str] = field(default_factory=list)


def heads_of(tables: list[str]) -> dict[str, int]:
    return {table: DeltaTable(table).version() for table in tables}


def covers(heads: dict[str, int]) -> bool:
    return all(covered(table) >= head for table, head in heads.items())


def take_over(leader: Application, standby: Application, tables: list[str], account: Account) -> None:
    """Kill the application at work; note the seconds until the other is, and until it has caught up."""
    heads = heads_of(tables)
    leader.kill()
    began = time.monotonic()
    standby.wait_for_words("taken over from")
    account.taken.append(time.monotonic() - began)
    wait_until(lambda: covers(heads), standby.death)
    account.caught_up.append(time.monotonic() - began)


def start_again(application: Application, tables: list[str], account: Account) -> None:
    """Kill the application and start it; note the seconds from the start until it has caught up."""
    application.kill()
    look(application, tables, account, alive=False)
    heads, began = heads_of(tables), time.monotonic()
    application.start()
    caught_up = threading.Event()
    looking = threading.Thread(target=_look_until, args=(caught_up, application, tables, account))
    looking.start()
    try:
        wait_until(lambda: covers(heads), application.death)
        account.caught_up.append(time.monotonic() - began)
    finally:
        caught_up.set()
        looking.join()
    look(application, tables, account, alive=True)


def _look_until(
    caught_up: threading.Event, application: Application, tables: list[str], account: Account
) -> None:
    while not caught_up.is_set():
        look(application, tables, account, alive=None)


def look(application: Application, tables: list[str], account: Account, alive: bool | None) -> None:
    """Ask `tailbit status`: what it says of each table must lie between what was true before and after.

    `alive`: whether an indexer is at work; None where one is starting.
    """
    before = {table: (covered(table), DeltaTable(table).version()) for table in tables}
    told = command("status", "--config", application.file, "--json").stdout.splitlines()
    after = {table: (covered(table), DeltaTable(table).version()) for table in tables}
    account.looks += 1
    if len(told) != len(tables):
        account.wrong.append(f"status told of {len(told)} tables")
    for line in map(json.loads, told):
        low, high = before[line["table"]], after[line["table"]]
        if not (low[0] <= line["covered_version"] <= high[0] and low[1] <= line["head"] <= high[1]):
            account.wrong.append(f"status: {line} is not between {low} and {high}")
        if alive is not None and bool(line["indexer"]) != alive:
            account.wrong.append(f"status: indexer {line['indexer']!r}, and alive is {alive}")


def main() -> int:
    """Kill, and print what was measured."""
    given = _arguments()
    chance, until = random.Random(given.seed), time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as place:
        names = [f"t{number}" for number in range(given.tables)]
        folder, account = Path(place), Account()
        tables = [three_commits(str(folder / name)) for name in names]
        leader = Application(folder, "0.txt")
        leader.configure(*names)
        leader.start()
        leader.wait_for_head(*names)
        writers, began = Writers(tables), time.monotonic()
        rounds = given.restarts or given.kills
        while len(account.caught_up) < rounds and time.monotonic() < until:
            if account.caught_up and len(account.caught_up) % 10 == 0:
                print(f"{len(account.caught_up)} of {rounds}", file=sys.stderr, flush=True)
            if given.restarts:
                time.sleep(chance.uniform(0, 3))
                start_again(leader, tables, account)
                continue
            standby = Application(folder, f"{len(account.caught_up) + 1}.txt")
            standby.start()
            standby.wait_for_words("standing by")
            time.sleep(chance.uniform(0, 3))
            take_over(leader, standby, tables, account)
            leader = standby
        minutes = (time.monotonic() - began) / 60
        writers.end()
        leader.wait_for_head(*names)
        ended = leader.end()
        account.wrong += [f"exit status {ended}"] * bool(ended)
        account.wrong += [f"taken over after {s:.1f} s" for s in account.taken if s > MOST_S]
        # After a kill, what waits for the application that takes over is caught up after that.
        most = MOST_S if given.restarts else 2 * MOST_S
        account.wrong += [f"caught up after {s:.1f} s" for s in account.caught_up if s > most]
        account.wrong += [f"{table} is not as built in one go" for table in tables if not _is_whole(table)]
    return _told(given, account, minutes, writers.commits)


def _told(given: argparse.Namespace, account: Account, minutes: float, commits: int) -> int:
    """Print the row, and record that of a sound run."""
    cells = {
        "date": datetime.datetime.now(datetime.timezone.utc).date(),
        "seed": given.seed,
        "minutes": f"{minutes:.0f}",
        "tables": given.tables,
        "kills": len(account.caught_up),
        "commits": f"{commits:,}",
        "caught up after s: median, most": _figures(account.caught_up),
    }
    cells |= {"looks at status": account.looks} if given.restarts else {}
    cells |= {} if given.restarts else {"taken over after s: median, most": _figures(account.taken)}
    cells |= {"lost, twice or wrong": len(account.wrong), "load of the machine": f"{os.getloadavg()[1]:.1f}"}
    print(json.dumps(cells, default=str))
    print("\n".join(account.wrong))
    if given.record is not None and not account.wrong:
        kind = "restarts of many" if given.restarts else "kills of many"
        write_row(given.record, f"<!-- {kind}: begin -->", f"<!-- {kind}: end -->", cells)
    return 1 if account.wrong else 0


def _is_whole(table: str) -> bool:
    Drive(table, f"{table}-whole", ["v"]).drain()
    return contents_of(f"{table}/_tailbit") == contents_of(f"{table}-whole")


def _figures(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f}, {max(seconds):.1f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.kills_of_many", description=__doc__)
    for name, default in (("kills", 20), ("restarts", 0), ("tables", 5), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no other round after this time")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a sound run there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
