"""The named errors of a query that Spark or its Java ended, or did not start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tailbit.base.errors import StreamError, TailbitError
from tailbit.streaming.life.cluster import ended_by_cluster
from tailbit.streaming.upkeep.patience import lost_worker, refused_write

_LOST_TASK = re.compile(r".*Job aborted due to stage failure: .* most recent failure: Lost task [^:]*: ")
"""How Spark's message begins about a task that failed; the reason follows."""


def query_failed(text: str, checkpoint: str, master: str) -> TailbitError:
    """Return the named error for a message of Spark that it ended the query of a checkpoint.

    `master`: of that Spark; if empty, the end of a cluster is not considered as the cause.
    """
    ended = ended_by_cluster(text, master) if master else None
    if ended is not None:
        return ended
    refused = refused_write(text, checkpoint)
    if refused is not None:
        return refused
    lost = " (a Python process was lost)" if lost_worker(text) else ""
    return StreamError(reason=in_short(text) + lost, checkpoint=checkpoint)


@contextmanager
def spark_errors_named(checkpoint: str, master: str) -> Iterator[None]:
    """Give errors of Spark and of its Java in the block their names, for the query of a checkpoint.

    Raises:
        ClusterError: the master did not answer, or refused or ended the application.
        StreamError: Spark did not start or the query failed, for another reason; or Java is gone.
        StorageError: a write of Spark's was refused.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as failed:
        raise query_failed(str(failed.java_exception), checkpoint, master) from failed
    except PySparkException as refused:
        raise query_failed(str(refused), checkpoint, "") from refused
    except (OSError, Py4JError) as gone:
        raise java_is_gone(checkpoint, gone) from gone


def java_is_gone(checkpoint: str, gone: Exception) -> StreamError:
    """Return the error for a query whose Java process does not answer any more."""
    return StreamError(
        reason=f"its Java process is gone ({type(gone).__name__})",
        checkpoint=checkpoint,
        hint="Start it again: it goes on where the index was. If nobody ended Java, the kernel's log may say"
        " why: it kills processes where memory runs out.",
    )


def in_short(text: str) -> str:
    """Return a message of Spark in one line: its innermost cause, or its first line with the Python error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    caused = [line for line in lines[1:] if line.startswith(": ")]
    if caused:
        return _LOST_TASK.sub("", caused[-1][2:])
    raised = [line for line in lines[1:] if re.match(r"[\w.]+(Error|Exception): ", line)]
    return lines[0] if not raised else f"{lines[0]} ({raised[0]})"
