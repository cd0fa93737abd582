import pickle

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.offsets import (
    Ago,
    BeforeLatest,
    Committed,
    Earliest,
    GlobalTimestamp,
    Latest,
    NoMatch,
    PartitionTimestamps,
    SpecificOffsets,
)
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import (
    Query,
    _parsed_once,
    check_source_options,
    parse_sink_options,
    parse_source_options,
)
from spark_kafka_native._spark.options.table import SINK_OPTIONS, SOURCE_OPTIONS, Option
from spark_kafka_native._spark.subscription import Assign, Subscribe, SubscribePattern
from tests.support.features.feature import showing

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
BASE = SERVERS | {"subscribe": "t"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(**options: str) -> SourceOptions:
    return parse_source_options(BASE | options, Query.BATCH)


def stream(**options: str) -> SourceOptions:
    return parse_source_options(BASE | options, Query.STREAM)


@pytest.mark.feature(
    "source.startingOffsets",
    "source.failOnDataLoss",
    "source.includeHeaders",
    "source.numRetries",
    "source.retryIntervalMs",
    "source.maxTriggerDelay",
    "source.pollTimeoutMs",
)
def test_defaults_of_source_options() -> None:
    options = stream()
    assert options.subscription == Subscribe(topics=("t",))
    assert (options.starting, options.ending) == (Latest(), Latest())
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_offsets_per_trigger is None
    assert options.min_partitions is None
    assert (options.offset_retries, options.offset_retry_interval_ms) == (3, 1000)
    assert (options.min_offsets_per_trigger, options.max_trigger_delay_ms) == (None, 15 * 60 * 1000)
    assert (options.poll_timeout_ms, options.group_id, options.jvm_checkpoint) == (None, None, None)
    assert options.max_decompressed_batch_bytes == 512 * 1024 * 1024
    assert not options.commit_to_group
    assert options.invalid_utf8 == "replace"
    assert options.client.isolation_level == 0
    assert batch().starting == Earliest()


@pytest.mark.feature("source.options")
def test_option_names_are_case_insensitive() -> None:
    options = parse_source_options(
        {
            "KAFKA.Bootstrap.Servers": "one:1,two:2",
            "kafka.Isolation.Level": "read_committed",
            "SUBSCRIBEPATTERN": " ev.* ",
            "startingoffsets": "earLiEst",
            "MaxOffsetsPerTrigger": "7",
            "MINOFFSETSPERTRIGGER": "6",
            "maxtriggerdelay": "90s",
            "kafkaconsumer.polltimeoutms": "512",
            "maxdecompressedbatchbytes": "1000000",
            "KAFKA.Group.ID": "My-Group",
            "commitoffsetstogroup": "TRUE",
            "groupidprefix": "p",
            "jvmcheckpoint": "/Check/Point",
            "invalidutf8": "NULL",
            "minpartitions": "4",
            "maxRecordsPerPartition": "100",
            "FAILONDATALOSS": "False",
            "includeheaders": "TRUE",
            "fetchoffset.numretries": "0",
            "fetchOffset.retryIntervalMs": "5",
        },
        Query.STREAM,
    )
    assert [str(server) for server in options.client.bootstrap_servers] == ["one:1", "two:2"]
    assert options.client.isolation_level == 1
    assert options.subscription == SubscribePattern(pattern="ev.*")
    assert options.starting == Earliest()
    assert (options.max_offsets_per_trigger, options.min_partitions, options.max_records_per_partition) == (7, 4, 100)
    assert (options.min_offsets_per_trigger, options.max_trigger_delay_ms) == (6, 90_000)
    assert (options.poll_timeout_ms, options.group_id, options.commit_to_group) == (512, "My-Group", True)
    assert options.max_decompressed_batch_bytes == 1_000_000
    assert (options.jvm_checkpoint, options.invalid_utf8) == ("/Check/Point", "null")
    assert (options.fail_on_data_loss, options.include_headers) == (False, True)
    assert (options.offset_retries, options.offset_retry_interval_ms) == (0, 5)


def test_options_can_be_pickled() -> None:
    options = batch(startingOffsets='{"t":{"0":1}}', endingOffsets='{"t":{"0":5}}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_subscriptions() -> None:
    assert batch(subscribe=" b, a ,,b").subscription == Subscribe(topics=("a", "b"))
    assign = parse_source_options(SERVERS | {"assign": '{"t":[1,0]}'}, Query.BATCH)
    assert assign.subscription == Assign(partitions=(T0, T1))


@pytest.mark.feature(
    "source.startingTimestamp", "source.startingOffsetsByTimestamp", "source.startingOffsetsByTimestampStrategy"
)
def test_precedence_of_starting_options() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "startingOffsets": "earliest"}
    assert batch(**by_partition).starting == PartitionTimestamps(timestamps={T0: 5}, no_match=NoMatch.ERROR)
    for_all = by_partition | {"startingTimestamp": "9", "startingOffsetsByTimestampStrategy": "LATEST"}
    assert batch(**for_all).starting == GlobalTimestamp(timestamp_ms=9, no_match=NoMatch.LATEST)


@pytest.mark.feature("source.endingTimestamp", "source.endingOffsetsByTimestamp", "source.endingOffsets")
def test_precedence_of_ending_options() -> None:
    by_partition = {"endingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsets": "latest"}
    assert batch(**by_partition).ending == PartitionTimestamps(timestamps={T0: 5}, no_match=NoMatch.LATEST)
    for_all = by_partition | {"endingTimestamp": "9"}
    assert batch(**for_all).ending == GlobalTimestamp(timestamp_ms=9, no_match=NoMatch.LATEST)


def test_specific_batch_ranges_may_end_at_latest_or_be_given_by_topic() -> None:
    options = batch(startingOffsets='{"t":{"0":-2,"1":5}}', endingOffsets='{"t":{"0":-1,"1":-1}}')
    assert options.ending == SpecificOffsets(offsets={T0: -1, T1: -1})
    assert batch(startingOffsets='{"t":"earliest"}', endingOffsets='{"t":{"0":3}}').starting == SpecificOffsets(
        topics={"t": -2}
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        showing(option, value, shows=f"source.{option}")
        for option, value in {
            "endingOffsets": "latest",
            "endingOffsetsByTimestamp": '{"t":{"0":5}}',
            "endingTimestamp": "5",
        }.items()
    ],
)
def test_ending_options_are_invalid_in_a_stream(option: str, value: str) -> None:
    with pytest.raises(OptionError, match="is valid only in a batch query") as caught:
        stream(**{option: value})
    assert caught.value.option == option
    assert check_source_options(BASE | {option: value})


