"""Hand-made faults, one a room, that the tests must find: `python -m support.mutations` (`make mutations`).

`mutations.txt` is their table: the file and what the fault breaks, the exact text (`-`), the text in its
place (`+`), and the tests to try first (`?`), which are else those of the room. Each fault stands alone in a
copy of the tree, where tests run until one fails: those to try first, then `tests/unit` and `tests/property`.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_suffix(".txt")
BEGIN, END = "<!-- mutations: begin -->\n", "<!-- mutations: end -->\n"
WIDER = (("tests/property",), ("tests/unit",))
LONGEST_S = 1800
"""A run of tests that takes longer hangs by the fault."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+)", re.M)

_ELSEWHERE = """import importlib
import sys
from pathlib import Path

for entry in map(Path, sys.path):
    for finder in entry.glob("__editable___tailbit*_finder.py"):
        mapping = importlib.import_module(finder.stem).MAPPING
        mapping.update({{name: place.replace({root!r}, {copy!r}) for name, place in mapping.items()}})
"""
"""What leads each Python process of a copy to the modules of the copy."""


@dataclass(frozen=True)
class Fault:
    """A text of a file, and the text in its place that breaks something."""

    file: str
    breaks: str
    text: str
    instead: str
    first: tuple[str, ...]


def faults(table: str) -> Iterator[Fault]:
    r"""Yield the faults of a table.

    >>> list(faults("index/keys.py: a key is lost\n- if a:\n-     b\n+ if not a:"))[0].text
    'if a:\n    b'
    """
    for entry in table.strip().split("\n\n"):
        head, *lines = entry.split("\n")
        file, _, breaks = head.partition(": ")
        text, instead, first = ("\n".join(x[2:] for x in lines if x[0] == sign) for sign in "-+?")
        yield Fault(file, breaks, text, instead, tuple(first.split()) or _tests_of(file))


def _tests_of(file: str) -> tuple[str, ...]:
    """Return the tests of the nearest folder of `tests/unit` that mirrors a room, those of the file first."""
    path = Path(file.removeprefix("tailbit/"))
    room = next(room for room in path.parents if (ROOT / "tests/unit" / room).is_dir())
    own = sorted(
        (ROOT / "tests/unit" / room).glob("test_*.py"), key=lambda test: test.stem != f"test_{path.stem}"
    )
    return tuple(test.relative_to(ROOT).as_posix() for test in own)


def copy_tree(copy: Path) -> None:
    """Copy what Git has or would have, and the jar; imports within the copy lead to the copy."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    jars = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tailbit/spark/jar").glob("*.jar")]
    for name in {*names.split("\0"), *jars} - {""}:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / "build").mkdir()
    (copy / "build/sitecustomize.py").write_text(_ELSEWHERE.format(root=str(ROOT), copy=str(copy)))


def finder_of(fault: Fault, copy: Path) -> str | None:
    """Return the test that finds a fault in a copy of the tree, or None; the copy is as it was afterwards."""
    file = copy / fault.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(fault.text, fault.instead), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(copy / "build")}
    build = [sys.executable, "-m", "tailbit.spark.jar"] if file.suffix == ".java" else ["true"]
    try:
        subprocess.run(build, cwd=copy, env=environment, check=True)
        runs = (_failed(tests, copy, environment) for tests in (fault.first, *WIDER))
        return next(filter(None, runs), None)
    finally:
        file.write_text(whole, encoding="utf-8")
        subprocess.run(build, cwd=copy, env=environment, check=True)


def _failed(tests: Sequence[str], copy: Path, environment: dict[str, str]) -> str | None:
    options = ["-x", "-q", "--since-proof", "-p", "no:cacheprovider", "-n", "2" if tests in WIDER else "0"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    with subprocess.Popen(
        command, cwd=copy, env=environment, text=True, stdout=subprocess.PIPE, start_new_session=True
    ) as run:
        try:
            said = run.communicate(timeout=LONGEST_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            return f"{tests[0]} (it hangs)"
    failed = _FAILED.findall(said)
    if run.returncode and not failed:
        raise RuntimeError(f"{' '.join(tests)}: {said[-2000:]}")
    return failed[0] if failed else None


def record(page: Path, found: Sequence[tuple[Fault, str | None]]) -> None:
    """Write into a page how many faults were found on which day, and by the tests of which folders."""
    by = Counter("/".join(test.split("/")[:2]) for _, test in found if test)
    folders = ", ".join(f"{count} by `{folder}`" for folder, count in by.most_common())
    day = datetime.datetime.now(datetime.timezone.utc).date()
    row = f"On {day}, {by.total()} of {len(found)} faults were found: {folders}.\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{row}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def wrong_entries(entries: Iterable[Fault]) -> list[str]:
    """Return the faults whose text does not stand exactly once in its file, or whose tests are not there."""
    wrong = []
    for fault in entries:
        file = ROOT / fault.file
        count = file.read_text(encoding="utf-8").count(fault.text) if file.exists() else 0
        lacking = [test for test in fault.first if not (ROOT / test.partition("::")[0]).exists()]
        if count != 1 or lacking:
            wrong.append(f"{fault.file}: {fault.breaks}: the text stands there {count} times; no {lacking}")
    return wrong


def main() -> int:
    """Apply one fault after the other; the status is 1 if a text is not there or a fault is not found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "files", nargs="*", help="faults of files whose paths begin like this; all by default"
    )
    parser.add_argument("--record", type=Path, help="the page into which the result is written")
    asked = parser.parse_args()
    chosen = [
        fault
        for fault in faults(TABLE.read_text(encoding="utf-8"))
        if not asked.files or fault.file.startswith(tuple(asked.files))
    ]
    if wrong := wrong_entries(chosen):
        sys.exit("\n".join(wrong))
    found = []
    with tempfile.TemporaryDirectory(prefix="tailbit-mutations-") as folder:
        copy_tree(copy := Path(folder).resolve())
        for fault in chosen:
            found.append((fault, finder_of(fault, copy)))
            print(f"{fault.file}: {fault.breaks}: {found[-1][1] or 'FOUND BY NO TEST'}", flush=True)
    missed = [fault for fault, test in found if test is None]
    print(f"{len(found) - len(missed)} of {len(found)} faults are found")
    if asked.record:
        record(asked.record, found)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
