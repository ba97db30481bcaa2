"""Replays the corpus of every parser in this process and prints what it cost, as JSON by target.

Run on its own, so that its memory is its own and a crash of the process is seen as one.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.byte_targets import Ground, Target

CORPUS = Path(__file__).resolve().parents[1] / "corpus"


def inputs(name: str) -> list[Path]:
    """The kept inputs of a target."""
    return sorted((CORPUS / name).iterdir())


def replay(target: Target, files: Sequence[Path]) -> list[dict[str, Any]]:
    """What each input took: processor time in seconds, and bytes by which the peak memory grew."""
    out = []
    for file in files:
        data = file.read_bytes()
        before, began = _peak(), time.process_time()
        target.run(data)
        seconds, grown = time.process_time() - began, _peak() - before
        out.append({"file": file.name, "size": len(data), "seconds": seconds, "grown": grown})
    return out


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Warm every target up with its seeds, then replay."""
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name, target in Ground(Path(folder)).targets().items():
            for seed in target.seeds():
                target.run(seed)
            found[name] = replay(target, inputs(name))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