@pytest.mark.parametrize(
    "option",
    [
        showing(option, shows=f"source.{option}")
        for option in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
    ],
)
def test_rate_limits_in_a_batch_are_warned_of(option: str, caplog: pytest.LogCaptureFixture) -> None:
    assert batch(**{option: "5"}) is not None
    assert f"'{option}' has no effect in a batch query" in caplog.text
    assert batch(minOffsetsPerTrigger="20", maxOffsetsPerTrigger="15")


def test_load_of_a_stream_with_an_error_has_no_warning_of_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    check_source_options(BASE | {"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"})
    assert caplog.text == ""


def test_load_accepts_what_a_batch_or_a_stream_accepts() -> None:
    assert check_source_options(BASE | {"startingOffsets": "latest", "includeHeaders": "true"}).include_headers
    with pytest.raises(OptionError):
        check_source_options(BASE | {"startingOffsets": "latest", "endingOffsets": "latest"})


def test_options_of_spark_are_ignored() -> None:
    noise = {"path": "/x", "owner": "me", "provider": "pykafka", "option.subscribe": "t", "location": "/y"}
    assert parse_source_options(BASE | noise, Query.BATCH) == batch()
    sink_noise = {
        "path": "/x",
        "checkpointlocation": "/c",
        "queryname": "q",
        "asyncProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": "5000",
    }
    assert parse_sink_options(SERVERS | sink_noise) == parse_sink_options(SERVERS)


