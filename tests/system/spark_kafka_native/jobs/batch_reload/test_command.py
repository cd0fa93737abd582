import contextlib
import errno
import functools
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from spark_kafka_native._java import JavaMissing
from spark_kafka_native._jobs.batch_reload import command
from spark_kafka_native._jobs.batch_reload.appending import append_rows
from spark_kafka_native._jobs.batch_reload.command import main
from spark_kafka_native._jobs.batch_reload.errors import Conflict
from spark_kafka_native._jobs.batch_reload.loading import FileLoad
from spark_kafka_native._jobs.batch_reload.manifest import NO_FORMAT, TAIL_ENTRIES, Manifest
from spark_kafka_native._jobs.batch_reload.plan import Plan
from spark_kafka_native._jobs.batch_reload.reading import load_dataframe
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.versions import read_version, with_all_entries
from tests.support.clients.topics import Topics
from tests.support.features.feature import showing
from tests.support.spark.reload_driver import ReloadDriver
from tests.support.spark.reload_run import Run


@pytest.mark.spark
def test_results_in_json(spark: SparkSession, run: Run) -> None:  # the job uses the session
    def result(*more: str) -> list[dict[str, Any]]:
        status, given = run("--json", *more)
        assert status == 0, given
        return [json.loads(line) for line in run.lines]

    topic = run.arguments[3]
    plan = result("--dry-run")
    shared = {"action": "dry-run", "topic": topic, "from": 0, "until": 15, "offsets": 15, "tasks": 1}
    shared |= {"startsOver": False, "replaces": 0, "lost": None}
    assert plan == [{**shared, "partition": number} for number in (0, 1)]
    (loaded,) = result()
    assert loaded.pop("loadId")
    assert loaded == {"action": "load", "version": 1, "records": 30, "files": 2, "partitions": 2}
    (nothing,) = result()
    assert nothing == {"action": "load", "version": 1, "loadId": None, "records": 0, "files": 0, "partitions": 2}
    (verified,) = result("--verify")
    counts = {"ranges": 2, "rows": 30, "rangesCounted": 2}
    assert verified == {"action": "verify", "version": 1, "correct": True, **counts, "problems": []}
    (cleaned,) = result("--clean")
    assert cleaned == {"action": "clean", "files": 0, "bytes": 0, "versions": 0, "deadLoads": []}


