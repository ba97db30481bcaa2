"""Jars that do not fit the Spark that runs are refused with file and line, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailbit.streaming.config.check import check_jars
from tailbit.streaming.config.read import checked


def misfits(key: str, *jars: str) -> list[str]:
    text = f'[application.spark]\n"{key}" = "{", ".join(jars)}"\n[[table]]\npath = "/t"\n'
    read = checked(text, "/etc/tailbit/tailbit.toml", {})
    check_jars(read)
    return [str(problem).removeprefix("/etc/tailbit/tailbit.toml:") for problem in read.problems.errors]


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("io.delta:delta-spark_4.2_2.13:4.4.0", ""),
        ("org.apache.hadoop:hadoop-aws:3.4.2", ""),
        ("io.delta:delta-spark_2.13:4.4.0", ""),
        ("io.delta:delta-spark_2.13:4.0.0", "2: {}: it is of Spark 4.0, and pyspark 4.2.0 is installed"),
        ("io.delta:delta-spark_2.13:3.2.0", "2: {}: it is of Spark 3.5, and pyspark 4.2.0 is installed"),
        ("io.delta:delta-spark_4.0_2.13:4.4.0", "2: {}: it is of Spark 4.0, and pyspark 4.2.0 is installed"),
        ("org.example:connector_2.12:2.4.0", "2: {}: it is of Scala 2.12, and Spark 4.2.0 has 2.13"),
    ],
)
def test_a_package_of_another_spark_or_scala_is_refused(package: str, said: str) -> None:
    assert misfits("spark.jars.packages", package) == ([said.format(package)] if said else [])


def test_a_jar_that_is_not_there_and_one_of_another_spark_are_refused(tmp_path: Path) -> None:
    fits, other = tmp_path / "own.jar", tmp_path / "io.delta_delta-spark_4.1_2.13-4.4.0.jar"
    for jar in (fits, other):
        jar.touch()
    missing = tmp_path / "missing.jar"
    found = misfits(
        "spark.jars",
        *(str(fits), f"file://{other}", str(missing)),
        *("s3://lake/x.jar", "local:/opt/x.jar", "hdfs:/x.jar", f"{tmp_path}/*.jar"),
    )
    assert found == [
        f"2: file://{other}: it is of Spark 4.1, and pyspark 4.2.0 is installed",
        f"2: {missing}: there is no such file",
    ]
