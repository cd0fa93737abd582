import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._jobs.batch_reload.arguments import Arguments, parse_arguments
from spark_kafka_native._jobs.batch_reload.command import batch_reload, main
from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.points import AtOffsets, AtTime
from spark_kafka_native._spark.offsets import Ago, Earliest
from spark_kafka_native._spark.options.parsing import Query, parse_source_options

SOURCE = ["--bootstrap-servers", "k:9092", "--topics", "a,b"]
PLAIN = [*SOURCE, "--target", "/data"]


def read(arguments: Sequence[str]) -> Arguments:
    return parse_arguments(Options(**batch_reload.make_context("batch_reload", list(arguments)).params))


def parsed(*more: str) -> Arguments:
    return read([*PLAIN, *more])


def options(*more: str) -> dict[str, str]:
    return dict(parsed(*more).source_options)


def test_defaults_of_batch_reload_arguments() -> None:
    said = read(PLAIN)
    assert (said.start, said.until, said.format, said.columns) == (None, None, None, ())
    assert (said.action, said.keep_versions, said.lease_s, said.location.url) == ("load", 10, 3600.0, "/data")
    assert parsed("--since-last-run").start is None
    assert options() == {
        "kafka.bootstrap.servers": "k:9092",
        "kafka.isolation.level": "read_committed",
        "subscribe": "a,b",
    }
    parse_source_options(options(), Query.BATCH)


@pytest.mark.feature("reload.ranges")
def test_from_and_until_are_times_or_offsets() -> None:
    assert parsed("--from", "-2h").start == AtTime(Ago(duration_ms=7_200_000))
    assert parsed("--until", "-1h").until == AtTime(Ago(duration_ms=3_600_000))
    assert parsed("--from=1000").start == AtTime(1000)
    assert parsed("--from", "earliest").start == AtOffsets(Earliest())
    assert isinstance(parsed("--from-offsets", '{"a":{"0":3}}').start, AtOffsets)


def test_options_of_the_source(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("client.id=x\nisolation.level=read_uncommitted\nfetch.min.bytes=1\n")
    said = options(
        "--properties-file",
        str(properties),
        "--option",
        "kafka.client.id=y",
        "--option",
        "maxDecompressedBatchBytes=1000",
    )
    assert said["kafka.client.id"] == "y", "what is said goes before what is in the file"
    assert said["kafka.isolation.level"] == "read_uncommitted"
    assert said["kafka.fetch.min.bytes"] == "1"
    assert said["maxDecompressedBatchBytes"] == "1000"
    pattern = read(["--bootstrap-servers", "k:1", "--topic-pattern", "^a", "--target", "/x"])
    assert dict(pattern.source_options)["subscribePattern"] == "^a"


@pytest.mark.timeout(20)  # a second open() of the pipe waits for a writer
def test_properties_file_may_be_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "client.properties"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("client.id=x\n",))
    writer.start()
    given = parsed("--properties-file", str(pipe))
    writer.join()
    assert dict(given.source_options)["kafka.client.id"] == "x"
    assert given.origins["kafka.client.id"] == f"--properties-file {pipe}: client.id"


def test_a_jdbc_target_needs_state_and_write_options() -> None:
    said = read(
        [*SOURCE, "--format", "jdbc", "--state", "/state", "--write-option", "url=jdbc:x=y", "--columns", "key, value"]
    )
    assert (said.location.url, said.target, said.columns) == ("/state", None, ("key", "value"))
    assert dict(said.write_options) == {"url": "jdbc:x=y"}
    table = read([*SOURCE, "--format", "delta", "--state", "/state", "--table", "raw"])
    assert table.table == "raw"


