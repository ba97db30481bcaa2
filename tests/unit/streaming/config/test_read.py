"""A configuration is checked as a whole; each problem is told with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailbit.errors import ConfigError
from tailbit.streaming.config.read import ReadConfig, changed, checked, line_of, lines_of, read_config

TWO = """
[defaults]
max_lag = "30s"
storage_options = { AWS_REGION = "eu-west-1" }

[[table]]
path = "/lake/orders"
columns = ["status", "region"]

[[table]]
path = "/lake/customers"
max_lag = "5 minutes"
max_bytes = "64 MiB"
[table.storage_options]
AWS_ENDPOINT_URL = "http://localhost:9000"
[[table.indexes]]
name = "by_mail"
on = "lower(email)"
"""


def read(text: str, **environment: str) -> ReadConfig:
    return checked(text, "/etc/tailbit/tailbit.toml", environment)


def refused(text: str, **environment: str) -> list[str]:
    """The problems, one a line, without the folder of the file."""
    with pytest.raises(ConfigError) as met:
        read(text, **environment)
    return [line.removeprefix("/etc/tailbit/") for line in str(met.value).splitlines()]


def test_a_table_takes_the_defaults_unless_it_says_otherwise() -> None:
    orders, customers = read(TWO).config.table
    assert (orders.id, orders.columns, orders.max_lag) == ("orders", ("status", "region"), 30.0)
    assert (customers.max_lag, customers.max_bytes) == (300.0, 64 << 20)
    assert customers.storage_options == {
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://localhost:9000",
    }
    assert customers.indexes[0].on == ("lower(email)",)


def test_every_problem_is_told_at_once_with_its_line() -> None:
    text = """[application]
threads = 0
colour = "red"
[defaults]
max_lag = "soon"
[[table]]
path = "/lake/orders"
colums = ["a"]
[[table]]
columns = ["a"]
[[table]]
path = "/lake/c"
max_files = "many"
indexes = [
    { name = "i" },
]
"""
    assert refused(text) == [
        "tailbit.toml:2: threads: input should be greater than or equal to 1, and not 0",
        "tailbit.toml:3: there is no key colour.",
        "tailbit.toml:5: max_lag: 'soon' is no length of time; write 500ms, 2s or 1h",
        "tailbit.toml:8: there is no key colums. Did you mean columns?",
        "tailbit.toml:9: a table is given by its path or by its name in the catalog, one of them",
        "tailbit.toml:13: max_files: input should be a valid integer, unable to parse string as an integer,"
        " and not 'many'",
        "tailbit.toml:15: the key on is missing",
    ]


def test_a_table_that_stands_there_twice_is_refused_however_it_is_spelt() -> None:
    text = '[[table]]\npath = "/lake/orders"\n[[table]]\npath = "/lake/../lake/orders/"\nid = "again"\n'
    assert refused(text) == [
        "tailbit.toml:4: the table at /lake/orders stands here a second time (the first is in line 1)"
    ]
    named = '[[table]]\nname = "db.t"\n[[table]]\nname = "db.t"\nid = "u"\n'
    assert refused(named) == [
        "tailbit.toml:4: the table db.t stands here a second time (the first is in line 1)"
    ]


def test_two_tables_with_one_place_of_an_index_are_refused() -> None:
    text = """[[table]]
