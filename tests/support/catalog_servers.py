"""Servers of catalogs on loopback: AWS Glue as moto plays it, and a Hive metastore of Spark's own jars.

What pyiceberg needs to speak with them is in an environment of its own below `build/`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyiceberg
import pyspark

from support.s3_server import await_answer, free_ports, running
from support.spark_environments import python_with
from support.spark_session import JAVA
from support.waiting import wait_until

METASTORE = """
public class Metastore {
    public static void main(String[] given) throws Throwable {
        var conf = new org.apache.hadoop.hive.conf.HiveConf();
        org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(conf);
        org.apache.hadoop.hive.metastore.HiveMetaStore.main(given);
    }
}
"""
"""The metastore, with the tables of locks, which it expects a script of Hive's distribution to have made."""
SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName={folder}/derby;create=true",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "none",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.warehouse.dir": "{folder}/warehouse",
    "hive.async.log.enabled": "false",
}


def clients() -> str:
    """The folder with the packages by which pyiceberg asks Glue and Hive."""
    return str(next(Path(_python()).parents[1].glob("lib/python*/site-packages")))


def _python() -> str:
    own = f"pyiceberg[glue,hive]=={pyiceberg.__version__}"
    return python_with("iceberg-catalogs", own, "moto[glue,server]>=5,<6")


@contextmanager
def glue(folder: Path) -> Iterator[dict[str, str]]:
    """Glue as moto plays it; yield pyiceberg's properties of the catalog."""
    [port] = free_ports(1)
    command = [_python(), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, folder / "moto.log") as process:
        await_answer(port, process, folder / "moto.log")
        key = {"glue.access-key-id": "AKIDTESTS", "glue.secret-access-key": "s3cr3t-of-the-tests"}
        place = {"glue.endpoint": f"http://127.0.0.1:{port}", "glue.region": "us-east-1"}
        yield {"type": "glue", **key, **place}


@contextmanager
def hive(folder: Path) -> Iterator[dict[str, str]]:
    """A metastore of Hive 2; yield pyiceberg's properties of the catalog."""
    [port] = free_ports(1)
    listed = "".join(
        f"<property><name>{name}</name><value>{value.format(folder=folder)}</value></property>"
        for name, value in SETTINGS.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{listed}</configuration>")
    source, log = folder / "Metastore.java", folder / "metastore.log"
    source.write_text(METASTORE)
    jars = Path(pyspark.__file__).parent / "jars"
    command = ["java", "-Xmx512m", *JAVA.split(), f"-Djava.io.tmpdir={folder}"]
    command += ["-cp", f"{folder}:{jars}/*", str(source), "-p", str(port)]
    with running(command, log) as process:

        def listens() -> bool:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        def ended() -> str | None:
            return None if process.poll() is None else log.read_text(errors="replace")[-3000:]

        wait_until(listens, ended)
        compatible = {"hive.hive2-compatible": "true"}
        yield {"type": "hive", "uri": f"thrift://127.0.0.1:{port}", **compatible}
