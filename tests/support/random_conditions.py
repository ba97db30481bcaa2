"""Random conditions over the columns of `function_cells`, of every type and function, in Spark's grammar."""

# ruff: noqa: E501

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_WHOLE = ("b", "sh", "i", "l")
_NUMBERS = (*_WHOLE, "d", "p", "q", "f")
_SIGNS = ("=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_PATTERNS = ("'a%'", "'%c'", "'%b%'", "'_'", "'a_c'", "'%'", "''", "'A%'", r"'%\\%%'", "'%\\n%'", "'ä%'")
_REGEXES = ("'a'", "'^a'", "'c$'", "'[a-c]+'", r"'\\d'", "'b|x'", "'^.{3}$'", r"'\\s'")
_TEXTS = ("'a'", "'abc'", "''", "'ABC'", "'1'", "'äÖß'", "' '")
_CONSTANTS = (
    "0",
    "1",
    "-1",
    "7",
    "300",
    "2L",
    "1.5",
    "-0.05",
    "0.5D",
    "1e3",
    "CAST('NaN' AS DOUBLE)",
    "NULL",
    "7Y",
    "CAST(7 AS INT)",
    "99999999999999999999",
    "-99999999999999999999",
    "CAST(99999999999999999999 AS DECIMAL(20,0))",
    "9223372036854775807D",
)
_LENGTHS = ("1 DAY", "-2 WEEKS", "1 MONTH", "'13' MONTH", "5 HOURS 30 MINUTES", "25 HOURS", "1 MICROSECOND")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "SECOND")
_BETWEEN = ("'b'", "'a'", "' '", "''", "'-'", "'x'")
_NEW = ("'a'", "''", "'äÖß'", "'<$0>'")
_GROUPS = ("'(a)(b)?'", "'([a-z]+)'", "'(.)$'", "'^(.*?)b'", "'(x)|(b)'", r"'(\\d+)'")
_PARTS = ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear")


_OF_TEXTS = ("tags", "items.n", "st.labels", "map_keys(m)", "map_values(m)", "map_keys(mt)")
_OF_NUMBERS = ("ai", "al", "ad", "items.price", "map_values(mi)", "array(i, l)", "aa[0]", "mt['a']")
_TEXTS_INSIDE = (
    "tags[0]", "get(tags, 1)", "element_at(tags, -1)", "try_element_at(tags, 2)", "m['k']", "m.k", "m[s]",
    "items[0].n", "get(items.n, 0)", "st.city", "st.labels[0]", "array_max(tags)", "array_min(items.n)",
    "initcap(s)", "decode(x, 'UTF-8')", "get_json_object(j, '$.a')", "get_json_object(j, '$.b.c')", "decode(i, 0, s, n)",
)  # fmt: skip
_NUMBERS_INSIDE = (
    "ai[0]", "get(ai, b)", "element_at(ai, 1)", "try_element_at(al, -1)", "mi[1]", "mi[i]", "items[0].price",
    "aa[0][0]", "get(get(aa, 0), 1)", "mt['a'][0]", "st.zip", "array_max(ai)", "array_min(ad)", "array_max(ap)", "size(tags)",
)  # fmt: skip


@dataclass(frozen=True)
class RandomCondition:
    """A condition, and the conditions between its ANDs, ORs and NOTs."""

    text: str
    atoms: tuple[str, ...]


