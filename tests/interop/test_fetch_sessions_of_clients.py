"""Clients that are not ours keep fetch sessions with the bundled broker, through all that they do to them."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from broker_embedded.testing import EmbeddedBroker
from tests.support.broker.driver import batch, produce_request
from tests.support.clients.kafka_python import KafkaPythonClient
from tests.support.report import skip_if
from tests.support.requests.raw_client import RawClient
from tests.support.servers.apache_kafka import apache_kafka_unavailable, run_tool

pytestmark = pytest.mark.interop

PARTITIONS = 5
PATIENCE_S = 30.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": PARTITIONS, "u": 1}) as running:
        yield running


@pytest.fixture
def kafka() -> Any:
    """kafka-python."""
    return KafkaPythonClient()._kafka


def sessions_opened(broker: EmbeddedBroker) -> list[int]:
    """Every session id that the broker gives out from now on."""
    sessions, given = broker._server.broker.fetch_sessions, list[int]()
    new_id = sessions._new_id

    def noted() -> int:
        given.append(new_id())
        return given[-1]

    sessions._new_id = noted
    return given


def write(broker: EmbeddedBroker, topic: str, partition: int, *values: bytes) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        for value in values:
            client.ask(produce_request(topic, batch(value), partition), 9)


def test_kafka_python_keeps_one_session_while_partitions_come_go_and_move(broker: EmbeddedBroker, kafka: Any) -> None:
    given = sessions_opened(broker)
    parts = [kafka.TopicPartition("t", index) for index in range(PARTITIONS)]
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest", "group_id": None}
    with closing(kafka.KafkaConsumer(**settings, fetch_max_wait_ms=50)) as consumer:

        def read(count: int) -> list[tuple[str, int, bytes]]:
            found: list[tuple[str, int, bytes]] = []
            deadline = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < deadline:
                for part, records in consumer.poll(timeout_ms=200).items():
                    found += [(part.topic, part.partition, record.value) for record in records]
            return sorted(found)

        consumer.assign(parts)
        for index in range(PARTITIONS):
            write(broker, "t", index, b"%d-a" % index)
        assert read(PARTITIONS) == [("t", index, b"%d-a" % index) for index in range(PARTITIONS)]
        for turn in range(3):  # one partition at a time has news
            write(broker, "t", turn, b"turn %d" % turn)
            assert read(1) == [("t", turn, b"turn %d" % turn)]
        consumer.pause(parts[1])
        write(broker, "t", 1, b"paused")
        write(broker, "t", 2, b"not paused")
        assert read(1) == [("t", 2, b"not paused")]
        consumer.resume(parts[1])
        assert read(1) == [("t", 1, b"paused")]
        consumer.assign([*parts[:2], kafka.TopicPartition("u", 0)])
        consumer.seek(parts[0], 0)
        write(broker, "u", 0, b"new")
        assert ("u", 0, b"new") in read(3)
        metrics = broker._server.broker.metrics()
        assert metrics.fetch_sessions.sessions == 1
    assert len(given) == 1
    assert metrics.apis["Fetch"].requests > 5
    assert not any(name.startswith(("FETCH_SESSION", "INVALID_FETCH_SESSION")) for name in metrics.apis["Fetch"].errors)


def test_kafka_python_continues_when_its_fetch_session_was_evicted(broker: EmbeddedBroker, kafka: Any) -> None:
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest", "group_id": None}
    with closing(kafka.KafkaConsumer("t", **settings, fetch_max_wait_ms=50)) as consumer:
        for number in range(5):
            write(broker, "t", 0, b"%d" % number)
            deadline = time.monotonic() + PATIENCE_S
            found: list[bytes] = []
            while not found and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=200).values():
                    found += [record.value for record in records]
            assert found == [b"%d" % number]
            sessions = broker._server.broker.fetch_sessions
            for session_id in list(sessions._sessions):
                sessions.close(session_id)
    assert broker._server.broker.metrics().apis["Fetch"].errors["FETCH_SESSION_ID_NOT_FOUND"] > 0


def test_the_java_client_keeps_a_session(broker: EmbeddedBroker) -> None:
    skip_if(apache_kafka_unavailable())
    given = sessions_opened(broker)
    for index in range(PARTITIONS):
        write(broker, "t", index, b"%d-a" % index, b"%d-b" % index)
    said = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--from-beginning"),
        *("--max-messages", str(2 * PARTITIONS), "--timeout-ms", "30000"),
    )
    assert sorted(said.split()) == sorted(f"{index}-{letter}" for index in range(PARTITIONS) for letter in "ab")
    metrics = broker._server.broker.metrics()
    assert len(given) == 1
    assert metrics.fetch_sessions.sessions == 0, "the client closes its session when it goes"
    assert not any("SESSION" in name for name in metrics.apis["Fetch"].errors)