def test_warnings_of_client_properties_are_logged_once_per_process(caplog: pytest.LogCaptureFixture) -> None:
    """Spark makes a streaming writer twice for every micro-batch."""
    _parsed_once.cache_clear()
    for _ in range(5):
        parse_sink_options(SERVERS | {"kafka.metric.reporters": "X"})
    assert caplog.text.count("client property metric.reporters has no effect") == 1


# --- positions that the JVM connector does not have


@pytest.mark.feature("more.lastN")
def test_last_offsets_of_every_partition() -> None:
    assert stream(startingOffsets="latest-100").starting == BeforeLatest(100)
    options = batch(startingOffsets="Latest - 100", endingOffsets="latest-50")
    assert (options.starting, options.ending) == (BeforeLatest(100), BeforeLatest(50))


@pytest.mark.feature("more.relativeTimes")
def test_timestamps_in_options() -> None:
    assert stream(startingTimestamp="-10m").starting == GlobalTimestamp(
        timestamp_ms=Ago(duration_ms=600_000), no_match=NoMatch.ERROR
    )
    options = batch(startingTimestamp="2026-11-20T10:00:00+01:00", endingTimestamp="-2 hours")
    assert options.starting == GlobalTimestamp(timestamp_ms=1_795_165_200_000, no_match=NoMatch.ERROR)
    assert options.ending == GlobalTimestamp(timestamp_ms=Ago(duration_ms=7_200_000), no_match=NoMatch.LATEST)


@pytest.mark.feature("more.partialOffsets")
def test_offsets_default_applies_to_unnamed_partitions() -> None:
    assert stream(startingOffsets='{"t":{"0":5}}', startingOffsetsDefault="latest").starting == SpecificOffsets(
        offsets={T0: 5}, default=-1
    )
    options = batch(
        startingOffsetsByTimestamp='{"t":{"0":5}}',
        startingOffsetsDefault="latest-3",
        endingOffsets='{"u":"latest"}',
        endingOffsetsDefault="latest-1",
    )
    assert options.starting == PartitionTimestamps(timestamps={T0: 5}, no_match=NoMatch.ERROR, default=BeforeLatest(3))
    assert options.ending == SpecificOffsets(topics={"u": -1}, default=BeforeLatest(1))


@pytest.mark.feature("more.startCommitted", "source.groupId")
def test_starts_at_committed_offsets() -> None:
    group = {"startingOffsets": "Committed", "kafka.group.id": "g"}
    assert stream(**group).starting == Committed(group_id="g", otherwise=Latest())
    assert batch(**group).starting == Committed(group_id="g", otherwise=Earliest())
    otherwise = batch(**group, startingOffsetsWithoutCommit="latest-5").starting
    assert otherwise == Committed(group_id="g", otherwise=BeforeLatest(5))
    # A time goes before offsets, wherever these come from.
    assert stream(**group, startingTimestamp="5").starting == GlobalTimestamp(timestamp_ms=5, no_match=NoMatch.ERROR)
    assert "group_id" not in {name.replace(".", "_") for name in stream(**group).client.given}


# --- sink


def test_sink_options_are_parsed() -> None:
    options = parse_sink_options(
        SERVERS | {"topic": " out ", "kafka.compression.type": "zstd", "includeHeaders": "true"}
    )
    assert options.topic == "out"
    assert options.client.compression_type is CompressionType.ZSTD
    assert parse_sink_options(SERVERS).topic is None
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("table", [SOURCE_OPTIONS, SINK_OPTIONS])
def test_option_names_are_unique_and_documented(table: tuple[Option, ...]) -> None:
    assert len({option.name.lower() for option in table}) == len(table)
    for option in table:
        assert option.doc.endswith(".")
        assert option.type.legal
        assert option.batch or option.stream