class Conditions:
    """Makes conditions with one source of chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def tree(self, depth: int) -> RandomCondition:
        roll = self.rng.random()
        if depth == 0 or roll < 0.4:
            atom = self.atom(2)
            return RandomCondition(f"({atom})", (f"({atom})",))
        if roll < 0.55:
            inner = self.tree(depth - 1)
            return RandomCondition(f"(NOT {inner.text})", inner.atoms)
        if roll < 0.68:
            inner, word = self.tree(depth - 1), self._pick("", "NOT ")
            return RandomCondition(
                f"({inner.text} IS {word}{self._pick('NULL', 'TRUE', 'FALSE')})", inner.atoms
            )
        parts = [self.tree(depth - 1) for _ in range(self.rng.randint(2, 3))]
        text = f" {self._pick('AND', 'OR')} ".join(part.text for part in parts)
        return RandomCondition(f"({text})", tuple(atom for part in parts for atom in part.atoms))

    def atom(self, depth: int) -> str:
        """One condition of a random kind."""
        kind = self.rng.randrange(13)
        if kind >= 10:
            return self._nested(depth)
        if kind < 3:
            return f"{self.number(depth)} {self._pick(*_SIGNS)} {self.number(depth - 1)}"
        if kind < 5:
            return f"{self.text(depth)} {self._pick(*_SIGNS)} {self.text(depth - 1)}"
        if kind == 5:
            return self._search(depth)
        if kind == 6 and self.rng.random() < 0.2:
            others = f"{self.date(depth - 1)} - {self.date(0)}"
            return f"{others} {self._pick(*_SIGNS)} INTERVAL {self._pick(*_LENGTHS[:2], *_LENGTHS[4:])}"
        if kind == 6:
            return f"{self.date(depth)} {self._pick(*_SIGNS)} {self.date(depth - 1)}"
        if kind == 7:
            items = ", ".join(self.number(0) for _ in range(self.rng.randint(1, 4)))
            return f"{self.number(depth)} {self._pick('', 'NOT ')}IN ({items})"
        if kind == 8:
            word = self._pick("", "NOT ")
            return f"{self.number(depth)} {word}BETWEEN {self.number(0)} AND {self.number(0)}"
        return f"{self._pick(self.number, self.text, self.date)(depth)} IS {self._pick('', 'NOT ')}NULL"

    def _nested(self, depth: int) -> str:
        """A condition on arrays, maps and structs."""
        element, whole = self._pick(*_OF_TEXTS), self._pick(*_OF_NUMBERS)
        shapes = (
            f"array_contains({element}, {self.text(depth - 1)})",
            f"array_contains({self._pick('ai', 'al', 'array(1, i, l)', 'items[0].k')}, {self._pick('0', '1', '7', 'i', 'b', 'l')})",
            f"array_contains({self._pick('ad', 'items.price', 'map_values(mi)')}, {self._pick('0', '1', 'd', '2.5')})",
            f"arrays_overlap({element}, {self._pick('array(s, n)', *_OF_TEXTS)})",
            f"arrays_overlap({self._pick('ai', 'al')}, {self._pick('array(0, 1)', 'ai', 'al', 'array(i, 7)')})",
            f"{self._pick('size', 'cardinality')}({self._pick('aa', 'm', 'mt', element, whole)}) {self._pick(*_SIGNS)} {self.number(0)}",
            f"{self._pick('exists', 'forall')}({element}, x -> {self._of_text(depth)})",
            f"{self._pick('exists', 'forall')}({whole}, x -> {self._of_number(depth)})",
            f"{self._pick('exists', 'forall')}(aa, a -> {self._pick('exists', 'forall')}(a, x -> {self._of_number(0)}))",
            f"{self._pick('exists', 'forall')}(items, e -> e.price {self._pick(*_SIGNS)} {self.number(0)} {self._pick('AND', 'OR')} {self._pick('e.n = s', 'e.n IS NULL', 'array_contains(e.k, 1)')})",
            f"map_contains_key({self._pick('m, s', 'm, n', 'mi, i', 'mi, 1', 'mt, s')})",
            f"{self._pick('tags', 'm', 'items.n', 'aa', 'st.labels', 'mt')} IS {self._pick('', 'NOT ')}NULL",
            f"{self._pick(*_TEXTS_INSIDE)} {self._pick(*_SIGNS)} {self.text(depth - 1)}",
            f"{self._pick(*_NUMBERS_INSIDE)} {self._pick(*_SIGNS)} {self.number(depth - 1)}",
            f"{self._pick(*_TEXTS_INSIDE)} IS {self._pick('', 'NOT ')}NULL",
            f"array_position({self._pick('tags, s', 'ai, 7', 'ai, i', 'ad, 0')}) {self._pick(*_SIGNS)} {self.number(0)}",
        )
        return self._pick(*shapes)

    def _of_text(self, depth: int) -> str:
        return self._pick(
            f"x {self._pick(*_SIGNS)} {self.text(0)}", "x IS NULL", "x LIKE 'a%'", "length(x) > 1",
            f"x {self._pick(*_SIGNS)} {self.text(max(depth - 1, 0))}", "upper(x) = x", "x = s OR x IS NULL",
        )  # fmt: skip

    def _of_number(self, depth: int) -> str:
        return self._pick(
            f"x {self._pick(*_SIGNS)} {self.number(0)}", "x > 0 AND x < 9", "x IS NOT NULL", "x % 2 = 0",
            f"x {self._pick(*_SIGNS)} {self.number(max(depth - 1, 0))}", "x IN (1, 7, NULL)", "10 / x > 1", "x BETWEEN b AND l",
        )  # fmt: skip

    def _search(self, depth: int) -> str:
        value, word = self.text(depth), self._pick("", "NOT ")
        kind = self.rng.randrange(4)
        if kind == 0:
            return f"{value} {word}RLIKE {self._pick(*_REGEXES)}"
        if kind == 1:
            return f"{self._pick('startswith', 'endswith', 'contains')}({value}, {self.text(0)})"
        if kind == 2:
            patterns = ", ".join(self.rng.sample(_PATTERNS, 2))
            return f"{value} {word}LIKE {self._pick('ANY', 'ALL')} ({patterns})"
        return f"{value} {word}{self._pick('LIKE', 'ILIKE')} {self._pick(*_PATTERNS)}"

    def number(self, depth: int) -> str:
        if depth <= 0:
            return self._pick(*_NUMBERS, *_CONSTANTS)
        inner = self.number(depth - 1)
        shapes = (
            f"({inner} {self._pick('+', '-', '*', '/', '%')} {self.number(depth - 1)})",
            f"({self._pick(*_WHOLE)} div {self._pick(*_WHOLE, '2', '-3')})",
            f"(-{self._pick(*_NUMBERS)})",
            f"abs({self._pick(*_NUMBERS)})",
            f"round({self._pick('d', 'p', 'q', 'i')}, {self._pick('0', '1', '-1')})",
            f"{self._pick('floor', 'ceil')}({self._pick(*_NUMBERS)})",
            f"{self._pick('CAST', 'TRY_CAST')}({self._pick(*_NUMBERS, 'n')} AS {self._pick('INT', 'BIGINT', 'DOUBLE')})",
            "TRY_CAST(n AS DECIMAL(10,2))",
            f"length({self.text(depth - 1)})",
            f"{self._pick(*_PARTS)}({self.date(depth - 1)})",
            f"{self._pick('hour', 'minute', 'second')}({self._pick('ts', 'nt')})",
            f"datediff({self.date(depth - 1)}, {self.date(0)})",
            f"coalesce({inner}, {self.number(0)})",
            f"nullif({inner}, {self.number(0)})",
            f"if({self.atom(0)}, {inner}, {self.number(0)})",
            f"CASE WHEN {self.atom(depth - 1)} THEN {inner} WHEN bo THEN {self.number(0)} END",
            *self._more_numbers(inner, depth),
        )
        return self._pick(*shapes)

    def _more_numbers(self, inner: str, depth: int) -> tuple[str, ...]:
        return (
            f"pmod({self._pick(*_WHOLE, 'd')}, {self._pick(*_WHOLE, '3', '-2', '0')})",
            f"try_{self._pick('add', 'subtract', 'multiply', 'divide')}({self._pick(*_NUMBERS)}, {self.number(0)})",
            f"{self._pick('greatest', 'least')}({inner}, {self.number(0)}, {self.number(0)})",
            f"{self._pick('sign', 'sqrt', 'rint', 'zeroifnull', 'nullifzero')}({self._pick(*_NUMBERS)})",
            f"instr({self.text(depth - 1)}, {self.text(0)})",
            f"locate({self.text(0)}, {self.text(depth - 1)}, {self._pick('1', '2', '0')})",
            f"ascii({self.text(depth - 1)})",
            f"{self._pick('unix_seconds', 'unix_millis', 'unix_micros')}(ts)",
            "unix_date(dt)",
            f"({self.number(0)} {self._pick('&', '|', '^')} {self._pick(*_WHOLE, '6', '-2')})",
            f"(~{self._pick(*_WHOLE)})",
            f"CAST(ts AS {self._pick('BIGINT', 'DOUBLE', 'INT')})",
            f"unix_timestamp({self._pick('ts', 'dt', 'nt')})",
            f"hash({self.text(depth - 1)}, {self.number(0)})",
            f"crc32({self.text(depth - 1)})",
            f"size(split({self.text(depth - 1)}, {self._pick(*_BETWEEN)}))",
            f"{self._pick('datediff', 'timestampdiff')}({self._pick(*_UNITS)}, {self.date(depth - 1)}, {self.date(0)})",
            f"date_part('{self._pick(*_PARTS)}', {self.date(depth - 1)})",
        )

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self._pick("s", "n", "t", *_TEXTS, "NULL")
        inner = self.text(depth - 1)
        shapes = (
            f"{self._pick('upper', 'lower', 'trim', 'ltrim', 'rtrim')}({inner})",
            f"substr({inner}, {self._pick('1', '2', '-1', '0', '-2')}, {self._pick('1', '2', '3')})",
            f"{self._pick('left', 'right')}({inner}, {self._pick('1', '2', '0')})",
            f"concat({inner}, {self.text(0)})",
            f"({inner} || {self.text(0)})",
            f"replace({inner}, 'a', 'bb')",
            f"CAST({self._pick(*_WHOLE, 'p', 'dt', 'ts', 'bo')} AS STRING)",
            f"date_format({self._pick('dt', 'ts', 'nt')}, 'yyyy-MM-dd')",
            f"coalesce({inner}, {self.text(0)})",
            f"if({self.atom(0)}, {inner}, {self.text(0)})",
            f"{self._pick('lpad', 'rpad')}({inner}, {self._pick('3', '0', 'b')}, {self.text(0)})",
            f"{self._pick('btrim', 'concat_ws')}({inner}, {self.text(0)})",
            f"translate({inner}, 'ab', {self.text(0)})",
            f"trim({self._pick('BOTH', 'LEADING', 'TRAILING')} {self.text(0)} FROM {inner})",
            f"reverse({inner})",
            f"{self._pick('greatest', 'least')}({inner}, {self.text(0)})",
            f"{self._pick('dayname', 'monthname')}({self.date(depth - 1)})",
            *self._more_texts(inner),
        )
        return self._pick(*shapes)

    def _more_texts(self, inner: str) -> tuple[str, ...]:
        between = self._pick(*_BETWEEN)
        return (
            f"regexp_replace({inner}, {self._pick(*_REGEXES)}, {self._pick(*_NEW)})",
            f"regexp_extract({inner}, {self._pick(*_GROUPS)}, {self._pick('0', '1')})",
            f"split({inner}, {between})[{self._pick('0', '1')}]",
            f"split_part({inner}, {between}, {self._pick('1', '2', '-1')})",
            f"substring_index({inner}, {between}, {self._pick('1', '2', '-1', '0')})",
            f"{self._pick('md5', 'hex')}({inner})",
            f"date_format({self._pick('dt', 'ts', 'nt')}, '{self._pick('MMM yyyy', 'EEEE', 'h:mm a', 'ss.SSS', 'D Q')}')",
        )

    def date(self, depth: int) -> str:
        if depth <= 0:
            return self._pick(
                "dt", "ts", "nt", "DATE'2020-02-29'", "TIMESTAMP'2019-12-31 23:59:59.999999'", "DATE'epoch'"
            )
        shapes = (
            f"date_add(dt, {self._pick('1', '-400', 'b')})",
            f"(dt - {self._pick('1', 'sh')})",
            "last_day(dt)",
            f"add_months({self.date(0)}, {self._pick('1', '-13', 'b')})",
            f"date_from_unix_date({self._pick('i', 'sh', '20000')})",
            f"{self._pick('greatest', 'least')}({self.date(depth - 1)}, {self.date(0)})",
            f"trunc({self._pick('dt', 'ts')}, '{self._pick('YEAR', 'MONTH', 'WEEK')}')",
            f"date_trunc('{self._pick('YEAR', 'WEEK', 'DAY', 'HOUR')}', {self._pick('dt', 'ts', 'nt')})",
            "TRY_CAST(t AS DATE)",
            f"CAST({self._pick('dt', 'ts', 'nt')} AS {self._pick('DATE', 'TIMESTAMP', 'TIMESTAMP_NTZ')})",
            f"coalesce({self.date(depth - 1)}, {self.date(0)})",
            f"({self.date(depth - 1)} {self._pick('+', '-')} INTERVAL {self._pick(*_LENGTHS)})",
            f"dateadd({self._pick(*_UNITS)}, {self._pick('1', '-13', 'b')}, {self.date(depth - 1)})",
            f"make_date({self._pick('2020', 'sh', 'year(dt)')}, {self._pick('b', '2')}, {self._pick('1', '29', 'b')})",
            f"try_to_date({self._pick('t', 's')}, 'yyyy-MM-dd')",
            f"try_to_timestamp(t, '{self._pick('yyyy-MM-dd HH:mm:ss', 'yyyy-MM-dd')}')",
            f"timestamp_{self._pick('seconds', 'millis', 'micros')}({self._pick('i', 'sh', '20000')})",
        )
        return self._pick(*shapes)

    def _pick(self, *choices: T) -> T:
        return self.rng.choice(choices)
