"""The time zone rules of a running JVM, and the file that tailbit ships them in.

`make time-zones` writes that file anew from the JVM that Spark starts. The JVM says everything in one call of
a script, which the compiler that comes with Spark compiles: thousands of small calls take a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tailbit.tables.zone_rules import ORIGIN, Change, YearlyRule, ZoneRules, rules_text

_EXPORT = """
import java.time.*;
import java.time.zone.*;
import java.util.*;
StringBuilder out = new StringBuilder();
TreeSet names = new TreeSet(ZoneId.getAvailableZoneIds());
names.addAll(ZoneId.SHORT_IDS.keySet());
for (Object name : names) {
    ZoneRules rules = ZoneId.of((String) name, ZoneId.SHORT_IDS).getRules();
    out.append(name + ";" + rules.getOffset(Instant.MIN).getTotalSeconds() + ";");
    for (Object each : rules.getTransitions()) {
        ZoneOffsetTransition t = (ZoneOffsetTransition) each;
        out.append(t.toEpochSecond() + "," + t.getOffsetBefore().getTotalSeconds());
        out.append("," + t.getOffsetAfter().getTotalSeconds() + " ");
    }
    out.append(";");
    for (Object each : rules.getTransitionRules()) {
        ZoneOffsetTransitionRule r = (ZoneOffsetTransitionRule) each;
        int reference = 0;
        String clock = r.getTimeDefinition().name();
        if ("WALL".equals(clock)) reference = r.getOffsetBefore().getTotalSeconds();
        if ("STANDARD".equals(clock)) reference = r.getStandardOffset().getTotalSeconds();
        int weekday = r.getDayOfWeek() == null ? 0 : r.getDayOfWeek().getValue();
        int second = r.isMidnightEndOfDay() ? 86400 : r.getLocalTime().toSecondOfDay();
        out.append(r.getMonth().getValue() + "," + r.getDayOfMonthIndicator() + "," + weekday + "," + second);
        out.append("," + reference + "," + r.getOffsetBefore().getTotalSeconds());
        out.append("," + r.getOffsetAfter().getTotalSeconds() + " ");
    }
    out.append("\\n");
}
return out.toString();
"""

_KNOWN = """
StringBuilder out = new StringBuilder();
for (String name : input.split("\\n", -1)) {
    try {
        java.time.ZoneId zone = org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(name);
        java.time.zone.ZoneRules rules = zone.getRules();
        java.time.ZoneOffset fixed = rules.getOffset(java.time.Instant.EPOCH);
        out.append(rules.isFixedOffset() ? fixed.getTotalSeconds() + "\\n" : "changes\\n");
    } catch (java.time.DateTimeException wrong) {
        out.append("unknown\\n");
    }
}
return out.toString();
"""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def zone_names() -> list[str]:
    """The names of all zones that are shipped, short ones such as PST among them."""
    lines = (line for line in rules_text().splitlines() if not line.startswith("#"))
    return sorted(name for line in lines for name in line.split(";")[0].split())


def zone_data() -> str:
    """Where the shipped rules come from, e.g. `OpenJDK 17.0.15, tzdata 2025a`."""
    return rules_text().splitlines()[0].removeprefix("# ")


def jvm_zone_data(gateway: Any) -> str:
    """The JDK and the release of its time zone data, as the first line of the file has them."""
    jvm = gateway.jvm
    version = jvm.java.lang.System.getProperty("java.version")
    release = jvm.java.time.zone.ZoneRulesProvider.getVersions("UTC").lastEntry().getKey()
    return f"OpenJDK {version}, tzdata {release}"


def jvm_rules(gateway: Any) -> dict[str, ZoneRules]:
    """The rules of every zone that a JVM, and Spark on it, knows by name; short names included."""
    return dict(map(_exported, _run(gateway, _EXPORT).splitlines()))


def known_to_spark(gateway: Any, names: Sequence[str]) -> list[str]:
    """What Spark makes of session time zones: a fixed offset in seconds, `changes` or `unknown`."""
    return _run(gateway, _KNOWN, "\n".join(names)).splitlines()


def _run(gateway: Any, script: str, given: str = "") -> str:
    """Compile and run a script in the JVM; it finds `given` as the variable `input`."""
    java = gateway.jvm.java.lang
    text = java.Class.forName("java.lang.String")
    evaluator = gateway.jvm.org.codehaus.janino.ScriptEvaluator()
    evaluator.setReturnType(text)
    names, types, values = (gateway.new_array(of, 1) for of in (java.String, java.Class, java.Object))
    names[0], types[0], values[0] = "input", text, given
    evaluator.setParameters(names, types)
    evaluator.cook(script)
    return str(evaluator.evaluate(values))


def _exported(line: str) -> tuple[str, ZoneRules]:
    name, first, changes, yearly = line.split(";")
    return name, ZoneRules(
        int(first),
        tuple(Change(*numbers) for numbers in _numbers(changes)),
        tuple(YearlyRule(*numbers) for numbers in _numbers(yearly)),
    )


def _numbers(text: str) -> Iterator[list[int]]:
    return (list(map(int, part.split(","))) for part in text.split())


def written(found: Mapping[str, ZoneRules], data: str) -> str:
    """The text of the file; its form is described where it is read."""
    named: dict[ZoneRules, list[str]] = {}
    for name, rules in found.items():
        named.setdefault(rules, []).append(name)
    lines = [f" {' '.join(names)} ;{_line(rules)}" for rules, names in named.items()]
    return "\n".join([f"# {data}", "# Written by `make time-zones`: do not edit.", *lines, ""])


def _line(rules: ZoneRules) -> str:
    offsets = list(dict.fromkeys([rules.first, *(change.after for change in rules.changes)]))
    assert len(offsets) <= 26, "an offset is one letter"
    yearly = ((y.month, y.day, y.weekday, y.second, y.reference, y.before, y.after) for y in rules.yearly)
    parts = (
        " ".join(map(str, offsets)),
        "".join(_changes(rules, offsets)),
        " ".join(",".join(map(str, rule)) for rule in yearly),
    )
    return ";".join(parts)


def _changes(rules: ZoneRules, offsets: list[int]) -> Iterator[str]:
    last = ORIGIN
    for change in rules.changes:
        yield _base36(change.instant - last) + chr(65 + offsets.index(change.after))
        last = change.instant


def _base36(number: int) -> str:
    assert number > 0
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits


def main() -> None:
    """Write the file that the command line names."""
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    Path(sys.argv[1]).write_text(written(jvm_rules(gateway), jvm_zone_data(gateway)), "ascii")
    gateway.shutdown()


if __name__ == "__main__":
    main()