def test_clean_and_verify_need_less() -> None:
    said = read(["--target", "/data", "--clean", "--keep-versions", "3", "--lease-minutes", "5"])
    assert (said.action, said.keep_versions, said.lease_s) == ("clean", 3, 300.0)
    said = read(["--bootstrap-servers", "k:1", "--target", "/data", "--verify", "--version", "4"])
    assert (said.action, said.version) == ("verify", 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (SOURCE, "--target"),
        (["--target", "/x", "--topics", "a"], "--bootstrap-servers"),
        (["--target", "/x", "--bootstrap-servers", "k:1"], "--topics or --topic-pattern"),
        (["--target", "/x", "--verify"], "--bootstrap-servers"),
        ([*PLAIN, "--from", "soon"], "--from: 'soon' is not a point in time"),
        ([*PLAIN, "--until", "2026-11-20T10:00:00"], "--until: .* no time zone"),
        ([*PLAIN, "--from-offsets", "{"], "--from-offsets: not valid JSON"),
        ([*PLAIN, "--option", "startingOffsets=latest"], "--option startingOffsets: use --from"),
        ([*PLAIN, "--option", "MinPartitions=4"], "--option MinPartitions: use --min-tasks"),
        ([*PLAIN, "--option", "failOnDataLoss=false"], "use --accept-data-loss"),
        ([*PLAIN, "--format", "parket"], r"^--format: parket is not a file format of this job; did you mean parquet\?"),
        ([*PLAIN, "--format", "jdbc"], "--state is required for positions: jdbc"),
        ([*PLAIN, "--format", "jdbc", "--state", "/s", "--table", "t"], "--table and --target cannot be used together"),
        (
            [*SOURCE, "--format", "jdbc", "--state", "/s", "--compression", "gzip"],
            "--compression has an effect only with file formats; use --write-option for jdbc",
        ),
        ([*PLAIN, "--version", "4"], "--version: only --verify has this option"),
        ([*PLAIN, "--clean", "--version", "4"], "--version: only --verify has this option"),
        ([*PLAIN, "--clean", "--from", "-1h"], "--from: only a load and --dry-run have this option"),
        ([*PLAIN, "--verify", "--from-offsets", "{}"], "--from-offsets: only a load and --dry-run have this option"),
        ([*PLAIN, "--verify", "--until", "latest"], "--until: only a load and --dry-run have this option"),
        ([*PLAIN, "--verify", "--min-tasks", "2"], "--min-tasks: only a load and --dry-run have this option"),
        ([*PLAIN, "--clean", "--accept-data-loss"], "--accept-data-loss: only a load and --dry-run have this option"),
        ([*PLAIN, "--table", "t"], "--table has an effect only with formats other than parquet"),
        ([*PLAIN, "--write-option", "a=b"], "--write-option has an effect only with formats other than"),
    ],
)
def test_invalid_combinations_of_arguments(arguments: list[str], said: str) -> None:
    with pytest.raises((UsageError, InvalidOption), match=said):
        read(arguments)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ToolFailed, match=r"^--properties-file /no/such/file: No such file or directory$"):
        parsed("--properties-file", "/no/such/file")


def test_secrets_are_not_repeated() -> None:
    with pytest.raises(InvalidOption) as caught:
        parsed("--storage-option", "geheim")
    assert "geheim" not in str(caught.value)
    assert "geheim" not in repr(
        parsed("--storage-option", "secret=geheim", "--option", "kafka.ssl.key.password=geheim")
    )


@pytest.mark.parametrize(
    "wrong", [["--from", "1", "--from-offsets", "{}"], ["--verify", "--clean"], ["--min-tasks", "0"], ["--targ", "x"]]
)
def test_invalid_arguments_have_exit_status_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAIN, *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err


def test_nearest_option_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--topcs", "ck", "--target", "/x"]) == 2
    assert "No such option '--topcs'. Did you mean '--topics'?\n" in capsys.readouterr().err


@pytest.mark.feature("reload.exactlyOnce", "reload.otherFormats")
def test_help_names_delivery_guarantees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "EXACTLY ONCE. Files of a run" in text
    assert "AT LEAST ONCE. Rows are appended with a column load_id" in text
    assert "exit status" in text
    assert "2 a bad option, or a target that belongs to another program" in text
    assert "130 interrupted" in text
