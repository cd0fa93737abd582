"""The batch load as a cluster runs it: killed with its Spark, its executors killed, on Apache Kafka, into S3 and JDBC.

The state after each step is shown, quicker, by tests/system/spark_kafka_native/jobs/batch_reload/test_loading.py.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._java import ensure_java
from spark_kafka_native._jobs.batch_reload.clean import clean
from spark_kafka_native._jobs.batch_reload.errors import Conflict, UsageError
from spark_kafka_native._jobs.batch_reload.manifest import Manifest
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.storage.object_storage import ObjectStorage
from spark_kafka_native._jobs.batch_reload.storage.storage import SAMPLE_SIZE
from spark_kafka_native._jobs.batch_reload.target import check_own
from spark_kafka_native._jobs.batch_reload.versions import read_version
from spark_kafka_native._spark.planning.ranges import OffsetRange
from spark_kafka_native._spark.worker_python import worker_python
from tests.support.clients.confluent_transactions import TransactionalWriter
from tests.support.clients.topics import Topics
from tests.support.report import Report
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.spark.reload_driver import Record, ReloadDriver
from tests.support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240
RECORDS = 24_000


class Job:
    """The job in processes of its own, on one topic and target, into JSON."""

    def __init__(self, servers: str, topic: str, target: Path) -> None:
        self.target = target
        self._arguments = ["--bootstrap-servers", servers, "--topics", topic]

    def start(self, *more: str, submit: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """Begin; as ``spark-submit`` with options if there are any."""
        ensure_java()
        script = str(ROOT / "jobs" / "batch_reload.py")
        spark_submit = str(Path(sys.executable).with_name("spark-submit"))
        front = [spark_submit, *submit, script] if submit else [sys.executable, script]
        return subprocess.Popen(
            [*front, *self._arguments, *more],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYSPARK_PYTHON": worker_python(),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.target.parent,
            start_new_session=True,
        )

    def load(self, *more: str) -> str:
        """Run to the end; what was printed."""
        with self.start(*more) as running:
            printed, _ = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0, printed
        return printed

    def into_files(self, *more: str) -> tuple[str, ...]:
        """Options of a load into JSON."""
        return ("--target", str(self.target), "--format", "json", "--columns", "topic,partition,offset,value", *more)

    def version(self) -> Manifest | None:
        return read_version(LocalStorage(str(self.target)))

    def offsets(self) -> list[tuple[int, int]]:
        """Partition and offset of what a reader finds now."""
        manifest, found = self.version(), []
        for entry in manifest.files if manifest else ():
            for line in (self.target / entry.path).read_text().splitlines():
                record = json.loads(line)
                found.append((record["partition"], record["offset"]))
        return sorted(found)

    def files(self) -> int:
        return len(list((self.target / "_loads").rglob("*.json")))


def wait_for(moment: Callable[[], bool], running: "subprocess.Popen[str]") -> None:
    """Return at a moment in a job's life; the job must not have ended by itself before."""

    def is_there() -> bool:
        if moment():
            return True
        assert running.poll() is None, running.stdout and not running.stdout.closed and running.stdout.read()
        return False

    eventually(is_there, True, within_s=PATIENCE_S)


def kill_at(running: "subprocess.Popen[str]", moment: Callable[[], bool]) -> None:
    """Kill a job with all of its processes once something is so."""
    wait_for(moment, running)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.communicate()


