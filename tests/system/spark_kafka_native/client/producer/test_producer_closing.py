import logging

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.errors import ProduceError
from spark_kafka_native._client.producer import sender as sender_module
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from tests.support.records.record_batches import rows
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.sender_driver import PARTITIONS
from tests.support.scripted.steps import Refuse, Silent
from tests.support.waiting import eventually


def test_an_error_counts_everything_that_is_not_acknowledged(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config()) as cluster:
        producer = Producer(cluster)
        producer.send("t", rows([b"good"], partition=[0]))
        producer.flush()
        brokers.script(ProduceRequest, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        producer.send("t", rows([b"a"] * 5, partition=[0] * 5))
        producer.send("t", rows([b"b"] * 7, partition=[2] * 7))  # led by the same broker
        with pytest.raises(ProduceError) as caught:
            producer.flush()
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert caught.value.partition.topic == "t"
        assert "12 records are not acknowledged" in str(caught.value)
        assert producer.unacknowledged == caught.value.unacknowledged == 12
        for call in (producer.flush, lambda: producer.send("t", rows([b"later"]))):
            with pytest.raises(ProduceError, match="12 records"):
                call()
        producer.close()
        producer.close()
    assert brokers.values()[0] == [b"good"]


def test_leaving_the_block_by_an_error_logs_unacknowledged_rows(
    brokers: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        with Producer(brokers.config()) as producer:
            producer.send("t", rows([b"a"] * 3))
            raise ZeroDivisionError

    with caplog.at_level(logging.WARNING), pytest.raises(ZeroDivisionError):
        work()
    assert [record.getMessage() for record in caplog.records] == ["producer aborted: 3 records not acknowledged"]
    assert not any(brokers.values())


def test_abort_with_requests_in_flight_closes_their_connection(brokers: ScriptedCluster) -> None:
    brokers.script(ProduceRequest, Silent())
    with Cluster(brokers.config(linger_ms=0)) as cluster:
        producer = Producer(cluster)
        producer.send("t", rows([b"a"], partition=[0]))
        producer.send("t", rows([b"b"], partition=[0]))
        (broker,) = producer._sender._connections
        producer.abort()
        producer.abort()
        assert broker.connection.closed
        with pytest.raises(ValueError, match="closed"):
            producer.send("t", rows([b"c"]))


def test_close_flushes_and_gives_connections_back(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config()) as cluster:
        for _ in range(5):
            with Producer(cluster) as producer:
                producer.send("t", rows([b"a"] * PARTITIONS, partition=range(PARTITIONS)))
        assert all(broker.open_connections <= 2 for broker in brokers.brokers.values())
    assert brokers.values() == [[b"a"] * 5] * PARTITIONS


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_a_flush_returns_as_soon_as_everything_is_acknowledged(
    brokers: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, acks: str
) -> None:
    monkeypatch.setattr(sender_module, "_LONGEST_WAIT_S", 600.0)
    with Producer(brokers.config(acks=acks)) as producer:
        for _ in range(10):
            producer.send("t", rows([b"a"] * PARTITIONS, partition=range(PARTITIONS)))
            producer.flush()


def test_close_releases_its_connections_if_the_flush_fails(brokers: ScriptedCluster) -> None:
    brokers.script(ProduceRequest, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with Cluster(brokers.config()) as cluster:
        producer = Producer(cluster)
        producer.send("t", rows([b"a"], partition=[0]))
        with pytest.raises(ProduceError, match="1 record is not"):
            producer.close()
        producer.close()
        assert not list(producer._sender._connections)


def test_a_producer_made_from_a_configuration_closes_its_cluster(brokers: ScriptedCluster) -> None:
    with Producer(brokers.config()) as producer:
        producer.send("t", rows([b"a"], partition=[0]))
        producer.flush()
    eventually(lambda: [broker.open_connections for broker in brokers.brokers.values()], [0] * len(brokers.brokers))
