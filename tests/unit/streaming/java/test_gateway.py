"""What the JVM says on stderr, and what of it reaches a person."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.waiting import HANG_S
from tailbit.streaming.java.gateway import JavaErrors, is_noise, paragraphs, small_java, without_noise

LOST = [
    "Traceback (most recent call last):\n",
    '  File "/x/pyspark.zip/pyspark/daemon.py", line 262, in manager\n',
    '  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker\n',
    "BrokenPipeError: [Errno 32] Broken pipe\n",
]


def test_a_traceback_is_one_piece_and_other_lines_are_pieces_of_their_own() -> None:
    found = list(paragraphs(["one\n", *LOST, "two\n", LOST[0], "  cut off\n"]))
    assert found == ["one\n", "".join(LOST), "two\n", LOST[0] + "  cut off\n"]


def test_an_idle_worker_that_is_taken_down_says_nothing() -> None:
    assert is_noise("".join(LOST))
    assert is_noise("WARNING: Using incubator modules: jdk.incubator.vector\n")


def test_tracebacks_of_two_workers_that_are_written_in_between_say_nothing_and_an_own_frame_is_told() -> None:
    """Seen where a disk became read only: the second half of one stood in the log without its beginning."""
    header, frame, *_, error = LOST
    lines = [header, header, frame, error, frame, "    outfile.flush()\n", error]
    told = ["ERROR Executor: lost\n", "  at the end\n"]
    assert list(without_noise(paragraphs([*lines, *told]))) == told
    ours = frame.replace("pyspark.zip/pyspark/daemon.py", "tailbit/index/write/run.py")
    assert list(without_noise(paragraphs([*lines, ours, error]))) == [ours, error]


def test_an_error_is_never_taken_for_noise() -> None:
    assert not is_noise("2026-01-01 00:00:00 ERROR Executor: lost\n")
    assert not is_noise("".join(LOST).replace("BrokenPipeError", "MemoryError"))
    assert not is_noise("".join(LOST).replace("pyspark/daemon.py", "tailbit/index/write/run.py"))


def test_how_jars_are_found_is_not_told_and_stack_frames_are() -> None:
    found = """:: loading settings :: url = jar:file:/ivysettings.xml
Ivy Default Cache set to: /root/.ivy2/cache
The jars for the packages stored in: /root/.ivy2/jars
io.delta#delta-spark_4.2_2.13 added as a dependency
\tconfs: [default]
\tfound io.delta#delta-spark_4.2_2.13;4.4.0 in central
\tio.delta#delta-storage;4.4.0 from central in [default]
\t|      default     |   37  |   0   |   0   |   4   ||   33  |   0   |
\t0 artifacts copied, 33 already retrieved (0kB/39ms)
"""
    why = (
        "java.lang.RuntimeException: [unresolved dependency: io.delta#x;9: not found]\n\tat a.B.c(B.java:1)\n"
    )
    assert "".join(without_noise(paragraphs((found + why).splitlines(keepends=True)))) == why


def test_a_worker_that_finds_its_java_gone_says_nothing_and_what_follows_is_told() -> None:
    calls = '  File "/x/pyspark.zip/pyspark/util.py", line 816, in local_connect_and_auth\n'
    first = [LOST[0], calls, "FileNotFoundError: [Errno 2] No such file or directory\n"]
    then = ["\n", "During handling of the above exception, another exception occurred:\n", "\n"]
    second = [LOST[0], calls, "pyspark.errors.exceptions.base.PySparkRuntimeError: [CANNOT_OPEN_SOCKET]\n"]
    told = ["\n", "ERROR Executor: lost\n", "\n"]
    assert list(without_noise(paragraphs([*first, *then, *second, *told[1:]]))) == told[1:]
    assert list(without_noise(paragraphs(told))) == told


@pytest.mark.parametrize("error", ["BrokenPipeError: [Errno 32] Broken pipe\n", "EOFError\n"])
def test_a_source_whose_java_is_taken_down_says_nothing_in_all_its_chained_tracebacks(error: str) -> None:
    """Seen under load after SIGTERM: three tracebacks, each raised while the one before it was handled."""
    runner = (
        '  File "/x/pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 293, in main\n'
    )
    socket = '  File "/usr/lib/python3.11/socket.py", line 724, in write\n'
    frozen = '  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    joined = ["\n", "During handling of the above exception, another exception occurred:\n", "\n"]
    marked = ["    return self._sock.send(b)\n", "           ^^^^^^^^^^^^^^^^^^\n"]
    pieces = [[LOST[0], *frames, *marked, error] for frames in ([runner, socket], [runner], [frozen, socket])]
    told = "ERROR Executor: lost\n"
    lines = [*pieces[0], *joined, *pieces[1], *joined, *pieces[2], told]
    assert list(without_noise(paragraphs(lines))) == [told]


@pytest.mark.parametrize(
    "ours", ["/x/tailbit/index/write/run.py", "/usr/lib/python3.11/site-packages/q/q.py"]
)
def test_a_lost_connection_with_other_code_on_the_stack_is_told(ours: str) -> None:
    frame = f'  File "{ours}", line 3, in read\n'
    assert not is_noise("".join([*LOST[:3], frame, LOST[3]]))


@pytest.mark.parametrize("variable", ["SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"])
def test_a_collector_that_the_environment_chose_is_left_to_it(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java ends with an error where two are chosen."""
    for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    assert "-XX:+UseSerialGC" in small_java()
    monkeypatch.setenv(variable, "-Dx=y -XX:+UseG1GC -Xmx1g")
    assert "GC" not in small_java()


def test_java_is_started_without_python_in_a_copy_of_this_process_and_has_variables_of_its_own() -> None:
    """There a lock that another thread held would be held for ever; hung in a soak."""
    environment = {name: value for name, value in os.environ.items() if name != "TAILBIT_PYTHON"}
    said = subprocess.run(
        [sys.executable, "-c", _STARTED], env=environment, capture_output=True, text=True, timeout=HANG_S
    )
    assert (said.stdout.split(), said.returncode) == (["started", "java-alone", "None"], 0), said.stderr


_STARTED = """
import os
from tailbit.streaming.java.gateway import launch_java
os.register_at_fork(after_in_child=lambda: os._exit(3))
gateway, _ = launch_java({"spark.ui.enabled": "false"}, {"TAILBIT_PYTHON": "java-alone"})
print("started", gateway.jvm.System.getenv("TAILBIT_PYTHON"), os.environ.get("TAILBIT_PYTHON"))
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait(60)
"""


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-XX:NoSuchOption=1"], "Unrecognized VM option 'NoSuchOption=1'"),
        (["-Xmx1g", "-Xms2g"], "Error occurred during initialization of VM"),
        (
            ["-Xshare:auto", "-cp", "/nowhere", "No"],
            "Could not find or load main class No",
        ),
    ],
)
def test_java_that_does_not_start_is_told_by_the_line_that_says_why(options: list[str], why: str) -> None:
    assert why in said_by("java", *options)


def test_what_stops_spark_before_it_starts_is_told_and_not_the_end_of_its_stack() -> None:
    lines = [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        'Exception in thread "main" org.apache.spark.SparkException: Master must be yarn',
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)",
    ]
    assert said_by("printf", "%s\\n", *lines).endswith("Master must be yarn")


def said_by(*command: str) -> str:
    """Why a command did not start, by what it writes to stderr."""
    errors = JavaErrors()
    subprocess.run(command, stdout=errors.write_end, stderr=errors.write_end, check=False)
    os.close(errors.write_end)
    return errors.why()
