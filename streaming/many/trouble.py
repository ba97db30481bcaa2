"""Tables in trouble: behind their lag contract while nothing is recorded, or stuck in work without an end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from functools import partial

from tailbit.streaming.java.session import on_one_machine
from tailbit.streaming.life.crew import Crew
from tailbit.streaming.life.processes import sees_cpu_time
from tailbit.streaming.many.followed import Shared
from tailbit.streaming.many.member import LARGE_STALL_S, Member
from tailbit.streaming.seen.table_state import TableState
from tailbit.streaming.upkeep.mending import Tell
from tailbit.streaming.workers import beside, end_jobs

_UNSTUCK = (
    "The other tables go on, and so does this one once its store answers; what it had on Spark's workers is "
    "ended and done again. If the store is well, start again."
)


def tell_behind(members: Iterable[Member], tell: Tell) -> None:
    """Set the state of tables whose commits wait for too long while a part goes on, or none can begin."""
    for member in members:
        if member.standing.state is TableState.FOLLOWING and member.is_behind:
            member.standing.becomes(TableState.BEHIND)
            tell(f"{member.entry.id}: behind, after following")


def give_up_stuck(members: Iterable[Member], looks: Crew, crews: Sequence[Crew], shared: Shared) -> None:
    """Give up work without a sign of life: its thread counts no more, its Spark jobs are cancelled.

    `looks`: the crew that cancels the jobs. `crews`: all crews whose threads may be at work on a table.
    """
    for member in members:
        if member.gone and member.is_stuck:
            # Given up already; the jobs by its id are those of the table as it is configured now.
            continue
        at_work = os.path.join(shared.at_work, member.entry.id)
        member.sign_if_busy(at_work)
        limit = member.entry.stuck_after
        limit = max(large_stall_s(shared), limit) if member.large else limit
        seconds = member.seconds_stuck()
        if member.job is None or seconds <= limit:
            continue
        if member.ending is None or member.ending.result.done():
            # Other tables wait for the workers. Asked again, since a job may begin after a cancellation.
            member.ending = looks.submit(partial(end_jobs, shared.spark, at_work))
        if member.is_stuck:
            continue
        for crew in crews:
            crew.give_up(member.job)
        reason = f"no sign of life for {seconds:.0f} s: {member.life.doing}"
        member.standing.becomes(TableState.STUCK, reason, _UNSTUCK)
        shared.tell(f"{member.entry.id}: stuck: {reason}. {_UNSTUCK}")


def end_hung_beside(members: Iterable[Member], looks: Crew, shared: Shared) -> None:
    """End the Spark jobs beside the batches whose tasks hang: all tables wait for the workers that they hold.

    Such a job (a fill, a merge) is begun again later. `looks`: the crew that ends them.
    """
    for member in members:
        at_work = beside(os.path.join(shared.at_work, member.entry.id))
        seconds = member.seconds_stuck_beside(at_work)
        if seconds <= max(large_stall_s(shared), member.entry.stuck_after):
            continue
        member.signed_beside = time.monotonic()
        looks.submit(partial(end_jobs, shared.spark, at_work))
        doing = f"work on Spark's workers beside the batches gave no sign of life for {seconds:.0f} s"
        shared.tell(f"{member.entry.id}: {doing}; it is ended, and begun again later")


def large_stall_s(shared: Shared) -> float:
    """Return the seconds that a large part may give no sign of life; 0 if CPU time shows that it works."""
    seen = sees_cpu_time() and on_one_machine(shared.master)
    return 0.0 if seen else LARGE_STALL_S
