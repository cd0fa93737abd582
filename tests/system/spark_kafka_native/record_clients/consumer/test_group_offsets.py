"""Where members of a group begin and continue, and which offsets they commit."""

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.delete_records import delete_records
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native.clients import ConsumerConnector, NoOffset, SimpleConsumer
from tests.support.clients.consuming import (
    PARTITIONS,
    Consuming,
    all_of,
    both_protocols,
    committed,
    numbers,
    wait_until_shared,
    with_protocol,
    write,
)
from tests.support.clients.native import config_of
from tests.support.records.record_batches import rows
from tests.support.waiting import eventually

OUT_OF_RANGE = 1000


def commit(broker: EmbeddedBroker, options: dict[str, object], offsets: dict[TopicPartition, int]) -> None:
    with SimpleConsumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
        consumer.commit_offsets(
            str(options["group.id"]), {(part.topic, part.partition): each for part, each in offsets.items()}
        )


# --- auto.offset.reset


@both_protocols
@pytest.mark.parametrize(("reset", "expected"), [("earliest", list(range(9))), ("latest", [6, 7, 8])])
def test_a_committed_offset_after_the_log_end_is_replaced_as_auto_offset_reset_says(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str, reset: str, expected: list[int]
) -> None:
    options = with_protocol(options, protocol) | {"auto.offset.reset": reset}
    write(broker, topic, range(6), 1)
    commit(broker, options, {TopicPartition(topic, 0): OUT_OF_RANGE})
    with Consuming(options, {topic: 1}) as consuming:
        eventually(lambda: committed(broker, options["group.id"]).get(0), 6, within_s=60)
        write(broker, topic, range(6, 9), 1)
        eventually(lambda: numbers(consuming), expected, within_s=60)
    assert consuming.errors == []
    assert committed(broker, options["group.id"])[0] == 9


def test_the_largest_offset_that_can_be_committed_is_after_the_log_end_as_any_other(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    write(broker, topic, range(6), 1)
    commit(broker, options, {TopicPartition(topic, 0): 2**63 - 1})
    with Consuming(options, {topic: 1}) as consuming:
        eventually(lambda: numbers(consuming), list(range(6)), within_s=60)


@both_protocols
def test_a_committed_offset_whose_records_were_deleted_is_replaced_by_the_log_start(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol)
    write(broker, topic, range(6), 1)
    commit(broker, options, {TopicPartition(topic, 0): 1})
    with Cluster(config_of(broker.bootstrap_servers)) as cluster:
        delete_records(cluster, {TopicPartition(topic, 0): 4})
    with Consuming(options, {topic: 1}) as consuming:
        eventually(lambda: numbers(consuming), [4, 5], within_s=60)
    assert committed(broker, options["group.id"])[0] == 6


def test_without_auto_offset_reset_a_committed_offset_out_of_range_is_raised_by_each_request_for_a_record(
    broker: EmbeddedBroker, topic: str, options: dict[str, object]
) -> None:
    options["auto.offset.reset"] = "none"
    offsets = {TopicPartition(topic, number): 0 for number in range(PARTITIONS)}
    commit(broker, options, offsets | {TopicPartition(topic, 2): OUT_OF_RANGE})
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        for _ in range(2):
            with pytest.raises(NoOffset, match=f"no offset to begin at in {topic}-2, and auto.offset.reset is none"):
                next(stream)
    assert committed(broker, options["group.id"])[2] == OUT_OF_RANGE


# --- commits without records


@both_protocols
def test_positions_of_latest_are_committed_so_that_a_restart_loses_no_record(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol) | {"auto.offset.reset": "latest"}
    write(broker, topic, range(6))
    with Consuming(options, {topic: 1}) as consuming:
        wait_until_shared([consuming], all_of(topic))
    assert consuming.values == []
    assert committed(broker, options["group.id"]) == dict.fromkeys(range(PARTITIONS), 1)
    write(broker, topic, range(6, 12))
    with Consuming(options, {topic: 1}) as consuming:
        eventually(lambda: numbers(consuming), list(range(6, 12)), within_s=60)


@both_protocols
def test_positions_of_latest_are_committed_while_no_record_comes(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol) | {"auto.offset.reset": "latest"}
    write(broker, topic, range(6))
    with Consuming(options, {topic: 1}):
        eventually(lambda: committed(broker, options["group.id"]), dict.fromkeys(range(PARTITIONS), 1), within_s=60)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_offsets_are_committed_up_to_the_log_end_after_the_markers_of_transactions(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], ends: str, isolation: str
) -> None:
    options["isolation.level"] = isolation
    with (
        Cluster(config_of(broker.bootstrap_servers)) as cluster,
        TransactionalProducer(cluster, f"writer-of-{topic}") as producer,
    ):
        for value in (b"0", b"1"):
            producer.begin()
            producer.send(topic, rows([value], partition=[0]))
            producer.flush()
            if ends == "commit" or value == b"0":
                producer.commit()
            else:
                producer.abort()
    expected = [0] if ends == "abort" and isolation == "read_committed" else [0, 1]
    with Consuming(options, {topic: 1}) as consuming:
        eventually(lambda: numbers(consuming), expected, within_s=60)
        eventually(lambda: committed(broker, options["group.id"]).get(0), 4, within_s=60)
    assert consuming.errors == []


