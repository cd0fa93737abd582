"""Errors that a stream raises: one of a partition does not stop the others, and the next request tries again."""

import traceback

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native.clients import ConsumerConnector, KafkaError, MessageStream, NoOffset
from tests.support.clients.scripted_member import ALL, brokers_of_a_group, member_options, write
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.steps import Refuse

ATTEMPTS = 10_000

# Broker 1 leads partition 0, and broker 2 leads partition 1.
brokers = brokers_of_a_group(numbers=())


@pytest.fixture
def options(brokers: ScriptedCluster) -> dict[str, object]:
    return member_options(brokers) | {"consumer.timeout.ms": 30_000}


def read(stream: MessageStream, count: int) -> tuple[list[object], list[Exception]]:
    """The values of ``count`` records, and the errors between them."""
    values: list[object] = []
    errors: list[Exception] = []
    while len(values) < count:
        assert len(errors) < ATTEMPTS
        try:
            values.append(next(stream).value)
        except (KafkaError, NoOffset) as error:
            errors.append(error)
    return sorted(values, key=str), errors


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE], ids=lambda code: code.name
)
def test_a_partition_is_read_again_after_its_error_was_raised(
    brokers: ScriptedCluster, options: dict[str, object], code: ErrorCode
) -> None:
    write(brokers, ALL)
    brokers.script(FetchRequest, *[Refuse(code)] * 3, broker=2)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        values, errors = read(stream, 6)
    assert values == [0, 1, 2, 3, 4, 5]
    assert [error.code for error in errors if isinstance(error, KafkaError)] == [code] * 3


def test_other_partitions_are_read_while_one_has_an_error(brokers: ScriptedCluster, options: dict[str, object]) -> None:
    brokers.script(FetchRequest, *[Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 10_000, broker=2)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(KafkaError, match="t-1: not authorized for READ on this topic"):
            next(stream)
        write(brokers, ALL[::2])
        values, _ = read(stream, 3)
    assert values == [0, 2, 4]


def test_other_partitions_are_read_while_one_has_no_offset_to_continue_at(
    brokers: ScriptedCluster, options: dict[str, object]
) -> None:
    for number, offset in enumerate([0, 99]):
        brokers.state.committed["g", TopicPartition("t", number)] = (offset, -1, "")
    with ConsumerConnector(options | {"auto.offset.reset": "none"}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(NoOffset, match="no offset to begin at in t-1"):
            next(stream)
        write(brokers, ALL[::2])
        values, _ = read(stream, 3)
    assert values == [0, 2, 4]


@pytest.mark.parametrize(
    ("request_kind", "code"),
    [
        (JoinGroupRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (FetchRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
    ids=["group", "partition"],
)
def test_an_error_that_is_raised_many_times_keeps_the_length_of_its_traceback(
    brokers: ScriptedCluster, options: dict[str, object], request_kind: type, code: ErrorCode
) -> None:
    brokers.script(request_kind, *[Refuse(code)] * 10_000)
    lengths = set()
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        for _ in range(20):
            with pytest.raises(KafkaError) as raised:
                next(stream)
            lengths.add(len(traceback.extract_tb(raised.value.__traceback__)))
    assert max(lengths) < min(lengths) + 10
