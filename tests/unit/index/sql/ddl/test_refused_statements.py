"""Statements that are refused: what is wrong, its place, and what to write instead, word by word."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from tailbit.errors import StatementError
from tailbit.index.sql.ddl.parser import parse_statement

CREATE = (
    "Write CREATE INDEX [IF NOT EXISTS] name ON table [USING kind] (term, ...) "
    "[OPTIONS (key = 'value', ...)] [WHERE condition]."
)
ALTER = "Write ALTER INDEX name ON table [PARTITION (column = value, ...)] REBUILD."
ALL = "Statements: CREATE INDEX, DROP INDEX, ALTER INDEX ... REBUILD, SHOW INDEXES and DESCRIBE INDEX."

TEXT = r"""
CREATE INDX i ON t (a)
  INDX stands where INDEX is expected at character 8
    Did you mean INDEX? {CREATE}
CREAT INDEX i ON t (a)
  CREAT stands where CREATE, DROP, ALTER, REFRESH, SHOW, DESCRIBE or DESC is expected at character 1
    Did you mean CREATE? {ALL}
CREATE INDEX ON t (a)
  ON stands where the name of an index is expected at character 14
CREATE INDEX i t (a)
  t stands where ON is expected at character 16
CREATE INDEX i ON (a)
  ( stands where the name of a table is expected at character 19
CREATE INDEX i ON t
  it ends where ( or USING is expected at character 20
CREATE INDEX i ON t USNG bitmap (a)
  USNG stands where ( or USING is expected at character 21
    Did you mean USING? {CREATE}
CREATE INDEX i ON t USING bitmap a
  a stands where ( is expected at character 34
CREATE INDEX i ON t (a) USING
  it ends where a kind of index is expected at character 30
CREATE INDEX IF EXISTS i ON t (a)
  EXISTS stands where NOT is expected at character 17
CREATE INDEX i ON t (a b)
  b stands where , or ) is expected at character 24
CREATE INDEX i ON t (lower(a)
  it ends where , or ) is expected at character 30
CREATE INDEX i ON t (lower(a) +)
  something is missing before ) at character 32
CREATE INDEX i ON t (a,)
  ) stands where a column or an expression is expected at character 24
CREATE INDEX i ON t ()
  ) stands where a column or an expression is expected at character 22
CREATE INDEX i ON t (a, (SELECT 1))
  a query in parentheses is not read at character 25
    Ask the other table first.
CREATE INDEX i ON t (count(*))
  * is not a value at character 28
    A condition is asked row by row. Write tailbit count TABLE "condition"; in Python: answer.count().
CREATE INDEX i ON t (a DESC)
  a term has no order, so no DESC at character 24
    Leave it out: ranges are found both ways.
CREATE INDEX i ON t (a OPTIONS (counts='off'))
  counts is no option of a term at character 33
    Options of the index stand behind its terms: (...) OPTIONS (...).
CREATE INDEX i ON t (a,b,c,d,e)
  an index of kind bitmap has 4 terms at most, not 5 at character 30
    Make two indexes: a question uses both.
CREATE INDEX i ON t (a,A)
  the term A stands twice at character 24
    Leave one out.
