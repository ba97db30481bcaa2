"""What spark-submit has chosen stays: the driver's executors may be on other machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from support.spark_session import JAVA
from support.waiting import HANG_S

pytestmark = pytest.mark.spark

_SCRIPT = """
import json
from tailbit.streaming.java.session import build_session, master_told
with build_session("submitted", ui=False) as spark:
    context = spark.sparkContext
    conf = context.getConf()
    told = {name: conf.get(name) for name in ("spark.master", "spark.driver.host", "spark.driver.memory")}
    rows = context.parallelize(range(100), 3).map(lambda row: row + 1).sum()
    print(json.dumps(told | {"sum": rows, "told": master_told("local[2]")}))
"""
MASTER = "local-cluster[1,1,1024]"
"""Executors that are processes of their own, as on a cluster."""


def test_an_application_submitted_to_a_cluster_keeps_the_address_of_its_driver(tmp_path: Path) -> None:
    script = tmp_path / "application.py"
    script.write_text(_SCRIPT)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", MASTER]
    settings = {"spark.driver.host": "localhost", "spark.driver.memory": "700m"}
    command += [f"--conf={name}={value}" for name, value in settings.items()]
    variables = {"PYSPARK_PYTHON": sys.executable, "SPARK_LAUNCHER_OPTS": JAVA, "SPARK_SUBMIT_OPTS": JAVA}
    done = subprocess.run(
        [*command, str(script)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == settings | {"spark.master": MASTER, "sum": 5050, "told": "the master of spark-submit"}
