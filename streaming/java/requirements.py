"""What a machine must have before anything is indexed: Java, and the Python packages of an indexer."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from tailbit.base.errors import RequirementError
from tailbit.streaming.java.session import check_java

OLDEST_SPARK = (4, 2)
"""The first Spark whose Python streaming sources can limit how much a batch reads."""

TOO_NEW_PANDAS = (3, 0)
"""The first pandas whose types Spark's Python workers do not support."""

_REMEDY = "Install what fits: pip install 'tailbit[spark]'. Questions need none of it."


def check_requirements() -> None:
    """Check that Java, pyspark and pandas are installed, each in a supported release.

    Cost: reads the packages' names on disk. Starts Java only if Java has no release file, and imports a
    package only if the package has no metadata.

    Raises:
        RequirementError: one of them is missing or of another release; the error names what was found and
            what is needed.
    """
    check_java()
    spark = installed("pyspark")
    if spark is None:
        raise RequirementError(reason="pyspark is not installed", remedy=_REMEDY)
    if release(spark) < OLDEST_SPARK:
        reason = f"pyspark {spark} is installed; indexing needs {_shown(OLDEST_SPARK)} or newer"
        raise RequirementError(reason=reason, remedy=_REMEDY)
    pandas = installed("pandas")
    if pandas is None:
        raise RequirementError(reason="pandas is not installed; Spark's workers need it", remedy=_REMEDY)
    if release(pandas) >= TOO_NEW_PANDAS:
        reason = f"pandas {pandas} is installed; Spark's workers need one below {_shown(TOO_NEW_PANDAS)}"
        raise RequirementError(reason=reason, remedy=_REMEDY)


def installed(package: str) -> str | None:
    """Return the version of an installed package; None if it cannot be imported."""
    if find_spec(package) is None:
        return None
    try:
        return version(package)
    except PackageNotFoundError:
        # A package in a folder on the path, as under spark-submit, has no metadata: it knows its own version.
        return str(__import__(package).__version__)


def release(text: str) -> tuple[int, int]:
    """Return the major and minor number of a version."""
    numbers = re.match(r"(\d+)(?:\.(\d+))?", text)
    return (int(numbers[1]), int(numbers[2] or 0)) if numbers else (0, 0)


def _shown(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