# --- topics that come and go


@both_protocols
def test_a_topic_that_does_not_exist_yet_is_read_after_its_creation(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Long before metadata.max.age.ms."""
    options = with_protocol(options, protocol)
    later, heartbeat = f"{topic}-later", "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
    without_partitions = options | {"client.id": later}
    with Consuming(options, {topic: 1, later: 1}) as first, Consuming(without_partitions, {later: 1}) as second:
        wait_until_shared([first], all_of(topic))
        eventually(lambda: len(broker.requests(heartbeat, client_id=later)) > 1, expected=True)
        warning = f"group {options['group.id']}: these topics do not exist yet: {later}"
        assert caplog.text.count(warning) == 2, "one of each member"
        broker.create_topic(later, PARTITIONS)
        write(broker, later, range(12))
        eventually(lambda: numbers(first, second), list(range(12)), within_s=60)
    assert (first.errors, second.errors) == ([], [])


@both_protocols
def test_a_topic_that_was_deleted_and_created_again_is_read_from_its_beginning(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol) | {"metadata.max.age.ms": 100}
    with Consuming(options, {topic: 1}) as consuming:
        write(broker, topic, range(6))
        eventually(lambda: numbers(consuming), list(range(6)), within_s=60)
        eventually(lambda: committed(broker, options["group.id"]), dict.fromkeys(range(PARTITIONS), 1), within_s=60)
        broker.delete_topic(topic)
        broker.create_topic(topic, PARTITIONS)
        write(broker, topic, range(10, 16))
        # A partition that is assigned again may have begun twice.
        eventually(lambda: sorted(set(numbers(consuming))), [*range(6), *range(10, 16)], within_s=60)
        eventually(lambda: committed(broker, options["group.id"]), dict.fromkeys(range(PARTITIONS), 1), within_s=60)
    assert consuming.errors == []


@both_protocols
def test_other_topics_are_read_while_one_is_deleted(
    broker: EmbeddedBroker, topic: str, options: dict[str, object], protocol: str
) -> None:
    options = with_protocol(options, protocol) | {"metadata.max.age.ms": 100}
    gone = f"{topic}-gone"
    broker.create_topic(gone, PARTITIONS)
    with Consuming(options, {topic: 1, gone: 1}) as consuming:
        write(broker, gone, range(6))
        write(broker, topic, range(10, 16))
        eventually(lambda: numbers(consuming), [*range(6), *range(10, 16)], within_s=60)
        broker.delete_topic(gone)
        eventually(lambda: consuming.partitions, all_of(topic), within_s=60)
        write(broker, topic, range(20, 26))
        eventually(lambda: numbers(consuming), [*range(6), *range(10, 16), *range(20, 26)], within_s=60)
    assert committed(broker, options["group.id"]) == dict.fromkeys(range(PARTITIONS), 2)
