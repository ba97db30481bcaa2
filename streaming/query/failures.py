"""The named errors of a query that Spark or its Java ended, and the restarts after failures that may pass."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import StorageError, StreamError, TailbitError
from tailbit.base.wording import Tell
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming import spark_checkpoint
from tailbit.streaming.patience import LONGEST_S, Patience, lost_worker, refused_write, worth_a_restart
from tailbit.streaming.watch.cluster import ended_by_cluster

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


_SIGNS = 10
"""A query that ran for longer than the longest pause with as many signs of life went well until it failed."""


@dataclass
class Restarts:
    """The restarts of the query of one checkpoint.

    `cause`: returns the true cause of an error. `mend`: removes the cause, if it can, once the pause is over.
    `worked`: set by a query that did something, for which the pauses become short again.
    """

    checkpoint: str
    stop: threading.Event
    tell: Tell
    life: Liveness
    patience: Patience = field(default_factory=Patience)
    cause: Callable[[TailbitError], TailbitError] = lambda met: met
    mend: Callable[[TailbitError, Patience], None] = lambda met, patience: None
    worked: bool = False

    def keep(self, attend: Callable[[], bool]) -> None:
        """Call `attend`, which runs a query, until it returns True or `stop` is set; pause after failures."""
        while not self.stop.is_set():
            began, moves = time.monotonic(), self.life.moves
            self.worked = False
            try:
                if attend():
                    return
            except TailbitError as met:
                went_well = time.monotonic() - began > LONGEST_S and self.life.moves - moves >= _SIGNS
                self.worked |= went_well
                self.pause_after(met)

    def pause_after(self, met: TailbitError) -> None:
        """Wait before a retry; raise the failure if waiting does not help, or has lasted too long."""
        if self.worked:
            self.patience.worked()
        failed, mended = self._after_reset(self.cause(met))
        pause = self.patience.pause(failed, mended)
        if pause is None:
            raise worth_a_restart(failed, self.patience.limit_s) from met
        if not mended:
            self.tell(f"{type(failed).__name__}: {failed}; tried again in {pause:.1f} s")
        self.life.pause(self.stop, pause, f"waiting after {type(failed).__name__}: {failed}")
        self.mend(failed, self.patience)

    def _after_reset(self, failed: TailbitError) -> tuple[TailbitError, bool]:
        """Reset a Spark checkpoint that was deleted or damaged during the query and so ended it.

        Return the error that remains, and whether the checkpoint was reset.
        """
        if not isinstance(failed, StreamError):
            return failed, False
        unusable = spark_checkpoint.why_unusable(self.checkpoint)
        if unusable is None and not spark_checkpoint.blames_checkpoint(str(failed)):
            return failed, False
        reason = unusable or str(failed.fields.get("reason"))
        try:
            return failed, spark_checkpoint.reset(self.checkpoint, reason, self.tell)
        except StorageError as refused:
            return refused, False