@pytest.mark.spark
@pytest.mark.feature("reload.exactlyOnce", "reload.from", "reload.verify", "reload.progress", "reload.ranges")
@pytest.mark.parametrize("tail_entries", [TAIL_ENTRIES, 1], ids=["in the manifest", "in parts"])
def test_load_load_again_verify_and_clean(
    spark: SparkSession, run: Run, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail_entries: int
) -> None:
    monkeypatch.setattr(command, "FileLoad", functools.partial(FileLoad, tail_entries=tail_entries))
    topic, target = run.arguments[3], run.arguments[5]
    status, given = run("--max-records-per-task", "10", "--value-as-string")
    assert (status, given.startswith("load"), "4/4" in given) == (0, True, True)
    assert given.endswith(f"loaded 30 records in 4 files of 2 partitions into {target}, version 1")
    assert run() == (0, "nothing to load after version 1: 2 partitions have nothing new")
    topics.write(topic, ["30", "31"], partition=[0, 1])
    assert run()[0] == 0
    beyond, again = ('{"%s":{"0":%d}}' % (topic, offset) for offset in (17, 9))  # noqa: UP031 -- braces
    text = f"batch_reload: --from-offsets: {topic}-0 ends at offset 16, before offset 17"
    assert run("--from-offsets", beyond) == (2, text)
    assert run("--from-offsets", again)[1].endswith("version 3")
    frame = load_dataframe(spark, target)
    assert sorted(int(row.value) for row in frame.collect()) == list(range(32))
    assert frame.select("partition", "offset").distinct().count() == 32
    assert load_dataframe(spark, target, 1).count() == 30
    given = f"--version: {target} does not have version 4; its versions are 1 to 3"
    assert run("--verify", "--version", "4") == (2, f"batch_reload: {given}")
    status, given = run("--verify")
    assert status == 0
    assert given.endswith("version 3 is correct: 5 ranges, 32 rows; the records of 5 ranges were counted in the topics")
    topics.delete_before(topic, 8, partition=1)
    status, given = run("--verify")
    assert (status, f"{topic} aged out 2" in given) == (0, True)
    assert given.endswith("the records of 3 ranges were counted in the topics")
    first = read_version(LocalStorage(target), 1)
    assert first is not None
    assert bool(first.parts) == (tail_entries == 1)
    damaged = Path(target, with_all_entries(LocalStorage(target), first).files[0].path)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    status, given = run("--verify", "--version", "1")
    assert status == 1
    assert f"{topic}-0 offsets [0, 7) damaged" in given
    assert "version 1 is NOT correct" in given
    damaged.write_bytes(whole)
    assert main(["--target", target, "--clean", "--keep-versions", "1"]) == 0
    assert load_dataframe(spark, target).select("offset").where("partition = 1").count() == 16
    status, given = run("--format", "text", "--target", str(tmp_path / "text"))
    assert (status, "version 1" in given) == (0, True)
    topics.write(topic, ["a\nb"])
    status, given = run("--format", "text", "--target", str(tmp_path / "text"))
    assert status == 1
    assert given == (
        "batch_reload: a value with a line break in it cannot be written to a text file; use --format json, csv or "
        "another one"
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "output", [showing("json", shows="reload.exactlyOnce"), showing("noop", shows="reload.otherFormats")]
)
def test_topic_recreated_after_the_plan_is_not_published(
    spark: SparkSession, run: Run, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """Files are not published; nor are positions of rows that went elsewhere."""
    topic, make_plan = run.arguments[3], command.Job._plan

    def plan_and_replace(job: command.Job, base: Manifest | None) -> Plan:
        plan = make_plan(job, base)
        topics.delete(topic)
        topics.create(2, name=topic)
        topics.write(topic, [f"other {n}" for n in range(40)], partition=[n % 2 for n in range(40)])
        return plan

    monkeypatch.setattr(command.Job, "_plan", plan_and_replace)
    state = tmp_path / "state"
    elsewhere = ["--format", "noop", "--state", str(state)]
    status, given = run(*(["--format", "json"] if output == "json" else elsewhere))
    assert (status, f"topic {topic} was deleted and created again while the load ran" in given) == (1, True), given
    for target in (state, Path(run.arguments[5])):
        assert read_version(LocalStorage(str(target))) is None


@pytest.mark.spark
@pytest.mark.feature("reload.verify")
def test_verify_reports_a_recreated_topic(spark: SparkSession, run: Run, topics: Topics) -> None:
    topic = run.arguments[3]
    assert run()[0] == 0
    topics.delete(topic)
    topics.create(2, name=topic)
    topics.write(topic, [f"other {n}" for n in range(30)], partition=[n % 2 for n in range(30)])
    status, given = run("--verify")
    assert (status, f"{topic} topic recreated 2 30" in given) == (0, True), given
    assert given.endswith("version 1 is correct: 2 ranges, 30 rows; the records of 0 ranges were counted in the topics")


@pytest.mark.feature("reload.dryRun")
def test_dry_run_prints_the_plan_and_makes_nothing(run: Run, tmp_path: Path) -> None:
    status, given = run("--dry-run", "--min-tasks", "6")
    assert status == 0
    assert given.endswith("all 30 6")
    assert list(tmp_path.iterdir()) == []


def test_deleted_records_are_an_error_unless_accepted(run: Run, topics: Topics) -> None:
    topic = run.arguments[3]
    topics.delete_before(topic, 5)
    start = '{"%s":{"0":2,"1":0}}' % topic  # noqa: UP031 -- braces
    status, given = run("--from-offsets", start, "--dry-run")
    assert status == 1
    assert f"offsets [2, 5) of {topic}-0 were deleted before they were loaded. --accept-data-loss" in given
    status, given = run("--from-offsets", start, "--dry-run", "--accept-data-loss")
    assert (status, "offsets [2, 5) were deleted" in given) == (0, True)


@pytest.mark.parametrize(
    ("more", "status", "given"),
    [
        (
            ["--topics", "no-such-topic", "--option", "fetchOffset.numRetries=0"],
            2,
            "these topics of option --topics do not exist in the cluster at ",
        ),
        (["--option", "kafka.bootstrap.server=x"], 2, "batch_reload: --option kafka.bootstrap.server: is not a Kafka"),
        (["--option", "kafka.acks=x"], 2, "batch_reload: --option kafka.acks: 'x' is not one of"),
        (["--topics", ","], 2, "batch_reload: --topics: ',' names no topic"),
        (["--bootstrap-servers", "h"], 2, "batch_reload: --bootstrap-servers: 'h' has no port"),
        (
            ["--option", "kafka.security.protocol=SASL_SSL"],
            2,
            "batch_reload: option 'kafka.sasl.kerberos.service.name'",
        ),
        (["--option", "startingOffsets=x"], 2, "use --from"),
        (["--format", "parquet", "--compression", "zip"], 2, "--compression: parquet has snappy"),
        (["--columns", "valeu"], 2, "'valeu' is not a column of the source"),
        (["--target", "ftp://host/x"], 2, "--target: ftp://host/x: cannot publish there"),
        (["--verify"], 2, "/target: nothing has been loaded there"),
        (["--clean"], 2, "/target: nothing has been loaded there"),
        (["--from", '{"w":"earliest"}'], 2, "--from: names topics that were not chosen: w"),
        (["--from-offsets", '{"w":"earliest"}'], 2, "--from-offsets: names topics that were not chosen: w"),
    ],
)
def test_errors_are_one_line_and_a_status(run: Run, more: list[str], status: int, given: str) -> None:
    found, text = run(*more)
    assert (found, text.startswith("batch_reload: ")) == (status, True)
    assert given in text
    assert not Path(run.arguments[5]).exists()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("retries=many", "retries: 'many' is not an integer"),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no/such.pem",
            "ssl.truststore.location: /no/such.pem: cannot be read: No such file or directory",
        ),
    ],
)
def test_an_invalid_property_is_named_with_its_file(run: Run, tmp_path: Path, lines: str, said: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{lines}\n")
    assert run("--properties-file", str(file)) == (2, f"batch_reload: --properties-file {file}: {said}")


def test_without_java_no_target_is_created(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> NoReturn:
        raise JavaMissing("found none", "install a JDK")

    monkeypatch.setattr(command, "ensure_java", missing)
    assert run() == (1, "batch_reload: found none: install a JDK")
    assert not (tmp_path / "target").exists()


def test_cluster_that_cannot_be_reached(run: Run) -> None:
    run.arguments[1] = "127.0.0.1:1"
    status, text = run("--option", "kafka.default.api.timeout.ms=300", "--option", "kafka.request.timeout.ms=200")
    assert (status, "127.0.0.1:1" in text) == (1, True)
    assert text.endswith("; check --bootstrap-servers")


@pytest.mark.parametrize(
    ("error", "status", "given"),
    [
        (Conflict("another run has published"), 3, "another run has published"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_statuses_of_the_job(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, given: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(command.Job, "run", fail)
    found, text = run()
    assert (found, given in text) == (status, True)


@pytest.mark.parametrize(
    ("action", "step", "said"),
    [
        ([], "_version", "; nothing was published"),
        (["--dry-run"], "_version", ""),
        (["--verify"], "_version", ""),
        ([], "check_unchanged", "; nothing was published"),
        ([], "load_files", "; the version may have been published; the next run continues after the latest version"),
        ([], "_say", "; version 1 was published"),
    ],
)
def test_an_interrupted_run_prints_what_it_has_published(
    run: Run, monkeypatch: pytest.MonkeyPatch, action: list[str], step: str, said: str
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    def load_files(_storage: object, load: FileLoad, *_: object) -> Manifest:
        load.check()
        if step == "load_files":
            raise KeyboardInterrupt
        return Manifest(version=1, load_id="", kind="load", created_ms=0, format=NO_FORMAT)

    monkeypatch.setattr(command, "ensure_java", lambda: None)
    monkeypatch.setattr(command, "spark_session", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(command, "SparkRunner", lambda *_: None)
    monkeypatch.setattr(command, "load_files", load_files)
    if step == "check_unchanged":
        monkeypatch.setattr(command, step, interrupt)
    elif step != "load_files":
        monkeypatch.setattr(command.Job, step, interrupt)
    assert run(*action) == (130, f"batch_reload: interrupted{said}")


def test_nothing_to_verify_where_only_a_clean_has_been(
    driver: ReloadDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.storage.create("_loads/dead/t/1.json", b"123")
    assert driver.clean().dead_loads == ("dead",)
    assert main(["--bootstrap-servers", "127.0.0.1:1", "--target", str(driver.root), "--verify"]) == 2
    assert "nothing has been loaded there" in capsys.readouterr().err


def test_rows_of_other_formats_cannot_be_loaded_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    storage, topic = LocalStorage(str(state)), run.arguments[3]
    driver = ReloadDriver(state)
    for partition in (0, 1):
        driver.produce(topic, partition, 5)
    plan = driver.plan(None)
    append_rows(storage, "a", None, plan, "noop", lambda _: None, check=driver.check_of(plan), now_ms=1.0)
    monkeypatch.setattr(command, "spark_session", lambda *_, **__: pytest.fail("Spark was started"))
    status, given = run("--format", "noop", "--state", str(state), "--from", "earliest")
    assert (status, "--from: noop cannot be loaded again" in given) == (2, True)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://db/raw", "SQLException: No suitable driver"),
        ("jdbc:derby:/no/such/database", "SQLException: Database '/no/such/database' not found"),
    ],
)
def test_errors_of_other_formats_name_the_format_and_the_cause_in_java(
    spark: SparkSession, run: Run, tmp_path: Path, url: str, reason: str
) -> None:
    run.arguments = run.arguments[:4]
    options = ["--write-option", f"url={url}", "--write-option", "dbtable=events"]
    status, text = run("--format", "jdbc", "--state", str(tmp_path), "--columns", "value", *options)
    assert status == 1
    assert text == (
        f"batch_reload: --format jdbc: {reason}. Check --write-option, and that Spark has the classes of the format "
        "(--jars or --packages of spark-submit)"
    )


def test_clean_needs_no_cluster_and_no_spark(driver: ReloadDriver, capsys: pytest.CaptureFixture[str]) -> None:
    driver.produce("t", 0, 5)
    driver.load()
    driver.load("earliest")
    assert main(["--target", str(driver.root), "--clean", "--keep-versions", "1"]) == 0
    assert capsys.readouterr().out.startswith("removed 1 file (")
    assert driver.records() == driver.produced()


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted; --clean can be run again"),
        (OSError(errno.EIO, "input/output error", "a.parquet"), 1, "--target: a.parquet: input/output error"),
        (OSError(errno.EACCES, "permission denied", "a.parquet"), 2, "--target: a.parquet: permission denied"),
    ],
)
def test_a_clean_that_ends_early_can_be_run_again(
    driver: ReloadDriver,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    text: str,
) -> None:
    def fail(*_: object) -> NoReturn:
        raise error

    driver.produce("t", 0, 5)
    driver.load()
    driver.load("earliest")
    clean = ["--target", str(driver.root), "--clean", "--keep-versions", "1"]
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "remove", fail)
        assert main(clean) == status
    assert " ".join(capsys.readouterr().err.split()) == f"batch_reload: {text}"
    assert main(clean) == 0
    assert "removed 1 file (" in capsys.readouterr().out
    assert driver.records() == driver.produced()
