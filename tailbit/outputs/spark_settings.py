"""Settings of a Spark session under which it reads values and conditions as the index does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SAME_SQL = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.nullInEmptyListBehavior": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.noCharPaddingInPredicate": "false",
}
"""Settings under which a condition of Spark means the same as that of an answer, of the same values."""


_OWN_LETTERS = frozenset(("az", "el", "hy", "lt", "tr"))
"""Languages whose upper or lower case of a letter is another one, in Java's String or in ICU."""


def otherwise_set(spark: Any, settings: Mapping[str, str]) -> str | None:
    """Return the first of some settings that a session has otherwise, as name=value; None if none is.

    The language of its JVM counts as a setting where `lower` or `upper` go by it.
    """
    for name, value in settings.items():
        if (given := spark.conf.get(name, value) or value).lower() != value.lower():
            return f"{name}={given}"
    language = str(spark._jvm.java.util.Locale.getDefault().getLanguage())
    return f"user.language={language}" if language in _OWN_LETTERS else None
