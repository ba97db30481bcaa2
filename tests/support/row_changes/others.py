"""What other writers do to a table between the changes of a history, and to its copy."""

from __future__ import annotations

from support.row_changes.table import Pair


class Others:
    """Other writers of a table; `done`: what has been done, to which they add."""

    def __init__(self, pair: Pair, done: list[str]) -> None:
        self._pair, self._done = pair, done

    def other(self) -> None:
        """Another writer's statement."""
        pair, rng = self._pair, self._pair.rng
        if rng.random() < 0.4:
            self._done.append(pair.insertion(rng.randrange(1, 6)))
            pair.both(self._done[-1])
        elif rng.random() < 0.4:
            self._done.append("OPTIMIZE")
            pair.run("OPTIMIZE THIS_TABLE", pair.path)
        else:
            condition = pair.condition()
            form = rng.choice(("UPDATE THIS_TABLE SET n = 2 WHERE {}", "DELETE FROM THIS_TABLE WHERE {}"))
            self._done.append(form.format(condition))
            pair.both(self._done[-1])

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
