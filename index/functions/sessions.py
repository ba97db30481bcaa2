"""What else than its arguments decides the value of a function in Spark: settings, zone, locale, release.

Two sessions that differ in one of these may give a function of the same arguments different values, or raise
where the other one does not. Of the functions here, tailbit evaluates Spark 4.2's with ANSI mode on. Whoever
takes a value that another session has computed, or answers in the place of one, goes by this table: the
conditions that generated columns imply (`tailbit.index.expression.unvarying`), and the conditions of Spark's
queries that the index answers (`docs/spark.md`).
"""

from __future__ import annotations

from collections.abc import Mapping

ANSI = "spark.sql.ansi.enabled"
"""What raises with ANSI mode on is NULL, or wraps, with it off."""

ZONE = "spark.sql.session.timeZone"
CASES = "spark.sql.icu.caseMappings.enabled"
LOCALE = "the JVM's locale"
JAVA = "the release of Java"
RELEASE = "the release of Spark"
LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
PARSER = "spark.sql.legacy.timeParserPolicy"

Causes = tuple[str, ...]

DEPENDS_ON: Mapping[str, Causes] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>", "in", "and", "or", "not"), ()),
    **dict.fromkeys(("is null", "isnan", "case", "coalesce", "greatest", "least"), ()),
    **dict.fromkeys(("+", "-", "*", "/", "%", "div", "pmod"), (ANSI, LOSS)),
    **dict.fromkeys(("negative", "abs"), (ANSI,)),
    **dict.fromkeys(("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"), (LOSS, RELEASE)),
    **dict.fromkeys(("&", "|", "^", "~"), ()),
    **dict.fromkeys(("sign", "sqrt", "rint"), ()),
    **dict.fromkeys(("floor", "ceil"), (ANSI,)),
    "round": (ANSI, RELEASE),
    "cast": (ANSI, ZONE, JAVA, RELEASE),
    "try_cast": (ZONE, JAVA, RELEASE),
    **dict.fromkeys(("startswith", "endswith", "contains", "instr", "locate"), ()),
    **dict.fromkeys(("length", "octet_length"), ()),
    **dict.fromkeys(("substring", "left", "right", "trim", "ltrim", "rtrim", "strip"), ()),
    **dict.fromkeys(("concat", "concat_ws", "replace", "reverse"), ()),
    **dict.fromkeys(("lower", "upper", "initcap"), (CASES, LOCALE, JAVA, RELEASE)),
    "like": (RELEASE,),
    **dict.fromkeys(("rlike", "regexp_extract", "regexp_replace", "split item", "split size"), (JAVA,)),
    **dict.fromkeys(("lpad", "rpad"), ("spark.sql.legacy.lpadRpadAlwaysReturnString",)),
    **dict.fromkeys(("substring_index", "split_part", "translate", "ascii"), (RELEASE,)),
    "decode": ("spark.sql.legacy.javaCharsets", "spark.sql.legacy.codingErrorAction", RELEASE),
    "get_json_object": (RELEASE,),
    **dict.fromkeys(("digest", "hex"), ()),
    "hash": (RELEASE,),
    **dict.fromkeys(("year", "quarter", "month", "day"), ()),
    **dict.fromkeys(("dayofyear", "dayofweek", "weekday", "weekofyear"), ()),
    **dict.fromkeys(("hour", "minute", "second"), (ZONE,)),
    **dict.fromkeys(("dayname", "monthname"), (JAVA, RELEASE)),
    **dict.fromkeys(("trunc", "last_day", "unix_date", "date_from_unix_date"), ()),
    **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros"), ()),
    **dict.fromkeys(("date_add", "date_sub", "datediff", "add_months", "make_date"), (ANSI, RELEASE)),
    **dict.fromkeys(("later", "difference", "timestampdiff"), (ANSI, ZONE, RELEASE)),
    "date_trunc": (ZONE, RELEASE),
    "date_format": (ZONE, PARSER, JAVA),
    "parsed time": (ANSI, ZONE, PARSER, JAVA),
    **dict.fromkeys(("seconds since 1970", "time since 1970"), (ANSI, RELEASE)),
    **dict.fromkeys(("array_contains", "arrays_overlap", "array_position"), ()),
    **dict.fromkeys(("array_max", "array_min", "array", "map_keys", "map_values", "field", "transform"), ()),
    **dict.fromkeys(("exists", "forall"), ("spark.sql.legacy.followThreeValuedLogicInArrayExists",)),
    "size": (ANSI, "spark.sql.legacy.sizeOfNull"),
    "element_at": (ANSI,),
    "map value": (ANSI,),
}
"""By function, what decides its value beside its arguments; where nothing does, any session agrees.

A table says what may be, over all arguments: `hash` had another value of -0.0 before Spark 3.2, `LIKE`
matches characters beyond U+FFFF since Spark 4.2, a cast reads a clock only from a timestamp.
"""
