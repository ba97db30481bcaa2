"""Which worker runs which test: each file by itself, and all tests of the shared Spark on one worker.

A JVM needs minutes until its compilers have seen Spark's code: two of them pay for that twice. Tests whose
questions are all recorded start no Spark, and are any worker's.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

from support.profiles import PROOF
from support.replay import LIVE
from support.verdicts import FOLDER, RECORDING, key_of, read

SHARED = "integration"


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """Scopes are files, but for the tests that share one Spark."""

    def _split_scope(self, nodeid: str) -> str:
        """The scope of a test.

        It is the file, and for a doctest the module:

        >>> OneSpark._split_scope(None, "tests/unit/test_bits.py::test_a[::]")
        'tests/unit/test_bits.py'
        >>> OneSpark._split_scope(None, "tests/integration/test_stream.py::test_a")
        'integration'
        """
        file = nodeid.split("::", 1)[0]
        return SHARED if SHARED in file.split("/") and asks_spark(nodeid) else file


def asks_spark(nodeid: str) -> bool:
    """Return whether a test of the folder that shares a Spark asks it anything that is not recorded."""
    file, _, name = nodeid.partition("::")
    if PROOF or RECORDING or not _answers(Path(file).stem):
        return True
    live = any(key_of(LIVE, "", name) in _answers(Path(file).stem) for name in (nodeid, file))
    return live or name.partition("[")[0] in _with_spark(file)


@cache
def _answers(module: str) -> dict[bytes, bytes]:
    return read(FOLDER / f"{module}.arrow")


@cache
def _with_spark(file: str) -> set[str]:
    """Return the tests of a module that take the shared session itself."""
    module = ast.parse((FOLDER.parents[1] / file).read_text(encoding="utf-8"))
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    # A module whose own fixture is named `spark` has a session that is replayed.
    taking = (name for name, node in functions.items() if any(a.arg == "spark" for a in node.args.args))
    return set() if "spark" in functions else set(taking)
