"""Fuzz the parsers of a table's bytes, led by coverage: `make fuzz SECONDS=60 TARGETS="commit schema"`.

Each target runs in a process of its own, beginning from its seeds and `tests/corpus/<target>`. New inputs are
kept in `build/fuzz/<target>`; one that breaks a promise is printed, and left there as `crash-…`, `timeout-…`
or `oom-…`: copy it to `tests/corpus/<target>` under a name that says what was wrong. `--keep N` copies the
N smallest inputs that each reach lines of their own.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve()
CORPUS = HERE.parents[1] / "corpus"
WORK = HERE.parents[2] / "build" / "fuzz"
LIMITS = ("-timeout=10", "-rss_limit_mb=1536", "-max_len=16384", "-print_final_stats=1", "-verbosity=1")
CUSTOM = 0.7
"""The share of inputs that a target's own edits make; the rest are libFuzzer's."""


def main() -> int:
    """Run every target in turn; the number of targets with findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--keep", type=int, default=0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked, rest = parser.parse_known_args()
    if asked.one:
        _fuzz(asked.one, rest)
        return 0
    names = asked.targets or _names()
    failed = [name for name in names if not _run(name, asked.seconds)]
    for name in names if asked.keep else ():
        _keep(name, asked.keep)
    return len(failed)


def _names() -> list[str]:
    from support.byte_targets import Ground

    with tempfile.TemporaryDirectory() as folder:
        return list(Ground(Path(folder)).targets())


def _run(name: str, seconds: int) -> bool:
    """One target for `seconds`, with a line while it runs and one at the end."""
    work = WORK / name
    work.mkdir(parents=True, exist_ok=True)
    print(f"{name:16} {seconds:5} s ...", end="\r", flush=True)
    began = time.monotonic()
    command = [sys.executable, str(HERE), "--one", name, f"-max_total_time={seconds}"]
    with (work / "log.txt").open("w") as log:
        code = subprocess.run(command, stdout=log, stderr=log).returncode
    text = (work / "log.txt").read_text(errors="replace")
    runs = int((re.findall(r"number_of_executed_units: (\d+)", text) or ["0"])[-1])
    took = time.monotonic() - began
    print(
        f"{name:16} {took:5.0f} s  {runs:10,} inputs  {'nothing found' if not code else 'FOUND'}", flush=True
    )
    if code:
        print("\n".join(text.splitlines()[-25:]))
    return code == 0


def _fuzz(name: str, options: list[str]) -> None:
    """Fuzz one target in this process; does not return."""
    import atheris

    with atheris.instrument_imports(include=["tailbit"]):
        from support.byte_targets import Ground
    import pyarrow as pa

    pa.set_cpu_count(1)
    folder = Path(
        tempfile.mkdtemp(prefix="tailbit-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    )
    target = Ground(folder).targets()[name]
    work, kept = WORK / name, CORPUS / name
    kept.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (work / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)

    def edit(data: bytes, size: int, seed: int) -> bytes:
        draw = random.Random(seed)
        made = target.edit(data, draw) if draw.random() < CUSTOM else atheris.Mutate(data, size)
        return bytes(made[:size])

    arguments = [str(HERE), *LIMITS, *options, f"-artifact_prefix={work}/", str(work), str(kept)]
    try:
        atheris.Setup(arguments, lambda data: target.run(data) and None, custom_mutator=edit)
        atheris.Fuzz()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(name: str, count: int) -> None:
    """Copy at most `count` small inputs that each reach lines which no smaller one reaches."""
    from support.byte_targets import Ground

    found = [path for path in (WORK / name).iterdir() if "-" not in path.name and path.suffix != ".txt"]
    seen: set[tuple[str, int]] = set()
    kept = 0
    with tempfile.TemporaryDirectory() as folder:
        target = Ground(Path(folder)).targets()[name]
        for path in sorted(found, key=lambda p: (p.stat().st_size, p.name)):
            lines = _lines(target.run, path.read_bytes())
            if kept < count and not lines <= seen:
                shutil.copy(path, CORPUS / name / path.name[:16])
                seen, kept = seen | lines, kept + 1


def _lines(run: Callable[[bytes], bool], data: bytes) -> set[tuple[str, int]]:
    """The lines of the package that an input reaches."""
    lines: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if "/tables/" not in frame.f_code.co_filename:
            return None
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        run(data)
    finally:
        sys.settrace(None)
    return lines


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))
    sys.exit(main())
