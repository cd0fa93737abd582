import pickle

import pytest

from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.options.parsing import (
    Query,
    check_source_options,
    parse_sink_options,
    parse_source_options,
)
from tests.support.features.feature import showing
from tests.support.features.table import FEATURES

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
BASE = SERVERS | {"subscribe": "t"}
BadOptions = tuple[dict[str, str], str, str]
"""Options, the one that the error names, and a part of its message."""

BAD_STRATEGIES: list[BadOptions] = [
    (SERVERS, "subscribe", "is required, or 'subscribePattern' or 'assign' instead"),
    (BASE | {"assign": '{"t":[0]}'}, "subscribe", "contradicts 'assign'"),
    (BASE | {"subscribePattern": "t", "assign": '{"t":[0]}'}, "subscribe", "contradicts 'subscribePattern' and"),
]
COUNTS = ["minPartitions", "maxPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"]
BAD_COUNTS = dict.fromkeys(["a", "1.0", "1e6"], "not an integer")
BAD_COUNTS |= dict.fromkeys(["0", "-5"], "out of bounds; expected at least 1")
BAD_SOURCE_OPTIONS: list[BadOptions] = [
    *((BASE | {name: value}, name, complaint) for name in COUNTS for value, complaint in BAD_COUNTS.items()),
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
    (
        BASE | {"startingOffsetsWithoutCommit": "latest"},
        "startingOffsetsWithoutCommit",
        "requires option 'startingOffsets' = committed",
    ),
    (BASE | {"maxPartitions": "3", "minPartitions": "4"}, "minPartitions", "4 is greater than maxPartitions, 3"),
    (BASE | {"fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries", "out of bounds"),
    (BASE | {"kafka.bootstrap.servers": "localhost"}, "kafka.bootstrap.servers", "no port"),
    (BASE | {"kafka.isolation.level": "dirty"}, "kafka.isolation.level", "is not one of"),
    (BASE | {"kafka.fetch.min.byte": "1"}, "kafka.fetch.min.byte", "did you mean kafka.fetch.min.bytes?"),
    (
        {"subscribe": "t", "kafka.bootstrap.server": "localhost:9092"},
        "kafka.bootstrap.server",
        "did you mean kafka.bootstrap.servers?",
    ),
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
    (BASE | {"bootstrap.server": "localhost:9092"}, "bootstrap.server", "'kafka.bootstrap.servers'"),
    (BASE | {"security.protocol": "SSL"}, "security.protocol", "did you mean 'kafka.security.protocol'?"),
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
        "is valid only in a streaming query",
    ),
    ({"jvmCheckpoint": "/c"}, "jvmCheckpoint", "is valid only in a streaming query"),
]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"commitOffsetsToGroup": "true"}, "option 'commitOffsetsToGroup': needs option 'kafka.group.id'"),
        ({"jvmCheckpoint": "/c", "startingOffsets": "committed"}, "option 'startingOffsets': committed needs"),
        ({"endingOffsets": "earliest"}, "option 'endingOffsets': cannot be earliest in a batch query"),
        (
            {"startingOffsets": "latest", "endingOffsets": "latest"},
            (
                "option 'startingOffsets': cannot be latest in a batch query: there would be nothing to read. With "
                "readStream: option 'endingOffsets': is valid only in a batch query"
            ),
        ),
    ],
)
def test_load_raises_the_error_of_the_query_that_has_these_options(options: dict[str, str], error: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_source_options(BASE | options)
    assert str(caught.value).startswith(error)


def test_invalid_option_that_only_a_batch_has_is_no_error_of_a_stream() -> None:
    with pytest.raises(OptionError) as caught:
        check_source_options(BASE | {"startingTimestamp": "20", "endingTimestamp": "10"})
    assert str(caught.value).startswith("option 'endingTimestamp': the start timestamp 20")
    assert "readStream" not in str(caught.value)


def shown_in_a_batch(option: str, complaint: str) -> str:
    if "not in both" in complaint:
        return "offsets.sets"
    return "offsets.order" if "greater than" in complaint else shown(option)


@pytest.mark.parametrize(
    ("options", "option", "complaint"), [showing(*case, shows=shown_in_a_batch(*case[1:])) for case in BAD_BATCHES]
)
def test_bad_batch_options(options: dict[str, str], option: str, complaint: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_source_options(BASE | options, Query.BATCH)
    assert caught.value.option == option
    assert complaint in caught.value.message


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
