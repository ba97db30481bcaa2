"""Which worker runs which test: each file by itself, and all tests of the shared Spark on one worker.

A JVM needs minutes until its compilers have seen Spark's code: two of them pay for that twice.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

SHARED = "integration"


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """Scopes are files, but for the folder whose tests share one Spark."""

    def _split_scope(self, nodeid: str) -> str:
        """The scope of a test.

        It is the file, and for a doctest the module:

        >>> OneSpark._split_scope(None, "tests/unit/test_bits.py::test_a[::]")
        'tests/unit/test_bits.py'
        >>> OneSpark._split_scope(None, "tests/integration/test_stream.py::test_a")
        'integration'
        """
        file = nodeid.split("::", 1)[0]
        return SHARED if SHARED in file.split("/") else file