@pytest.fixture(scope="module")
def topic(bundled_broker: BrokerProcess) -> str:
    with Topics(bundled_broker.bootstrap_servers) as topics:
        name = topics.create(4, prefix="reload")
        for partition in range(4):
            topics.write(name, [f"{n}" for n in range(RECORDS // 4)], partition=partition)
    return name


EVERYTHING = sorted((partition, offset) for partition in range(4) for offset in range(RECORDS // 4))
TASKS = 16
FINE = ("--max-records-per-task", str(RECORDS // TASKS))


@pytest.mark.kill
@pytest.mark.feature("reload.kills", "reload.exactlyOnce")
def test_killed_with_its_spark_at_three_moments(
    bundled_broker: BrokerProcess, topic: str, tmp_path: Path, seed: int, report: Report
) -> None:
    job = Job(bundled_broker.bootstrap_servers, topic, tmp_path / "target")
    for enough in (1, TASKS // 2):
        wanted = job.files() + enough
        kill_at(job.start(*job.into_files(*FINE)), lambda wanted=wanted: job.files() >= wanted)  # type: ignore[misc]  # of this round
        assert job.offsets() in ([], EVERYTHING)
    kill_at(job.start(*job.into_files(*FINE)), lambda: job.version() is not None)
    assert job.offsets() == EVERYTHING
    assert "nothing to load" in job.load(*job.into_files(*FINE))
    removed = clean(LocalStorage(str(job.target)), now_s=time.time(), lease_s=-1.0, keep_versions=1)
    assert len(removed.dead_loads) == 2
    report("Loads that were killed", [f"SEED={seed}: 3 kills; {len(EVERYTHING)} records in the table, each once"])
    assert job.offsets() == EVERYTHING
    assert job.files() == TASKS


@pytest.mark.kill
@pytest.mark.feature("reload.exactlyOnce", "reload.tasks")
def test_executor_killed_and_tasks_run_twice_at_once(bundled_broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """On a cluster of two executors, speculating early: attempts that are not taken are in no version."""
    job = Job(bundled_broker.bootstrap_servers, topic, tmp_path / "target")
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "1ms",
        "spark.ui.enabled": "false",
    }
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    submit = ("--master", "local-cluster[2,1,1024]", *conf)
    running = job.start(*job.into_files(*FINE), submit=submit)
    printed: list[str] = []
    reader = threading.Thread(target=lambda: printed.append(running.communicate(timeout=PATIENCE_S)[0]))
    reader.start()
    wait_for(lambda: job.files() >= TASKS // 4, running)
    os.kill(next(executors_of(running.pid)), signal.SIGKILL)
    reader.join()
    assert running.returncode == 0, printed
    assert job.offsets() == EVERYTHING


def executors_of(session: int) -> Iterator[int]:
    """Executors among the processes of a session."""
    for directory in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(directory.name)
            if os.getsid(pid) == session and b"CoarseGrainedExecutorBackend" in (directory / "cmdline").read_bytes():
                yield pid


@pytest.mark.feature("reload.exactlyOnce", "reload.otherFormats", "reload.verify")
def test_apache_kafka_with_transactions_into_files_and_a_database(apache_kafka: ApacheKafka, tmp_path: Path) -> None:
    servers = apache_kafka.bootstrap_servers
    with Topics(servers) as topics:
        topic = topics.create()
        topics.write(topic, ["0", "1"])
        with_transactions(apache_kafka, servers, topic)
        topics.write(topic, ["last"])
        job = Job(servers, topic, tmp_path / "target")
        job.load(*job.into_files("--value-as-string"))
        values = [
            json.loads(line)["value"]
            for path in (tmp_path / "target").rglob("*.json")
            if "_loads" in path.parts
            for line in path.read_text().splitlines()
        ]
        assert sorted(values) == ["0", "1", "committed", "last"]
        assert "is correct" in job.load("--target", str(job.target), "--verify")
        url = f"jdbc:derby:{tmp_path / 'database'};create=true"
        database = ("--format", "jdbc", "--state", str(tmp_path / "state"), "--columns", "partition,offset,value")
        options = ("--value-as-string", "--write-option", f"url={url}", "--write-option", "dbtable=events")
        assert "version 1" in job.load(*database, *options)
        topics.write(topic, ["new"])
        assert "version 2" in job.load(*database, *options)
    state = read_version(LocalStorage(str(tmp_path / "state")))
    assert state is not None
    assert [made.kind for made in state.history] == ["load", "load"]


def with_transactions(broker: ApacheKafka, servers: str, topic: str) -> None:
    """One transaction that is aborted and one that is committed."""
    transactions = TransactionalWriter(servers, f"reload-{topic}")
    with transactions.transaction(abort=True):
        transactions.send(topic, ["aborted"])
    with transactions.transaction():
        transactions.send(topic, ["committed"])


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """An S3 of this machine, and options to reach it."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "k", "secret": "s"}
    pytest.importorskip("s3fs", reason="s3fs is not installed").S3FileSystem(**options).mkdir("loads")
    yield options
    server.stop()


@pytest.mark.feature("reload.exactlyOnce")
def test_s3_keeps_runs_apart(s3: dict[str, str], tmp_path: Path) -> None:
    """Every call really goes to an S3: conditional PUTs decide who publishes."""
    storage = ObjectStorage("s3://loads/raw", s3)
    driver = ReloadDriver(tmp_path, storage)
    driver.produce("t", 0, 40)
    beaten: list[Record] = []

    def another_run(_: OffsetRange) -> None:
        if not beaten:
            beaten.append(("t", 0, 0))
            driver.load(max_records_per_task=10)

    with pytest.raises(Conflict, match="another run"):
        driver.load(max_records_per_task=10, before_task=another_run)
    assert driver.records() == driver.produced()
    driver.produce("t", 0, 10)
    driver.load()
    driver.load('{"t":{"0":25}}')
    assert driver.records() == driver.produced()
    assert driver.records(1) == driver.produced()[:40]
    driver.clean()
    assert driver.unnamed_files() == []
    winners: list[int] = []

    def create(number: int) -> None:
        with contextlib.suppress(FileExistsError):
            ObjectStorage("s3://loads/raw", s3).create("race", b"%d" % number)
            winners.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert storage.read("race") == b"%d" % winners[0]


def test_s3_prefix_of_something_else_is_found_by_one_page_of_a_listing(s3: dict[str, str]) -> None:
    storage = ObjectStorage("s3://loads/other", s3)
    assert storage.sample("") == ()
    for number in range(2 * SAMPLE_SIZE + 20):
        storage.put(f"{number:06d}", b"")
    pages: list[dict[str, str]] = []
    events = storage._files.s3.meta.events
    events.register("before-call.s3.ListObjectsV2", lambda params, **_: pages.append(params["query_string"]))
    with pytest.raises(
        UsageError,
        match=r"--target: s3://loads/other is not a target of this job and not empty: it has 000000, 000001, 000002, ",
    ):
        check_own(storage, "--target")
    assert pages[0]["prefix"] == "other/"
    assert not [page for page in pages if "continuation-token" in page]
    storage.put("_loads/1/t/x.json", b"")
    check_own(storage, "--target")
