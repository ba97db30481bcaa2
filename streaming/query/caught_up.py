"""A check before a run with `once`: if everything is indexed already, Spark is not started."""

from __future__ import annotations

from tailbit.base.errors import TailbitError
from tailbit.index.model import LedgerState
from tailbit.streaming.metrics import Progress, names_of
from tailbit.streaming.planner import Planner
from tailbit.streaming.query.launch import Prepared


def caught_up(prepared: Prepared) -> Progress | None:
    """Return the progress of an index that covers its table; None if there is work or an error to report.

    Asks the planner what a query without a Spark checkpoint would ask: if there is nothing to read, a query
    with a checkpoint could only replay a batch, which records nothing. Cost: one idle poll, a few stats or
    one request.
    """
    planner = Planner(prepared.table, prepared.index, prepared.settings)
    try:
        planner.freeze()
        begin = planner.initial()
        if begin.in_snapshot or planner.next(begin) != begin:
            return None
        ledger = prepared.index.state.ledger
        if ledger is None or ledger.state is not LedgerState.COMPLETE:
            return None
        version, lag = ledger.version, planner.lag(begin)
    except TailbitError:
        # A query meets the same error, and reports it by name.
        return None
    names = names_of(prepared.table, version, lag.head)
    root = prepared.table.root
    return Progress(
        root, version, version, version, lag.head, 0, 0, lag, 0.0, idle=True, look=True, names=names
    )