CREATE INDEX i ON t (a # b)
  the character # stands outside of quotes (PARSE_SYNTAX_ERROR in Spark) at character 24
    A comment begins with two minus signs: --. A name with # stands in backticks.
CREATE INDEX i ON t ('a)
  ' is not closed (PARSE_SYNTAX_ERROR in Spark) at character 22
    Close it; within a text it is written \'.
CREATE INDEX i ON t (a) WITH DEFERED REBUILD
  DEFERED stands where DEFERRED is expected at character 30
    Did you mean DEFERRED? {CREATE}
CREATE INDEX i ON t (a) IDXPROPERTES ('a'='b')
  IDXPROPERTES stands where USING, AS, OPTIONS, WHERE, WITH, IDXPROPERTIES, COMMENT or the end is expected at character 25
    Did you mean IDXPROPERTIES? {CREATE}
CREATE INDEX i ON t (a) IDXPROPERTIES ('counts'='off')
  counts is an option, not a note at character 40
    Write OPTIONS (counts = 'off').
CREATE INDEX i ON t (a) COMMENT
  it ends where a text in quotes is expected at character 32
CREATE INDEX i ON t (a) WHERE
  it ends where a condition on partition columns is expected at character 30
CREATE INDEX i ON t (a) WHERE p = 1 WHERE q = 2
  WHERE stands twice at character 37
CREATE INDEX i ON t USING bitmap (a) AS 'BITMAP'
  the kind stands twice at character 38
CREATE INDEX i ON t USING btree (a)
  there is no kind of index btree at character 27
    Kinds: bitmap, record_key, column_stats, bloom_filter.
CREATE INDEX i ON t USING bitmp (a)
  there is no kind of index bitmp at character 27
    Kinds: bitmap, record_key, column_stats, bloom_filter. Did you mean bitmap?
CREATE INDEX i ON t USING record_index (a) OPTIONS (counts = 'on')
  record_key takes no option counts at character 53
    Options of record_key: keys. OPTIONS (expr = 'lower') applies a function to a column.
CREATE INDEX i ON t USING bloom_filters(a) OPTIONS(fpp='0.01')
  bloom_filter takes no option fpp at character 52
    bloom_filter takes none. OPTIONS (expr = 'lower') applies a function to a column.
CREATE INDEX i ON t USING partition_stats (a)
  partition_stats is no index of its own: it is derived from column_stats at character 27
    Write USING column_stats (...).
CREATE INDEX i ON t USING bucket (a)
  bucket is no index of a table at character 27
    It is how a Hudi writer finds rows to update; a question is served by USING bitmap (...).
CREATE INDEX i ON TABLE t (a) AS 'AGGREGATE'
  the counts by value are part of an index of kind bitmap at character 34
    Write USING bitmap (...).
CREATE INDEX i ON t (a) OPTIONS (fpp=0.1)
  bitmap takes no option fpp at character 34
    Options of bitmap: counts. OPTIONS (expr = 'lower') applies a function to a column.
CREATE INDEX i ON t (a) OPTIONS (counts=off)
  the value of counts has no quotes at character 41
    Write it in quotes: counts = 'off'.
CREATE INDEX i ON t (a) OPTIONS (counts='of')
  counts is not 'of' at character 34
    Values of counts: auto, on, off.
CREATE INDEX i ON t (a) OPTIONS (counts='on', COUNTS='off')
  counts stands twice at character 47
CREATE INDEX i ON t USING column_stats (a) OPTIONS (counts='on')
  column_stats takes no option counts at character 53
    column_stats takes none. OPTIONS (expr = 'lower') applies a function to a column.
CREATE INDEX i ON t (a) OPTIONS (format='hour')
  bitmap takes no option format at character 34
CREATE INDEX i ON t (a) OPTIONS (expr='lowr')
  the function lowr is not read at character 39
    docs/functions.md names those that are. Nearest: lower, floor.
CREATE INDEX i ON t (a) OPTIONS (expr='lower(a)')
  expr names a function, not 'lower(a)' at character 39
    Write the expression itself: USING bitmap (date_trunc('hour', ts)).
CREATE INDEX i ON t (a) OPTIONS (expr='date_format')
  date_format takes the option format, which is not given at character 39
    Write OPTIONS (expr = 'date_format', format = ...).
CREATE INDEX i ON t (a) OPTIONS (expr='lower', format='x')
  lower takes no option format at character 48
    It takes none.
CREATE INDEX i ON t (a) OPTIONS (expr='substring', pos=1, len='x')
  len of substring is a whole number, not 'x' at character 63
    Write len = 1.
CREATE INDEX i ON t (a, b) OPTIONS (expr='lower')
  expr is applied to one column, and the index has 2 terms at character 37
    Write the expression itself among the terms: (date_trunc('hour', ts), carrier).
CREATE INDEX i ON t (lower(a)) OPTIONS (expr='upper')
  expr is applied to a column, not to lower(a) at character 41
CREATE INDEX i ON TABLE t (a) AS 'COMPACT' IN TABLE u
  IN TABLE has no meaning for an index at character 44
    Leave it out: an index is no table to ask; DESCRIBE INDEX shows what it holds.
CREATE INDEX i ON TABLE t (a) AS 'COMPACT' PARTITIONED BY (p)
  PARTITIONED BY has no meaning for an index at character 44
    Leave it out: an index follows the partitions of its table, and WHERE on partition columns makes it of a part.
CREATE INDEX i ON TABLE t (a) AS 'COMPACT' ROW FORMAT DELIMITED
  ROW FORMAT has no meaning for an index at character 44
    Leave it out: an index has a form of its own, docs/index-format.md.
CREATE INDEX i ON TABLE t (a) AS 'COMPACT' STORED AS RCFILE
  STORED AS has no meaning for an index at character 44
CREATE INDEX i ON TABLE t (a) AS 'COMPACT' STORED BY 'x'
  STORED BY has no meaning for an index at character 44
CREATE INDEX i ON TABLE t (a) AS 'COMPACT' LOCATION '/x'
  LOCATION has no meaning for an index at character 44
    Leave it out: an index lies in TABLE/_tailbit, or where --index says.
CREATE INDEX i ON TABLE t (a) AS 'COMPACT' TBLPROPERTIES ('a'='b')
  TBLPROPERTIES has no meaning for an index at character 44
    Leave it out, or write IDXPROPERTIES (...) for notes that are kept.
CREATE INDEX i ON t (a); DROP INDEX i ON t
  a second statement follows at character 26
    Run one statement at a time.
CREATE UNIQUE INDEX i ON t (a)
  UNIQUE stands between CREATE and INDEX at character 8
    No index keeps keys unique: leave UNIQUE out.
CREATE OR REPLACE INDEX i ON t (a)
  OR stands between CREATE and INDEX at character 8
    Drop the index first: DROP INDEX IF EXISTS name ON table.
CREATE INDEX my-index ON t (a)
  a - stands within the name of an index at character 16
    Put a name in backticks: `my-index`. The path of a table stands in quotes: '/data/t'.
CREATE INDEX 'i' ON t (a)
  the name of an index stands in quotes at character 14
    Write it without quotes, or in backticks: i
CREATE INDEX `` ON t (a)
  the name of an index is empty at character 14
CREATE INDEX i ON /data/t (a)
  the path of a table has no quotes at character 19
    The path of a table stands in quotes: '/data/t'.
CREATE INDEX i ON s3://b/t (a)
  a : stands within the name of a table at character 21
CREATE INDEX i ON '' (a)
  the path of the table is empty at character 19
CREATE INDEX i ON a.b.c.d (a)
  a table has 3 names at most, not 4 at character 19
    Write catalog.schema.table, or delta.`path`.
CREATE INDEX i ON parquet.`/data/t` (a)
  parquet is no Delta table at character 19
    Write delta.`path`.
DROP INDEX i
  it ends where ON is expected at character 13
    Write DROP INDEX [IF EXISTS] name ON table.
DROP INDEX i ON t CASCADE
  CASCADE stands where the end is expected at character 19
ALTER INDEX i ON t
  it ends where REBUILD or PARTITION is expected at character 19
ALTER INDEX i ON t REBULD
  REBULD stands where REBUILD or PARTITION is expected at character 20
    Did you mean REBUILD? {ALTER}
ALTER INDEX i ON t SET IDXPROPERTIES ('a'='b')
  an index is not changed by SET at character 20
    Drop it and make it again: DROP INDEX name ON table; then CREATE INDEX.
ALTER INDEX i RENAME TO j
  an index is not changed by RENAME at character 15
ALTER INDEX i ON t PARTITION (p > 1) REBUILD
  a partition is written column = value, not p > 1 at character 31
ALTER INDEX i ON t PARTITION (p = q) REBUILD
  the value of a partition is a constant, not p = q at character 31
ALTER INDEX i ON t PARTITION () REBUILD
  ) stands where column = value is expected at character 31
SHOW INDEXES t
  t stands where FROM, ON or IN is expected at character 14
    Write SHOW INDEXES FROM table.
SHOW TABLES
  SHOW TABLES is no statement about indexes at character 1
DESCRIBE t
  t stands where INDEX is expected at character 10
    Write DESCRIBE INDEX name ON table.
SELECT count(*) FROM t WHERE a = 1
  SELECT begins no statement about indexes at character 1
    Write tailbit count TABLE "condition", or tailbit summary TABLE COLUMN for sums and extremes; in Python: answer.count(), answer.sum().
WITH x AS (SELECT 1) SELECT * FROM x
  WITH begins no statement about indexes at character 1
    Give only a condition, such as carrier = 'UA'; tailbit --help lists the commands.
INSERT INTO t VALUES (1)
  INSERT begins no statement about indexes at character 1
    Rows are deleted by tailbit erase TABLE --where "condition"; other changes are made in Spark.
MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE
  MERGE begins no statement about indexes at character 1
CREATE TABLE t (a INT)
  CREATE TABLE is no statement about indexes at character 1
ALTER TABLE t ADD COLUMNS (a INT)
  ALTER TABLE is no statement about indexes at character 1
SET hoodie.metadata.record.index.enable=true;
  SET begins no statement about indexes at character 1
    Leave it out: an index is used as soon as it is there.
OPTIMIZE t
  OPTIMIZE begins no statement about indexes at character 1
    Run it in Spark for the table; for its index: tailbit compact TABLE.
a = 1
  a stands where CREATE, DROP, ALTER, REFRESH, SHOW, DESCRIBE or DESC is expected at character 1
-- nothing
  it is empty
;
  it is empty
"""
"""A statement, what is wrong with it, and a hint that no statement above has been given."""


def refused() -> list[tuple[str, str, str]]:
    """Return each statement of the text with its reason and, where it stands there, its hint."""
    listed: list[tuple[str, str, str]] = []
    for line in TEXT.strip().splitlines():
        if not line.startswith("  "):
            listed.append((line, "", ""))
        elif not line.startswith("    "):
            listed[-1] = (listed[-1][0], line.strip(), "")
        else:
            listed[-1] = (*listed[-1][:2], line.strip().format(CREATE=CREATE, ALTER=ALTER, ALL=ALL))
    return [("", "it is empty", ""), *listed]


REFUSED = refused()
HINTS = {CREATE, ALTER, ALL, *(hint for _, _, hint in REFUSED if hint)}


@pytest.mark.parametrize(("text", "reason", "hint"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_a_wrong_statement_is_refused_with_its_place_and_what_to_write(
    text: str, reason: str, hint: str
) -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement(text)
    assert str(caught.value.fields["reason"]).split("\n")[0] == reason
    assert caught.value.hint in ({hint} if hint else HINTS)


def test_a_refusal_shows_the_line_and_a_caret_below_the_word() -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement("CREATE INDEX i\n  ON t (a)\n  WITH DEFERED REBUILD")
    assert str(caught.value) == (
        "statement 'CREATE INDEX i\\n  ON t (a)\\n  WITH DEFERED REBUILD': "
        "DEFERED stands where DEFERRED is expected at character 34\n"
        "      WITH DEFERED REBUILD\n"
        "           ^"
    )


def test_a_statement_nested_too_deeply_is_refused() -> None:
    with pytest.raises(StatementError, match="nested too deeply"):
        parse_statement(f"CREATE INDEX i ON t ({'(' * 9999}a{')' * 9999})")


def test_a_semicolon_is_still_no_part_of_a_condition() -> None:
    with pytest.raises(StatementError, match=r"it ends where , or \) is expected at character 23"):
        parse_statement("CREATE INDEX i ON t (a; b)")
