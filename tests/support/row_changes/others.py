"""What other writers do to a table between the changes of a history, and the judge with them."""

from __future__ import annotations

import pyarrow as pa

from support.row_changes.table import Pair, last_version

UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"
"""Delta's guard against a VACUUM of what is not old, which histories do."""


class Others:
    """Other writers of a table; `done`: what has been done, to which they add."""

    def __init__(self, pair: Pair, done: list[str]) -> None:
        self._pair, self._done = pair, done
        self._kept: list[tuple[int, int | None, pa.Table, dict[str, str]]] = []

    def keep_versions(self) -> None:
        """Keep in mind that the rows are those of the judge now, for a RESTORE."""
        pair, twin = self._pair, self._pair.judge.twin
        twins = None if twin is None else last_version(twin)
        self._kept.append((last_version(pair.path), twins, pair.judge.rows.table, {**pair.columns}))

    def other(self) -> None:
        """Another writer's statement."""
        pair, rng = self._pair, self._pair.rng
        if rng.random() < 0.4:
            self._done.append(pair.insertion(rng.randrange(1, 6)))
            pair.both(self._done[-1])
        elif rng.random() < 0.4:
            self._done.append("OPTIMIZE")
            pair.run("OPTIMIZE THIS_TABLE")
        else:
            condition = pair.condition()
            form = rng.choice(("UPDATE THIS_TABLE SET n = 2 WHERE {}", "DELETE FROM THIS_TABLE WHERE {}"))
            self._done.append(form.format(condition))
            pair.both(self._done[-1])

    def maintenance(self) -> None:
        """An older version is put back, or nothing is left of the table but the newest."""
        pair = self._pair
        if self._kept and pair.rng.random() < 0.7:
            ours, theirs, rows, columns = pair.rng.choice(self._kept)
            self._done.append(f"RESTORE to {ours}, the copy to {theirs}")
            for path, version in ((pair.path, ours), (pair.judge.twin, theirs)):
                if path is not None:
                    pair.spark.sql(f"RESTORE delta.`{path}` TO VERSION AS OF {version}")
            pair.judge.rows.table, pair.columns = rows, {**columns}
        else:
            self._done.append("VACUUM")
            pair.spark.conf.set(UNCHECKED, "false")
            try:
                pair.spark.sql(f"VACUUM delta.`{pair.path}` RETAIN 0 HOURS")
            finally:
                pair.spark.conf.unset(UNCHECKED)
            self._kept.clear()

    def schema(self) -> None:
        """Another schema: a column comes, goes or has another name."""
        pair, rng = self._pair, self._pair.rng
        free = [name for name in pair.columns if name not in (*pair.key, "n", "v", "j", "k", "s")]
        if pair.is_mapped and free and rng.random() < 0.7:
            old, new = free[0], f"c{len(self._done)}"
            if rng.random() < 0.5:
                statement = f"ALTER TABLE THIS_TABLE RENAME COLUMN {old} TO {new}"
                pair.columns = {new if name == old else name: type_ for name, type_ in pair.columns.items()}
            else:
                statement = f"ALTER TABLE THIS_TABLE DROP COLUMN {old}"
                del pair.columns[old]
        else:
            type_, name = rng.choice(("INT", "STRING", "DATE", "DOUBLE")), f"c{len(self._done)}"
            statement = f"ALTER TABLE THIS_TABLE ADD COLUMN {name} {type_}"
            pair.columns[name] = type_
        self._done.append(statement)
        assert pair.both(statement), "refused"
