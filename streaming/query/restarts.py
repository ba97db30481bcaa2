"""A query runs until it ends, and is started again after failures that may pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import StorageError, StreamError, TailbitError
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.upkeep import spark_checkpoint
from tailbit.streaming.upkeep.mending import Tell
from tailbit.streaming.upkeep.patience import LONGEST_S, Patience, worth_a_restart

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
        """Call `attend`, which runs a query, until it returns True or `stop` is set; pause after failures.

        Raises:
            TailbitError: waiting does not help, or has lasted too long.
        """
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
        """Wait after a failure; then it is tried again.

        Raises:
            TailbitError: waiting does not help, or has lasted too long.
        """
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
