"""Statements as people of Hudi, Hive and Spark write them, and the values that they become."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tailbit.errors import PredicateError, StatementError
from tailbit.index.sql.ddl.parser import parse_script, parse_statement, script_of
from tailbit.index.sql.ddl.statements import (
    CreateIndex,
    DescribeIndex,
    DropIndex,
    RebuildIndex,
    ShowIndexes,
    Statement,
    TableReference,
    WrittenExpression,
)


def name(*parts: str) -> TableReference:
    return TableReference("name", parts)


def path(text: str) -> TableReference:
    return TableReference("path", (text,))


def terms(*texts: str) -> tuple[WrittenExpression, ...]:
    return tuple(map(WrittenExpression, texts))


T = name("t")

OF_HUDI: list[tuple[str, Statement]] = [
    (
        "CREATE INDEX IF NOT EXISTS ts_datestr ON hudi_table \n  USING column_stats(ts) \n"
        "  OPTIONS(expr='from_unixtime', format='yyyy-MM-dd');",
        CreateIndex(
            "ts_datestr",
            name("hudi_table"),
            terms("from_unixtime(ts, 'yyyy-MM-dd')"),
            "column_stats",
            if_not_exists=True,
        ),
    ),
    (
        "-- hours\nCREATE INDEX ts_hour ON hudi_table USING column_stats(ts) options(expr='hour');",
        CreateIndex("ts_hour", name("hudi_table"), terms("hour(ts)"), "column_stats"),
    ),
    (
        "create index idx_datestr on t using column_stats(ts) options(func='from_unixtime', format='yyyy')",
        CreateIndex("idx_datestr", T, terms("from_unixtime(ts, 'yyyy')"), "column_stats"),
    ),
    (
        "CREATE INDEX record_index ON hudi_indexed_table (uuid);",
        CreateIndex("record_index", name("hudi_indexed_table"), terms("uuid")),
    ),
    (
        "CREATE INDEX driver_idx ON hudi_table USING secondary_index(driver)",
        CreateIndex("driver_idx", name("hudi_table"), terms("driver")),
    ),
    (
        "CREATE INDEX i ON TABLE db.t USING bitmap(ts) OPTIONS(expr='date_trunc', format='hour')",
        CreateIndex("i", name("db", "t"), terms("date_trunc('hour', ts)")),
    ),
    (
        "CREATE INDEX i ON t (a OPTIONS (expr='lower'), b) OPTIONS (counts = 'off')",
        CreateIndex("i", T, terms("lower(a)", "b"), options={"counts": "off"}),
    ),
    ("DROP INDEX record_index ON hudi_indexed_table;", DropIndex("record_index", name("hudi_indexed_table"))),
    ("DROP INDEX IF EXISTS i ON TABLE t", DropIndex("i", T, True)),
    ("SHOW INDEXES FROM hudi_indexed_table;", ShowIndexes(name("hudi_indexed_table"))),
    ("SHOW INDEXES IN TABLE t", ShowIndexes(T)),
    ("REFRESH INDEX i ON t", RebuildIndex("i", T)),
]
OF_HIVE: list[tuple[str, Statement]] = [
    (
        "CREATE INDEX x ON TABLE t(j) \nAS 'org.apache.hadoop.hive.ql.index.compact.CompactIndexHandler';",
        CreateIndex("x", T, terms("j")),
    ),
    (
        "CREATE INDEX x ON TABLE t(i, j) AS 'org.apache.hadoop.hive.ql.index.bitmap.BitmapIndexHandler'",
        CreateIndex("x", T, terms("i", "j")),
    ),
    (
        "CREATE INDEX src_index ON TABLE src(key) as 'BITMAP' WITH DEFERRED REBUILD;",
        CreateIndex("src_index", name("src"), terms("key"), deferred=True),
    ),
    (
        "CREATE INDEX i ON TABLE t (c) AS 'COMPACT' WITH DEFERRED REBUILD "
        'IDXPROPERTIES ("prop1"="value1", "Prop2"="value2") COMMENT "it\'s ours"',
        CreateIndex(
            "i",
            T,
            terms("c"),
            deferred=True,
            properties={"prop1": "value1", "Prop2": "value2"},
            comment="it's ours",
        ),
    ),
    (
        "CREATE INDEX i ON TABLE t (c) AS 'BITMAP' COMMENT 'n' IDXPROPERTIES (a.b = 1) WITH DEFERRED REBUILD",
        CreateIndex("i", T, terms("c"), deferred=True, properties={"a.b": "1"}, comment="n"),
    ),
    (
        "ALTER INDEX i ON t PARTITION (columnX='valueQ', columnY=DATE'2024-01-01') REBUILD;",
        RebuildIndex("i", T, WrittenExpression("columnX='valueQ' AND columnY=DATE'2024-01-01'")),
    ),
    ("ALTER INDEX i ON t PARTITION (p = NULL) REBUILD", RebuildIndex("i", T, WrittenExpression("p IS NULL"))),
    ("ALTER INDEX src_index ON src REBUILD;", RebuildIndex("src_index", name("src"))),
    ("SHOW FORMATTED INDEX ON table02;", ShowIndexes(name("table02"), True)),
    ("show indexes on customer", ShowIndexes(name("customer"))),
    ("SHOW INDEX ON t FROM db", ShowIndexes(name("db", "t"))),
    ("DROP INDEX IF EXISTS table09_index ON table09;", DropIndex("table09_index", name("table09"), True)),
]
OUR_OWN: list[tuple[str, Statement]] = [
    (
        "create index i on t using bitmap(lower(email)) where country in ('DE', 'FR') with deferred rebuild",
        CreateIndex(
            "i",
            T,
            terms("lower(email)"),
            only=WrittenExpression("country in ('DE', 'FR')"),
            deferred=True,
        ),
    ),
    (
        "CREATE INDEX i ON t (a.b.c, `air time`, CAST(x AS INT), y) USING bitmap",
        CreateIndex("i", T, terms("a.b.c", "`air time`", "CAST(x AS INT)", "y")),
    ),
    (
        "CREATE INDEX s ON t USING column_stats (a, b, c, d, e, f)",
        CreateIndex("s", T, terms(*"abcdef"), "column_stats"),
    ),
    ("CREATE INDEX i ON delta.`/data/t` (a)", CreateIndex("i", path("/data/t"), terms("a"))),
    ("CREATE INDEX i ON 's3://bucket/t' (a)", CreateIndex("i", path("s3://bucket/t"), terms("a"))),
    ("CREATE INDEX i ON `data/t` (a)", CreateIndex("i", path("data/t"), terms("a"))),
    ("CREATE INDEX i ON `flights` (a)", CreateIndex("i", name("flights"), terms("a"))),
    ("CREATE INDEX `on` ON c.`my db`.t (a)", CreateIndex("on", name("c", "my db", "t"), terms("a"))),
    ("ALTER INDEX i ON t REBUILD WHERE p > 1", RebuildIndex("i", T, WrittenExpression("p > 1"))),
    ("DESCRIBE INDEX i ON t", DescribeIndex("i", T)),
    ("DESC FORMATTED INDEX i ON t /* all of it */ ; ;", DescribeIndex("i", T, True)),
    ("describe index extended i on table 't'", DescribeIndex("i", path("t"), True)),
    ("DESCRIBE INDEX formatted ON t", DescribeIndex("formatted", T)),
]


@pytest.mark.parametrize(("text", "value"), OF_HUDI + OF_HIVE + OUR_OWN)
def test_a_statement_as_people_write_it_becomes_its_value(text: str, value: Statement) -> None:
    assert parse_statement(text) == value


@pytest.mark.parametrize(
    ("options", "term"),
    [
        ("expr='identity'", "c"),
        ("expr='DATE_FORMAT', format='yyyy-MM'", "date_format(c, 'yyyy-MM')"),
        ("expr='from_unixtime'", "from_unixtime(c)"),
        ("expr='unix_timestamp', format='yyyy'", "unix_timestamp(c, 'yyyy')"),
        ("expr='to_date', format='dd.MM.yyyy'", "to_date(c, 'dd.MM.yyyy')"),
        ("expr='to_timestamp'", "to_timestamp(c)"),
        ("expr='date_add', days='10'", "date_add(c, 10)"),
        ("expr='date_sub', days=-3", "date_sub(c, -3)"),
        ("expr='substring', pos=1, len=2", "substring(c, 1, 2)"),
        ("expr='trim'", "trim(c)"),
        ("expr='ltrim'", "ltrim(c)"),
        ("expr='rtrim', trimString='/'", "trim(TRAILING '/' FROM c)"),
        ("expr='trim', trimstring='it\\'s'", "trim(BOTH 'it\\'s' FROM c)"),
        ("expr='regexp_extract', pattern='a\\\\\\\\d', idx=0", "regexp_extract(c, 'a\\\\\\\\d', 0)"),
        ("expr='regexp_replace', pattern='a', replacement=''", "regexp_replace(c, 'a', '')"),
        ("expr='split', pattern=','", "split(c, ',')"),
        ("expr='day'", "day(c)"),
        ("expr='length'", "length(c)"),
        ("expr='trunc', format='MM'", "trunc(c, 'MM')"),
        ("expr='quarter'", "quarter(c)"),
    ],
)
def test_the_options_of_an_expression_index_of_hudi_become_the_call_that_hudi_makes(
    options: str, term: str
) -> None:
    create = parse_statement(f"CREATE INDEX i ON t USING bitmap(c) OPTIONS({options})")
    assert isinstance(create, CreateIndex)
    assert [str(term) for term in create.terms] == [term]


def test_a_term_keeps_its_text_its_place_and_its_tree() -> None:
    text = "CREATE INDEX i ON t ( lower( email ) /* why */, a.b)"
    create = parse_statement(text)
    assert isinstance(create, CreateIndex)
    lower, nested = create.terms
    assert (lower.text, text[lower.place :][: len(lower.text)]) == ("lower( email )", "lower( email )")
    assert (lower.tree.kind, lower.tree.text, lower.column) == ("call", "lower", ())
    assert (nested.column, nested.place) == (("a", "b"), text.index("a.b"))
    with pytest.raises(StatementError, match=r"of no use at character 49\n.*\n {52}\^"):
        nested.refuse("of no use")


def test_a_value_that_is_made_without_text_is_checked_as_one_of_a_text() -> None:
    assert WrittenExpression(" lower(a) -- why").text == "lower(a)"
    with pytest.raises(PredicateError, match="it is empty"):
        WrittenExpression("")
    for wrong, reason in (
        ({"kind": "btree"}, "there is no kind of index btree"),
        ({"terms": ()}, "the index has no term"),
        ({"terms": terms(*"abcde")}, "an index of kind bitmap has 4 terms at most, not 5"),
        ({"terms": terms("a", "`A`")}, "the term `A` stands twice"),
        ({"options": {"fpp": "1"}}, "bitmap takes no option fpp"),
        ({"options": {"counts": "1"}}, "counts is not '1'"),
    ):
        with pytest.raises(StatementError, match=reason):
            CreateIndex(**{"name": "i", "table": T, "terms": terms("a"), **wrong})  # type: ignore[arg-type]


def test_texts_that_differ_in_case_alone_are_two_terms_within_quotes() -> None:
    create = parse_statement("CREATE INDEX i ON t (concat(a, 'x'), concat(a, 'X'))")
    assert isinstance(create, CreateIndex)
    assert len(create.terms) == 2


def test_the_text_of_a_table_is_its_path_or_its_names() -> None:
    assert (path("/data/my t").text, name("db", "my t").text) == ("/data/my t", "db.`my t`")


@pytest.mark.parametrize("text", ["i ON t (a) COMMENT '\\u0024{x}'", "i ON '/data/\\u0024{x}' (a)"])
def test_what_spark_takes_for_a_variable_is_escaped_in_canonical_sql(text: str) -> None:
    create = parse_statement(f"CREATE INDEX {text}")
    assert isinstance(create, CreateIndex)
    assert create.comment + create.table.text in ("${x}t", "/data/${x}")
    assert parse_statement(str(create)) == create


PAGE = Path(__file__).parents[5] / "docs" / "for-hudi-users.md"


def test_the_statements_of_the_page_for_hudi_users_are_read() -> None:
    (block,) = re.findall(r"```sql\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    statements = [parse_statement(line) for line in block.splitlines()]
    assert {type(statement) for statement in statements} == {
        *(CreateIndex, DropIndex, RebuildIndex, ShowIndexes, DescribeIndex)
    }


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
