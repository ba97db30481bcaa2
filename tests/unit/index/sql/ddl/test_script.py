"""Several statements in one text are read one by one, and what cannot be one of them is told by its line."""

from __future__ import annotations

import pytest

from tailbit.errors import StatementError
from tailbit.index.sql.ddl.parser import parse_script, script_of


def test_semicolons_in_texts_names_and_comments_end_no_statement() -> None:
    text = """
    -- first; of two
    CREATE INDEX `a;b` ON t (concat(s, ';')) COMMENT 'x;y';;
    /* ; */ ALTER INDEX `a;b` ON t REBUILD
    """
    assert [scripted.statement.name for scripted in parse_script(text)] == ["a;b", "a;b"]


def test_a_time_zone_holds_for_the_statements_after_it() -> None:
    text = "CREATE INDEX a ON t (v); set time zone 'Asia/Tokyo'; CREATE INDEX b ON t (date(ts))"
    assert [scripted.zone for scripted in parse_script(text)] == ["UTC", "Asia/Tokyo"]


def test_a_script_reads_as_it_was_written() -> None:
    text = (
        "SET TIME ZONE 'Asia/Tokyo'; CREATE INDEX IF NOT EXISTS d ON delta.`/a b` USING bitmap (date(ts)) "
        "OPTIONS (counts = 'off') WITH DEFERRED REBUILD COMMENT 'it\\'s' WHERE p = 1; "
        "SET TIME ZONE 'UTC'; CREATE INDEX e ON t USING column_stats (*) IDXPROPERTIES ('Who' = 'me')"
    )
    script = parse_script(text)
    assert parse_script(script_of(script)) == script
    assert parse_script("") == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CREATE INDEX a ON t (v);\n\nDROP INDEX a ON t", "line 3: it makes no index"),
        ("CREATE INDEX a ON t (v);\nCREATE INDEX b ON t (v + )", "line 2"),
        ("CREATE INDEX a ON t (v);\nSET TIME ZONE 'Nowhere'", "there is no time zone"),
        ("SET TIME ZONE LOCAL", "SET TIME ZONE"),
        ("CREATE INDEX a ON t ('", "not closed"),
        ("SELECT 1", "SELECT"),
    ],
)
def test_what_makes_no_index_is_refused_by_its_line(text: str, told: str) -> None:
    with pytest.raises(StatementError) as refused:
        parse_script(text)
    assert told in f"{refused.value} {refused.value.hint}"
