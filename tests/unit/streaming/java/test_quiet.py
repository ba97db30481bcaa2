"""What Spark's own Python code logs or raises in its threads, and what else is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tailbit.streaming.java.gateway import is_sparks_own

PY4J = "/x/site-packages/py4j/java_gateway.py"
THREADING = "/usr/lib/python3.11/threading.py"


@pytest.mark.parametrize(
    ("files", "own"),
    [
        ([THREADING, PY4J], True),
        ([THREADING, "/x/pyspark/accumulators.py", PY4J], True),
        ([THREADING, "/x/tailbit/streaming/merging.py", PY4J], False),
        ([THREADING], False),
        ([], False),
    ],
)
def test_a_thread_is_sparks_own_where_no_other_code_is_on_its_stack(files: list[str], own: bool) -> None:
    assert is_sparks_own(files) is own


def test_what_py4j_logs_of_a_java_that_is_gone_is_not_told_and_all_else_is() -> None:
    done = subprocess.run([sys.executable, "-c", _LOGGED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "of another"
    assert "told of a thread" in done.stderr
    assert "py4j" not in done.stderr


_LOGGED = """
import logging, threading
from tailbit.streaming.java.gateway import hush_python
hush_python()
code = "def call():\\n    try: raise EOFError\\n    except EOFError: logging.exception('py4j lost it')\\n"
spark = {"logging": logging}
exec(compile(code, "/x/py4j/java_gateway.py", "exec"), spark)
spark["call"]()
exec(compile("def fail(): raise EOFError('py4j')", "/x/py4j/clientserver.py", "exec"), spark)
def ours(): raise ValueError("told of a thread")
logging.getLogger("q").warning("of another")
for target in (spark["fail"], ours):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
"""