path = "/lake/orders"
[[table]]
path = "/lake/customers"
index = "/lake/orders/_tailbit"
[[table]]
path = "s3://lake/a"
index = "s3://indexes/a"
[[table]]
path = "s3://lake/b"
index = "s3://indexes/a/"
"""
    assert [line.partition(": ")[0] for line in refused(text)] == ["tailbit.toml:5", "tailbit.toml:11"]


def test_two_tables_of_one_name_need_ids() -> None:
    text = '[[table]]\npath = "/a/orders"\n[[table]]\npath = "/b/orders"\n'
    assert refused(text) == [
        "tailbit.toml:3: a second table has the id orders: give it an id of its own (the first is in line 1)"
    ]
    assert [t.id for t in read(text + 'id = "orders_of_b"\n').config.table] == ["orders", "orders_of_b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[table]\n", "tailbit.toml:1: no TOML: "),
        ('a = "x\n[[table]]', "tailbit.toml:1: no TOML: "),
        ("", "tailbit.toml:1: a [[table]] is missing"),
        ("table = []\n", "tailbit.toml:1: table: the list is empty"),
        ('[[table]]\npath = "/t"\nid = "a b"\n', "tailbit.toml:3: id: 'a b' is no id"),
        ('[[table]]\npath = "/t"\npath = "/u"\n', "tailbit.toml:3: no TOML: "),
        ("[[table]]\npath = 7\n", "tailbit.toml:2: path: input should be a valid string, and not 7"),
        ('[[table]]\npath = "/t"\nname = "t"\n', "tailbit.toml:1: a table is given by its path or by"),
        ('[[table]]\npath = "/t"\ncolumns = []\n', "tailbit.toml:3: columns: the list is empty"),
        ('[[table]]\npath = "/t"\nmax_bytes = true\n', "tailbit.toml:3: max_bytes: a size such as"),
        (
            '[[table]]\npath = "/t"\nidle_poll = 0\n',
            "tailbit.toml:3: idle_poll: input should be greater than",
        ),
        (
            '[[table]]\npath = "/t"\npaused = "perhaps"\n',
            "tailbit.toml:3: paused: input should be a valid bool",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_line(text: str, said: str) -> None:
    assert refused(text)[0].startswith(said)


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_config(tmp_path / "no.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(ConfigError, match="no text in UTF-8"):
        read_config(tmp_path / "latin.toml")


def test_paths_are_those_of_the_file_s_folder(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[[table]]\npath = "orders"\nindex = "../i"\n')
    (table,) = read_config(tmp_path / "t.toml").config.table
    assert (table.path, table.index) == (f"{tmp_path}/orders", f"{tmp_path.parent}/i")


def test_a_uri_of_a_file_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[[table]]\npath = "file:/lake/a%20b"\nindex = "file:///i"\n')
    (table,) = read_config(tmp_path / "t.toml").config.table
    assert (table.path, table.index) == ("/lake/a b", "/i")
    assert "stands here a second time" in refused('[[table]]\npath = "file:///a"\n[[table]]\npath = "/a"')[0]


def test_a_secret_in_the_file_is_warned_of_with_its_line_and_not_shown() -> None:
    text = '[[table]]\npath = "/t"\n[table.storage_options]\nAWS_SECRET_ACCESS_KEY = "hunter22"\n'
    (warning,) = read(text).problems.warnings
    assert str(warning).startswith(
        "/etc/tailbit/tailbit.toml:4: the value of AWS_SECRET_ACCESS_KEY stands in"
    )
    assert "hunter22" not in str(warning)
    by_variable = read(text.replace("hunter22", "${THE_KEY}"), THE_KEY="hunter22")
    assert not by_variable.problems.warnings
    assert by_variable.config.table[0].storage_options == {"AWS_SECRET_ACCESS_KEY": "hunter22"}


def test_a_variable_that_is_not_set_is_told_with_the_line() -> None:
    text = '[[table]]\npath = "/t"\nstorage_options = { AWS_SECRET_ACCESS_KEY = "${THE_KEY}" }\n'
    assert refused(text) == ["tailbit.toml:3: the environment variable THE_KEY is not set"]


def test_the_environment_overrides_application_defaults_and_tables() -> None:
    config = read(
        TWO,
        TAILBIT__APPLICATION__THREADS="8",
        TAILBIT__DEFAULTS__TRIGGER="2s",
        TAILBIT__DEFAULTS__STORAGE_OPTIONS__AWS_REGION="us-east-1",
        TAILBIT__TABLE__CUSTOMERS__PAUSED="true",
        TAILBIT_MEMORY="1GB",
    ).config
    assert config.application.threads == 8
    assert [t.trigger for t in config.table] == [2.0, 2.0]
    assert [t.storage_options["AWS_REGION"] for t in config.table] == ["us-east-1", "us-east-1"]
    assert [t.paused for t in config.table] == [False, True]


def test_the_environment_names_a_table_by_the_id_that_it_has() -> None:
    text = '[[table]]\nname = "lake.orders"\nid = "sales.orders"\n[[table]]\nname = "lake.`odd name`"\n'
    overrides = {f"TAILBIT__TABLE__{id_}__PAUSED": "true" for id_ in ("SALES_ORDERS", "ODD_NAME")}
    config = read(text, **overrides).config
    found = [(table.id, table.paused) for table in config.table]
    assert found == [("sales.orders", True), ("odd_name", True)]


def test_the_environment_names_a_table_whose_id_has_two_underscores() -> None:
    text = '[[table]]\npath = "/eu__orders"\n[[table]]\npath = "/eu"\n'
    config = read(text, TAILBIT__TABLE__EU__ORDERS__PAUSED="true", TAILBIT__TABLE__EU__MAX_LAG="7s").config
    assert [(table.paused, table.max_lag) for table in config.table] == [(True, 300.0), (False, 7.0)]


def test_a_section_that_is_no_section_is_told_beside_a_variable_for_it() -> None:
    (problem,) = refused("application = 3\n" + TWO, TAILBIT__APPLICATION__SPARK__X="1")
    assert problem.startswith("tailbit.toml:1: application: ")


@pytest.mark.parametrize("setting", ["max_lag = inf", "max_lag = nan", "stuck_after = 0", "trigger = -1"])
def test_a_length_of_time_that_is_none_is_refused(setting: str) -> None:
    (problem,) = refused(f'[[table]]\npath = "/t"\n{setting}\n')
    assert problem.startswith(f"tailbit.toml:3: {setting.partition(' ')[0]}: ")


def test_a_path_with_a_byte_of_zero_is_refused_with_its_line() -> None:
    (problem,) = refused('[[table]]\npath = "a\\u0000b"\n')
    assert problem.startswith("tailbit.toml:2: path: ")


def test_a_wrong_variable_is_told_by_its_name() -> None:
    assert refused(TWO, TAILBIT__TABLE__ORDRES__PAUSED="true", TAILBIT__APPLICATION__THREADS="x") == [
        "environment variable TAILBIT__TABLE__ORDRES__PAUSED: there is no such section, table or key",
        "environment variable TAILBIT__APPLICATION__THREADS: threads: input should be a valid integer,"
        " unable to parse string as an integer, and not 'x'",
    ]


def test_lines_are_those_of_texts_and_lists_of_several_lines_too() -> None:
    text = 'a = """\n[[table]]\nb = 1\n"""\n[[table]]\nc = [\n  1,\n]\n[table.d]\n"e f" = { g = 1 }\n'
    text += "[[table]]\nc=2"
    lines = lines_of(text)
    assert lines[("a",)] == 1
    assert lines[("table", 0)] == 5
    assert lines[("table", 0, "c")] == 6
    assert lines[("table", 0, "d", "e f", "g")] == 10
    assert lines[("table", 1, "c")] == 12
    assert line_of(lines, ("table", 1, "x", "y")) == 11
    assert lines_of('a = "x\u2028y\x85z"\r\nb = 2\r\n') == {("a",): 1, ("b",): 2}


def test_what_changed_between_two_configurations_is_told_by_id() -> None:
    before = read(TWO).config.table
    after = read(TWO.replace("5 minutes", "6 minutes").replace("/lake/orders", "/lake/returns")).config.table
    assert changed(before, after) == (["returns"], ["customers"], ["orders"])


def test_each_element_of_a_list_of_several_lines_has_its_own_line() -> None:
    text = """[[table]]
