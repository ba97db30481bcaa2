"""The JVM that Spark runs in, started so that what it says on stderr passes through us.

A person who runs `tailbit run` reads one stream: errors of Spark belong in it, the JVM's notes on itself do
not, nor what its helpers say while they are being taken down.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from tailbit.errors import EnvironmentError_

_NOISE = ("WARNING: Using incubator modules",)


class JavaErrors:
    """Passes on what the JVM and its children write to stderr, line by line, until `hush`."""

    def __init__(self) -> None:
        self._read, self.write_end = os.pipe()
        self._hushed = False
        self.last = ""
        threading.Thread(target=self._pass_on, name="tailbit-java-stderr", daemon=True).start()

    def hush(self) -> None:
        """From now on everything is as it should be, whatever is said."""
        self._hushed = True

    def _pass_on(self) -> None:
        with os.fdopen(self._read, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.last = line.strip() or self.last
                if not self._hushed and not line.startswith(_NOISE):
                    sys.stderr.write(line)
                    sys.stderr.flush()


def launch_java(settings: Mapping[str, str]) -> tuple[Any, JavaErrors]:
    """A JVM with these Spark settings: the gateway for a SparkContext, and its errors.

    Raises:
        EnvironmentError_: it did not come up; with the last line that it wrote.
    """
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    errors = JavaErrors()
    try:
        gateway = launch_gateway(SparkConf().setAll(list(settings.items())), {"stderr": errors.write_end})
    except PySparkException:
        reason = f"Java does not start: {errors.last or 'it says nothing'}"
        raise EnvironmentError_(
            reason=reason, remedy="Try `java -version`, and the Spark settings."
        ) from None
    finally:
        os.close(errors.write_end)
    return gateway, errors
