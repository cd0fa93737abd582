"""Tests as users of the pytest plugin write them. What one leaves the next one looks for: they run in this order.

Run by tests/system/broker_embedded/test_pytest_plugin.py, in a pytest of their own.
"""

from kazoo.client import KazooClient

from broker_embedded.testing import EmbeddedBroker, EmbeddedZooKeeper, ErrorCode, Faults
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker.driver import batch, produce_request
from tests.support.requests.raw_client import RawClient

SEEN: list[str] = []


def code_of_produce(broker: EmbeddedBroker, topic: str) -> int:
    with RawClient(broker.bootstrap_servers) as client:
        response = client.ask(produce_request(topic, batch(b"x")), 9)
    return response.responses[0].partition_responses[0].error_code


def test_a_broker_and_a_topic_of_ones_own(kafka_broker: EmbeddedBroker, kafka_topic: str) -> None:
    SEEN.append(kafka_topic)
    with RawClient(kafka_broker.bootstrap_servers) as client:
        wanted = (MetadataRequestTopic(name=kafka_topic),)
        (topic,) = client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 1)


def test_another_test_has_another_topic(kafka_topic: str) -> None:
    assert kafka_topic not in SEEN


def test_topics_with_the_prefix(kafka_broker: EmbeddedBroker, kafka_prefix: str) -> None:
    SEEN.append(kafka_prefix)
    kafka_broker.create_topic(f"{kafka_prefix}a")
    kafka_broker.create_topic("kept")


def test_are_gone_at_the_end_of_the_test(kafka_broker: EmbeddedBroker, kafka_prefix: str) -> None:
    assert kafka_prefix not in SEEN
    assert [topic for topic in kafka_broker.topics() if topic.startswith(SEEN[-1])] == []
    assert "kept" in kafka_broker.topics()


def test_faults_of_the_shared_broker(kafka_broker: EmbeddedBroker, kafka_topic: str, kafka_faults: Faults) -> None:
    kafka_faults.fail("Produce", ErrorCode.REQUEST_TIMED_OUT)
    assert code_of_produce(kafka_broker, kafka_topic) == ErrorCode.REQUEST_TIMED_OUT


def test_end_with_the_test_too(kafka_broker: EmbeddedBroker, kafka_topic: str) -> None:
    assert code_of_produce(kafka_broker, kafka_topic) == 0


def test_a_chroot_of_zookeeper(zookeeper_server: EmbeddedZooKeeper, zookeeper_connect: str) -> None:
    SEEN.append(zookeeper_connect)
    address, _, chroot = zookeeper_connect.partition("/")
    assert address == zookeeper_server.connect_string
    client = KazooClient(address)
    client.start(60)
    assert client.exists(f"/{chroot}") is None
    client.stop()
    client.close()


def test_another_test_has_another_chroot(zookeeper_server: EmbeddedZooKeeper, zookeeper_connect: str) -> None:
    assert zookeeper_connect not in SEEN
    assert zookeeper_connect.startswith(f"{zookeeper_server.connect_string}/test-")