columns = [ "a", "b",
    # a comment, with ]
    "c",

    { name = "[d]", on = ["x",
              "y"] }, "e",
    "f"]
path = "/t"
"""
    lines = lines_of(text)
    assert [lines["table", 0, "columns", n] for n in range(6)] == [2, 2, 4, 6, 6, 8]
    assert lines["table", 0, "path"] == 9


STATED = """[[table]]
path = "/lake/orders"
indexes = [
    "CREATE INDEX by_mail ON orders (lower(email))",
    "SET TIME ZONE 'Asia/Tokyo'; CREATE INDEX day ON delta.`/lake/orders` (date(ts)) WITH DEFERRED REBUILD",
    { name = "keyed", on = ["k"], using = "record_key", options = { keys = "hash" } },
    "CREATE INDEX old ON '/lake/orders' USING record_key (id, k) WHERE region = 'eu' COMMENT 'by hand'",
]
"""


def test_indexes_are_declared_by_statements_and_by_keys_in_one_list() -> None:
    mail, day, keyed, old = read(STATED).config.table[0].indexes
    assert (mail.name, mail.on, mail.using, mail.zone) == ("by_mail", ("lower(email)",), "bitmap", "UTC")
    assert (day.zone, day.deferred) == ("Asia/Tokyo", True)
    assert keyed.options == {"keys": "hash"}
    assert (old.using, old.on, old.where, old.comment) == (
        "record_key",
        ("id", "k"),
        "region = 'eu'",
        "by hand",
    )


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DROP INDEX by_mail ON orders", "it makes no index"),
        ("CREATE INDEX by_mail ON orders (lower(email)", "expected"),
        ("CREATE INDEX a ON orders (a); CREATE INDEX b ON orders (b)", "one CREATE INDEX statement"),
        ("ALTER INDEX a ON orders REBUILD", "one CREATE INDEX statement"),
        ("CREATE INDEX a ON customers (a)", "index a is of customers, and this table is /lake/orders"),
        ("CREATE INDEX a ON delta.`/lake/order` (a)", "index a is of /lake/order, and"),
        ("SET TIME ZONE 'Mars'; CREATE INDEX a ON orders (a)", "no time zone"),
        ("CREATE INDEX a ON orders USING tree (a)", "no kind of index"),
    ],
)
def test_a_statement_that_is_wrong_is_told_with_its_own_line(statement: str, told: str) -> None:
    text = STATED.replace("CREATE INDEX by_mail ON orders (lower(email))", statement)
    (line,) = refused(text)
    assert line.startswith("tailbit.toml:4: ")
    assert told in line


def test_a_table_of_a_catalog_is_named_in_statements_by_any_end_of_its_name() -> None:
    text = '[[table]]\nname = "spark_catalog.sales.orders"\nindexes = ["CREATE INDEX a ON {} (a)"]\n'
    for name in ("orders", "sales.orders", "Spark_Catalog.sales.`orders`"):
        assert read(text.format(name)).config.table[0].indexes[0].name == "a"
    assert "is of other.orders" in refused(text.format("other.orders"))[0]


ROOT = Path(__file__).parents[4]


def test_the_example_is_read_without_a_warning() -> None:
    read = read_config(ROOT / "deploy/tailbit.toml", {"PARTNER_KEY_ID": "a", "PARTNER_SECRET": "b"})
    assert [table.id for table in read.config.table] == ["orders", "returns", "partner_visits"]
    assert not read.problems.warnings
