import pytest

from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._record_clients.consumer.simple_config import OLD_NAMES, SimpleConsumerConfig

SERVERS = {"bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize(
    ("old", "field"),
    [
        ("socket.timeout.ms", "request_timeout_ms"),
        ("socket.buffersize", "receive_buffer_bytes"),
        ("socket.receive.buffer.bytes", "receive_buffer_bytes"),
        ("fetch.size", "max_partition_fetch_bytes"),
        ("fetch.message.max.bytes", "max_partition_fetch_bytes"),
        ("fetch.wait.max.ms", "fetch_max_wait_ms"),
    ],
)
def test_names_of_the_scala_consumers_are_taken(old: str, field: str) -> None:
    assert getattr(SimpleConsumerConfig.parse({**SERVERS, old: "7000"}).client, field) == 7000


def test_every_old_name_has_a_property_of_today() -> None:
    client = {field.replace("_", ".") for field in SimpleConsumerConfig.parse(SERVERS).client.__dataclass_fields__}
    assert set(OLD_NAMES.values()) - client == set()


def test_brokers_in_zookeeper() -> None:
    config = SimpleConsumerConfig.parse({"zk.connect": "localhost:2181/kafka"})
    assert str(config.discovery.zookeeper_connect) == "localhost:2181/kafka"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**SERVERS, "group.id": "g"}, "group.id: is not supported: SimpleConsumer is no member of a group"),
        ({**SERVERS, "groupid": "g"}, "groupid: is not supported: SimpleConsumer is no member of a group"),
        ({**SERVERS, "fetch.sise": 5}, "fetch.sise: is not a property of the simple consumer; did you mean fetch.size"),
        ({**SERVERS, "kafka.fetch.min.bytes": 5}, "is an option of Spark; the property is fetch.min.bytes"),
        ({**SERVERS, "fetch.size": 5, "max.partition.fetch.bytes": 6}, "max.partition.fetch.bytes: given twice"),
        ({**SERVERS, "Fetch.Wait.Max.Ms": "soon"}, "fetch.wait.max.ms: 'soon' is not an integer"),
        ({**SERVERS, "consumer.timeout.ms": 5}, "consumer.timeout.ms: is not supported: it is for members of groups"),
        ({}, "bootstrap.servers: is required"),
        ({"bootstrap.servers": ["a:1"]}, "bootstrap.servers: must be str, host:port[,host:port...], not list"),
    ],
)
def test_wrong_options_are_errors_that_name_them(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SimpleConsumerConfig.parse(options)
    assert message in str(raised.value)
