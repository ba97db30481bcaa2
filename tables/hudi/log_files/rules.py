"""The merge rule of a MERGE_ON_READ table, from its properties; a rule that is not proven is refused.

From table version 8 on the properties name a merge mode; before, the payload class implied the mode.
Source: HoodieTableConfig, inferMergingConfigsForV9TableCreation; HoodieRecordPayload.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailbit.tables.hudi.log_files.plan import MergeRule

MODE, ORDERING, OLD_ORDERING = (
    *("hoodie.record.merge.mode", "hoodie.table.ordering.fields"),
    "hoodie.table.precombine.field",
)
MODES = ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")
_STRATEGY = "hoodie.record.merge.strategy.id"
_OLD_STRATEGY = "hoodie.compaction.record.merger.strategy"
"""The property that releases before 1.0 write with one value for all payload classes; the class decides."""
_STRATEGIES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MODES[0],
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MODES[1],
}
_PAYLOADS = {
    "DefaultHoodieRecordPayload": MODES[0],
    "EventTimeAvroPayload": MODES[0],
    "OverwriteWithLatestAvroPayload": MODES[1],
}
_CLASSES = ("hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class")
_NEVER = ("hoodie.table.partial.update.mode", "hoodie.payload.delete.field", "hoodie.payload.delete.marker")
_NEVER_BEGINS = "hoodie.record.merge.property."


def merge_rule(values: Mapping[str, str]) -> MergeRule:
    """Return the rule of a table whose properties `refused_rules` does not refuse."""
    ordering = values.get(ORDERING) or values.get(OLD_ORDERING) or ""
    columns = tuple(name.strip() for name in ordering.split(",") if name.strip())
    said = _modes(values)
    mode = next(iter(said.values())) if said else MODES[0 if columns else 1]
    by_time = mode == MODES[0]
    return MergeRule(by_time, columns, not by_time and bool(columns) and _is_old(values))


def _is_old(values: Mapping[str, str]) -> bool:
    """Return whether a release before 1.0 made a table: then only the payload class tells its merge mode."""
    return not values.get(MODE) and not values.get(_STRATEGY)


def refused_rules(values: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that demand a merge that is not proven, with their values.

    >>> refused_rules({"hoodie.record.merge.mode": "CUSTOM"})
    {'hoodie.record.merge.mode': 'CUSTOM'}
    """
    wrong = {
        name: value for name, value in values.items() if name in _NEVER or name.startswith(_NEVER_BEGINS)
    }
    if values.get(_OLD_STRATEGY) and values[_OLD_STRATEGY] not in _STRATEGIES:
        wrong[_OLD_STRATEGY] = values[_OLD_STRATEGY]
    said = _modes(values)
    wrong |= {name: values[name] for name, mode in said.items() if mode not in MODES}
    if len({*said.values()}) > 1 and not wrong:
        wrong = {name: values[name] for name in said}
    if values.get("hoodie.populate.meta.fields", "true").lower() == "false":
        wrong["hoodie.populate.meta.fields"] = values["hoodie.populate.meta.fields"]
    return wrong


def _modes(values: Mapping[str, str]) -> dict[str, str]:
    """Return the mode that each property stands for, if it is set; its own value if the mode is unknown."""
    said = {MODE: values[MODE].upper()} if values.get(MODE) else {}
    if values.get(_STRATEGY):
        said[_STRATEGY] = _STRATEGIES.get(values[_STRATEGY], values[_STRATEGY])
    for name in _CLASSES:
        if values.get(name):
            said[name] = _PAYLOADS.get(values[name].rpartition(".")[2], values[name])
    return said
