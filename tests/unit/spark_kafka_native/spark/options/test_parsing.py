import pickle

import pytest

from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.compression import CompressionType
from spark_kafka_native.spark.errors import OptionError
from spark_kafka_native.spark.offsets import (
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
from spark_kafka_native.spark.options.parsing import (
    Query,
    SourceOptions,
    _parsed_once,
    check_source_options,
    parse_sink_options,
    parse_source_options,
)
from spark_kafka_native.spark.options.table import SINK_OPTIONS, SOURCE_OPTIONS, Option
from spark_kafka_native.spark.subscription import Assign, Subscribe, SubscribePattern
from tests.support.feature import showing
from tests.support.features import FEATURES

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
BASE = SERVERS | {"subscribe": "t"}
BadOptions = tuple[dict[str, str], str, str]
"""Options, the one that the error names, and a part of its message."""
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
def test_defaults() -> None:
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


BAD_STRATEGIES: list[BadOptions] = [
    (SERVERS, "subscribe", "or one of subscribePattern, assign is required"),
    (BASE | {"assign": '{"t":[0]}'}, "subscribe", "contradicts 'assign'"),
    (BASE | {"subscribePattern": "t", "assign": '{"t":[0]}'}, "subscribe", "contradicts 'subscribePattern' and"),
]
BAD_SOURCE_OPTIONS: list[BadOptions] = [
    ({"subscribe": "t"}, "kafka.bootstrap.servers", "is required"),
    ({}, "kafka.bootstrap.servers", "needs its options in WITH (...)"),
    (SERVERS | {"subscribe": " , "}, "subscribe", "names no topic"),
    (SERVERS | {"subscribe": "a b"}, "subscribe", "characters other than"),
    (SERVERS | {"subscribePattern": "  "}, "subscribePattern", "is empty"),
    (SERVERS | {"subscribePattern": "(a"}, "subscribePattern", "not a regular expression"),
    (SERVERS | {"assign": "t-0"}, "assign", "not valid JSON"),
    (SERVERS | {"assign": '{"t":[]}'}, "assign", "names no partition"),
    (BASE | {"startingOffsets": "begin"}, "startingOffsets", "'begin' is neither one of these words nor JSON"),
    (BASE | {"startingOffsets": "erliest"}, "startingOffsets", "; did you mean earliest?"),
    (BASE | {"startingOffsets": "commited"}, "startingOffsets", "; did you mean committed?"),
    (BASE | {"kafka.compression.lz4.level": "99"}, "kafka.compression.lz4.level", "out of bounds; expected 1 to 17"),
    (BASE | {"startingTimestamp": "yesterday"}, "startingTimestamp", "not a point in time"),
    (BASE | {"startingOffsetsByTimestamp": '{"t":5}'}, "startingOffsetsByTimestamp", "object of partitions"),
    (BASE | {"startingOffsetsByTimestampStrategy": "skip"}, "startingOffsetsByTimestampStrategy", "neither"),
    (BASE | {"failOnDataLoss": "no"}, "failOnDataLoss", "neither true nor false"),
    (BASE | {"includeHeaders": "1"}, "includeHeaders", "neither true nor false"),
    (BASE | {"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger", "out of bounds; expected at least 1"),
    (BASE | {"maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger", "out of bounds"),
    (BASE | {"maxOffsetsPerTrigger": "1e6"}, "maxOffsetsPerTrigger", "not an integer"),
    (BASE | {"minOffsetsPerTrigger": "0"}, "minOffsetsPerTrigger", "out of bounds; expected at least 1"),
    (BASE | {"minOffsetsPerTrigger": "a"}, "minOffsetsPerTrigger", "not an integer"),
    (BASE | {"maxTriggerDelay": "soon"}, "maxTriggerDelay", "'soon' is not a duration; expected e.g. 100ms"),
    (BASE | {"kafkaConsumer.pollTimeoutMs": "0"}, "kafkaConsumer.pollTimeoutMs", "out of bounds"),
    (BASE | {"maxDecompressedBatchBytes": "0"}, "maxDecompressedBatchBytes", "expected at least 1"),
    (BASE | {"maxDecompressedBatchBytes": "2147483648"}, "maxDecompressedBatchBytes", "out of bounds"),
    (BASE | {"maxDecompressedBatchBytes": "1g"}, "maxDecompressedBatchBytes", "not an integer"),
    (BASE | {"kafka.group.id": " "}, "kafka.group.id", "is empty"),
    (BASE | {"invalidUtf8": "drop"}, "invalidUtf8", "'drop' is not one of replace, null, fail, keep"),
    (BASE | {"startingOffsetsDefault": "5"}, "startingOffsetsDefault", "neither earliest nor latest nor of the"),
    (BASE | {"startingOffsetsDefault": "earliest"}, "startingOffsetsDefault", "the JSON of 'startingOffsets' or"),
    (BASE | {"startingOffsets": "committed"}, "startingOffsets", "committed needs option 'kafka.group.id'"),
    (BASE | {"startingOffsetsWithoutCommit": "latest"}, "startingOffsetsWithoutCommit", "set to committed"),
    (BASE | {"minPartitions": "0"}, "minPartitions", "out of bounds"),
    (BASE | {"minPartitions": "-1"}, "minPartitions", "out of bounds"),
    (BASE | {"minPartitions": "a"}, "minPartitions", "not an integer"),
    (BASE | {"minPartitions": "1.0"}, "minPartitions", "not an integer"),
    (BASE | {"maxPartitions": "0"}, "maxPartitions", "out of bounds"),
    (BASE | {"maxPartitions": "many"}, "maxPartitions", "not an integer"),
    (BASE | {"maxPartitions": "3", "minPartitions": "4"}, "minPartitions", "4 is greater than maxPartitions, 3"),
    (BASE | {"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition", "out of bounds"),
    (BASE | {"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition", "out of bounds"),
    (BASE | {"maxRecordsPerPartition": "a"}, "maxRecordsPerPartition", "not an integer"),
    (BASE | {"maxRecordsPerPartition": "1.0"}, "maxRecordsPerPartition", "not an integer"),
    (BASE | {"fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries", "out of bounds"),
    (BASE | {"kafka.bootstrap.servers": "localhost"}, "kafka.bootstrap.servers", "no port"),
    (BASE | {"kafka.isolation.level": "dirty"}, "kafka.isolation.level", "is not one of"),
    (BASE | {"kafka.fetch.min.byte": "1"}, "kafka.fetch.min.byte", "did you mean fetch.min.bytes?"),
    # What the JVM connector refuses, too.
    (BASE | {"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset", "'startingOffsets'"),
    (BASE | {"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit", "not supported"),
    (BASE | {"kafka.interceptor.classes": "X"}, "kafka.interceptor.classes", "not supported"),
    (BASE | {"kafka.key.deserializer": "X"}, "kafka.key.deserializer", "binary"),
    (BASE | {"kafka.value.deserializer": "X"}, "kafka.value.deserializer", "binary"),
]
UNKNOWN_NAMES: list[BadOptions] = [
    (BASE | {"startingOffset": "earliest"}, "startingoffset", "did you mean 'startingOffsets'?"),
    (BASE | {"bootstrap.servers": "localhost:9092"}, "bootstrap.servers", "'kafka.bootstrap.servers'"),
    (BASE | {"zzz": "1"}, "zzz", "is not an option of the pykafka source"),
    (BASE | {"topic": "t"}, "topic", "belongs to the sink, not to the source"),
    (BASE | {"_mockSystemTime": ""}, "_mocksystemtime", "is not an option of the pykafka source"),
    (BASE | {"databricks.serviceCredential": "x"}, "databricks.servicecredential", "option of Databricks' connector"),
    (BASE | {"bytesEstimateWindowLength": "9s"}, "bytesestimatewindowlength", "the progress listener"),
]
OF_CLIENT = {
    "kafka.bootstrap.servers": "source.bootstrapServers",
    "kafka.group.id": "source.groupId",
    "kafka.isolation.level": "source.isolationLevel",
    "kafka.fetch.min.byte": "client.unknown",
    "kafka.auto.offset.reset": "client.auto.offset.reset",
    "kafka.enable.auto.commit": "client.enable.auto.commit",
    "kafka.interceptor.classes": "client.interceptor.classes",
    "kafka.key.deserializer": "client.deserializers",
    "kafka.value.deserializer": "client.deserializers",
}


def shown(option: str) -> str:
    named = OF_CLIENT.get(option, f"source.{option.rpartition('.')[2]}")
    return named if named in FEATURES else ""


@pytest.mark.parametrize(
    ("options", "option", "complaint"),
    [
        *(showing(*case, shows="source.strategy") for case in BAD_STRATEGIES),
        *(showing(*case, shows="source.options") for case in UNKNOWN_NAMES),
        *(showing(*case, shows=shown(case[1])) for case in BAD_SOURCE_OPTIONS),
    ],
)
@pytest.mark.parametrize("query", list(Query))
def test_bad_source_options(options: dict[str, str], option: str, complaint: str, query: Query) -> None:
    with pytest.raises(OptionError) as caught:
        parse_source_options(options, query)
    assert caught.value.option == option
    assert complaint in caught.value.message
    assert f"'{option}'" in str(caught.value)
    with pytest.raises(OptionError):
        check_source_options(options)


BAD_BATCHES: list[BadOptions] = [
    ({"startingOffsets": "latest"}, "startingOffsets", "cannot be latest in a batch query"),
    ({"startingOffsets": '{"t":{"0":5,"1":-1}}'}, "startingOffsets", "cannot be latest in a batch query for t-1"),
    ({"startingOffsets": '{"t":"latest"}'}, "startingOffsets", "cannot be latest in a batch query for t"),
    ({"endingOffsets": "earliest"}, "endingOffsets", "cannot be earliest in a batch query"),
    ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets", "cannot be earliest in a batch query for t-0"),
    (
        {"startingOffsets": '{"t":{"0":0}}', "endingOffsets": '{"t":{"0":1,"1":1}}'},
        "endingOffsets",
        "must name the same partitions as 'startingOffsets'; not in both: t-1",
    ),
    (
        {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":0}}'},
        "endingOffsets",
        "the start offset 1 is greater than the end offset 0 for t-0",
    ),
    (
        {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"1":5}}'},
        "endingOffsetsByTimestamp",
        "not in both: t-0, t-1",
    ),
    (
        {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":4}}'},
        "endingOffsetsByTimestamp",
        "the start timestamp 5 is greater than the end timestamp 4 for t-0",
    ),
    ({"startingTimestamp": "5", "endingTimestamp": "4"}, "endingTimestamp", "5 is greater than the end timestamp 4"),
    (
        {"startingTimestamp": "-5m", "endingTimestamp": "-10m"},
        "endingTimestamp",
        "the start timestamp -300000ms is greater than the end timestamp -600000ms",
    ),
    ({"startingOffsets": "latest-5", "endingOffsets": "latest-6"}, "endingOffsets", "start latest-5 is greater than"),
    (
        {"startingOffsets": '{"t":{"0":5}}', "startingOffsetsDefault": "latest"},
        "startingOffsets",
        "cannot be latest in a batch query for partitions that are not named",
    ),
    (
        {"endingOffsets": '{"t":{"0":5}}', "endingOffsetsDefault": "earliest"},
        "endingOffsets",
        "cannot be earliest in a batch query for partitions that are not named",
    ),
    ({"endingOffsetsDefault": "latest"}, "endingOffsetsDefault", "JSON of 'endingOffsets'"),
    (
        {"kafka.group.id": "g", "commitOffsetsToGroup": "true"},
        "commitOffsetsToGroup",
        "not valid in a batch query; it is for streams",
    ),
    ({"jvmCheckpoint": "/c"}, "jvmCheckpoint", "not valid in a batch query; it is for streams"),
]


def shown_in_a_batch(option: str, complaint: str) -> str:
    if "not in both" in complaint:
        return "offsets.sets"
    return "offsets.order" if "greater than" in complaint else shown(option)


@pytest.mark.parametrize(
    ("options", "option", "complaint"), [showing(*case, shows=shown_in_a_batch(*case[1:])) for case in BAD_BATCHES]
)
def test_bad_batch_options(options: dict[str, str], option: str, complaint: str) -> None:
    with pytest.raises(OptionError) as caught:
        batch(**options)
    assert caught.value.option == option
    assert complaint in caught.value.message


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
    with pytest.raises(OptionError, match="is not valid in a streaming query") as caught:
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


def test_sink_options() -> None:
    options = parse_sink_options(
        SERVERS | {"topic": " out ", "kafka.compression.type": "zstd", "includeHeaders": "true"}
    )
    assert options.topic == "out"
    assert options.client.compression_type is CompressionType.ZSTD
    assert parse_sink_options(SERVERS).topic is None
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "option", "complaint"),
    [
        ({"topic": "t"}, "kafka.bootstrap.servers", "is required"),
        (SERVERS | {"topic": " "}, "topic", "is empty"),
        (SERVERS | {"topic": "a/b"}, "topic", "characters other than"),
        (SERVERS | {"topics": "a"}, "topics", "did you mean 'topic'?"),
        (SERVERS | {"subscribe": "a"}, "subscribe", "belongs to the source, not to the sink"),
        (SERVERS | {"kafka.acks": "2"}, "kafka.acks", "is not one of"),
        (SERVERS | {"kafka.key.serializer": "X"}, "kafka.key.serializer", "not supported"),
        (SERVERS | {"kafka.value.serializer": "X"}, "kafka.value.serializer", "not supported"),
    ],
)
def test_bad_sink_options(options: dict[str, str], option: str, complaint: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_sink_options(options)
    assert caught.value.option == option
    assert complaint in caught.value.message


# --- secrets


@pytest.mark.parametrize("option", ["kafka.sasl.jass.config", "kafka.ssl.keystore.passwort", "password", "token"])
def test_values_of_secrets_are_in_no_error(option: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_source_options(BASE | {option: "hunter2"}, Query.STREAM)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value)


@pytest.mark.parametrize("option", ["kafka.sasl.jaas.config", "kafka.ssl.keystore.password", "kafka.ssl.key.password"])
def test_values_of_secrets_are_in_neither_options_nor_errors(option: str) -> None:
    try:
        shown = repr(parse_source_options(BASE | {option: "hunter2"}, Query.STREAM))
    except OptionError as error:
        shown = f"{error} {error!r}"
    assert "hunter2" not in shown


def test_errors_can_be_pickled() -> None:
    error = OptionError("topic", "is empty")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "option 'topic': is empty"


@pytest.mark.parametrize("table", [SOURCE_OPTIONS, SINK_OPTIONS])
def test_option_names_are_unique_and_documented(table: tuple[Option, ...]) -> None:
    assert len({option.name.lower() for option in table}) == len(table)
    for option in table:
        assert option.doc.endswith(".")
        assert option.type.legal
        assert option.batch or option.stream
