"""Everything that can happen to a table, by name, each as often as it stands here."""

from __future__ import annotations

from collections.abc import Callable

from support.fuzzer import file_operations as files
from support.fuzzer import schema_operations as schema
from support.fuzzer import table_operations as tables
from support.fuzzer.built import BuiltHistory

Operation = Callable[[BuiltHistory], bool]
"""Changes the table; False, and nothing done, where that is not possible now."""

_OFTEN: dict[str, Operation] = {
    "append": files.append,
    "hide rows": files.hide_more,
    "show rows again": files.show_some,
    "copy-on-write delete": files.rewrite_without,
    "copy-on-write update": files.rewrite_changed,
    "update by deletion vectors": files.hide_and_add,
    "merge": files.merge,
    "optimize": files.optimize,
    "restore": tables.restore,
    "widen": schema.widen,
    "add column": schema.add_column,
}
_SELDOM: dict[str, Operation] = {
    "hide every row of a file": files.hide_all,
    "show every row": files.show_all,
    "overwrite": files.overwrite,
    "truncate": files.truncate,
    "replaceWhere": files.replace_where,
    "dynamic partition overwrite": files.overwrite_partitions,
    "other partition columns by overwrite": tables.repartition,
    "purge": files.purge,
    "statistics again": files.add_again,
    "other partition values": files.move_to_partitions,
    "commit without files": files.commit_nothing,
    "a file name comes back": files.reuse_name,
    "add nested column": schema.add_nested,
    "rename column": schema.rename,
    "drop column": schema.drop,
    "column mapping switched on": schema.map_names,
    "replace table": tables.replace_table,
    "drop and create again": tables.recreate,
    "folder put back from a backup": tables.put_back,
    "folder copied to a backup": tables.back_up,
    "log checkpoint": tables.log_checkpoint,
    "log cleaned up": tables.clean_log,
    "vacuum": tables.vacuum,
}
OPERATIONS = (*_OFTEN.items(), *_OFTEN.items(), *_SELDOM.items())
