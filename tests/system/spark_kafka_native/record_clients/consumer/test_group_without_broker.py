"""Members of a group whose broker is lost: they continue with the next one, or end in bounded time."""

import os
import threading

import pytest
from dirty_equals import IsInt

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.clients import (
    ConsumerConnector,
    ConsumerTimeout,
    MessageStream,
    TopicFilter,
    Whitelist,
)
from tests.support.clients.consuming import (
    PARTITIONS,
    Consuming,
    both_protocols,
    committed,
    numbers,
    with_protocol,
    write,
)
from tests.support.waiting import eventually

SHORT_TIMEOUTS: dict[str, object] = {"default.api.timeout.ms": 500, "request.timeout.ms": 500}


@pytest.mark.parametrize(
    ("protocol", "topics"), [("classic", {"t": 2}), ("consumer", Whitelist("t.*"))], ids=["classic", "consumer"]
)
def test_shutdown_without_a_broker_gives_the_last_commit_up_and_leaves_no_thread_and_no_descriptor(
    caplog: pytest.LogCaptureFixture, protocol: str, topics: dict[str, int] | TopicFilter
) -> None:
    before = resources()
    with EmbeddedBroker(topics={"t": PARTITIONS}) as broker:
        options: dict[str, object] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100,
            "auto.commit.interval.ms": 600_000,
            "metadata.max.age.ms": 300,
            **SHORT_TIMEOUTS,
        }
        options = with_protocol(options, protocol)
        write(broker, "t", range(12))
        consuming = Consuming(options, topics, streams=2)
        eventually(lambda: numbers(consuming), list(range(12)), within_s=60)
        broker.kill()
        consuming.close()
    assert consuming.errors == []
    assert "group g: offsets were not committed: " in caplog.text
    eventually(resources, tuple(IsInt(le=number) for number in before))


@both_protocols
def test_shutdown_before_a_broker_was_found_leaves_no_thread_and_no_descriptor(protocol: str) -> None:
    before = resources()
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        broker.kill()
        options = {"bootstrap.servers": servers, "group.id": "g", "group.protocol": protocol, **SHORT_TIMEOUTS}
        consuming = Consuming(options, Whitelist("t"))
        consuming.close()
    assert (consuming.values, consuming.errors) == ([], [])
    eventually(resources, tuple(IsInt(le=number) for number in before))


def resources() -> tuple[int, int]:
    """The open descriptors and the threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


# --- broker lost and found


@both_protocols
def test_a_member_continues_after_its_broker_has_restarted(protocol: str) -> None:
    with EmbeddedBroker(topics={"t": PARTITIONS}) as broker:
        options: dict[str, object] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100,
        }
        options = with_protocol(options, protocol)
        write(broker, "t", range(6))
        with Consuming(options, {"t": 1}) as consuming:
            eventually(lambda: numbers(consuming), list(range(6)), within_s=60)
            broker.restart()
            write(broker, "t", range(6, 12))
            eventually(lambda: set(numbers(consuming)), set(range(12)), within_s=60)
        assert consuming.errors == []
        assert committed(broker, "g") == dict.fromkeys(range(PARTITIONS), 2)


def test_a_stream_without_a_broker_is_a_timeout_after_consumer_timeout_ms() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        options: dict[str, object] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "consumer.timeout.ms": 300,
            **SHORT_TIMEOUTS,
        }
        write(broker, "t", range(1), 1)
        with ConsumerConnector(options | {"enable.auto.commit": "false"}) as consumer:
            (stream,) = consumer.create_message_streams({"t": 1})["t"]
            eventually(lambda: value_of(stream), b"0", within_s=60)
            broker.kill()
            for _ in range(2):
                with pytest.raises(ConsumerTimeout):
                    next(stream)


def value_of(stream: MessageStream) -> object:
    try:
        return next(stream).value
    except ConsumerTimeout:
        return None
