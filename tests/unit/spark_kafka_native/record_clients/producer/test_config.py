from typing import Any

import pytest

from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._record_clients.producer.config import OLD_NAMES, PROPERTIES, ProducerConfig
from spark_kafka_native._record_clients.producer.handlers import CallbackHandler, EventHandler
from spark_kafka_native._record_clients.serializers import default_encoder, string_encoder
from spark_kafka_native._records.compression import CompressionType


class Handler(CallbackHandler):
    """Found by its name."""


def first(_key: Any, _partitions: int) -> int:
    return 0


def parse(**options: object) -> ProducerConfig:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return ProducerConfig.parse({"bootstrap.servers": "localhost:9092", **named})


def test_the_defaults() -> None:
    config = parse()
    assert (config.producer_type, config.batch_num_messages, config.queue_buffering_max_messages) == (
        "async",
        200,
        10_000,
    )
    assert config.queue_enqueue_timeout_ms == 60_000
    assert config.key_serializer is config.value_serializer is default_encoder
    assert (config.partitioner_class, config.event_handler, config.callback_handler) == (None, None, None)
    assert config.client.linger_ms == 5


def test_properties_of_the_client_are_taken() -> None:
    config = parse(acks="1", linger_ms=20, compression_type="zstd")
    assert (config.client.acks, config.client.linger_ms) == (1, 20)
    assert config.client.compression_type is CompressionType.ZSTD


@pytest.mark.parametrize(
    ("old", "value", "field", "expected"),
    [
        ("queue.time", 100, "linger_ms", 100),
        ("queue.buffering.max.ms", "100", "linger_ms", 100),
        ("request.required.acks", "-1", "acks", -1),
        ("message.send.max.retries", 3, "retries", 3),
        ("compression.codec", 1, "compression_type", CompressionType.GZIP),
        ("compression.codec", "2", "compression_type", CompressionType.SNAPPY),
        ("compression.codec", "snappy", "compression_type", CompressionType.SNAPPY),
        ("buffer.size", 1024, "send_buffer_bytes", 1024),
        ("connect.timeout.ms", 500, "socket_connection_setup_timeout_ms", 500),
        ("socket.timeout.ms", 700, "request_timeout_ms", 700),
        ("max.message.size", 9000, "max_request_size", 9000),
        ("topic.metadata.refresh.interval.ms", 10, "metadata_max_age_ms", 10),
        ("topic.metadata.refresh.interval.ms", -1, "metadata_max_age_ms", 2**63 - 1),
    ],
)
def test_names_of_the_scala_producers_are_taken(old: str, value: object, field: str, expected: object) -> None:
    config = ProducerConfig.parse({"bootstrap.servers": "localhost:9092", old: value})
    assert getattr(config.client, field) == expected


def test_every_old_name_has_a_property_of_today() -> None:
    client = {field.replace("_", ".") for field in parse().client.__dataclass_fields__}
    assert set(OLD_NAMES.values()) - set(PROPERTIES) - client == set()


def test_serializer_class_is_for_keys_too_as_in_kafka_0_8() -> None:
    config = ProducerConfig.parse(
        {"bootstrap.servers": "localhost:9092", "serializer.class": "kafka.serializer.StringEncoder"}
    )
    assert config.key_serializer is config.value_serializer is string_encoder
    both = ProducerConfig.parse(
        {
            "bootstrap.servers": "localhost:9092",
            "serializer.class": "kafka.serializer.StringEncoder",
            "key.serializer.class": "kafka.serializer.DefaultEncoder",
        }
    )
    assert both.key_serializer is default_encoder
    assert parse(value_serializer=str.encode).key_serializer is default_encoder


def test_handlers_can_be_objects_classes_or_names() -> None:
    handler = Handler()
    assert parse(callback_handler=handler).callback_handler is handler
    assert isinstance(parse(callback_handler=Handler).callback_handler, Handler)
    assert isinstance(parse(event_handler=EventHandler).event_handler, EventHandler)
    name = f"{EventHandler.__module__}:EventHandler"
    assert isinstance(parse(event_handler=name).event_handler, EventHandler)


def test_partitioners_can_be_functions_or_names() -> None:
    assert parse(partitioner_class=first).partitioner_class is first
    assert parse(partitioner_class="random").partitioner_class == "random"
    assert parse(partitioner_class="operator:mod").partitioner_class(7, 4) == 3  # type: ignore[operator,misc]  # a function
    java = parse(partitioner_class="org.apache.kafka.clients.producer.RoundRobinPartitioner")
    assert (java.partitioner_class, java.client.partitioner_class) == (None, "round_robin")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"producer_type": "fast"}, "producer.type: 'fast' is not one of async, sync"),
        ({"queue_buffering_max_messages": 0}, "queue.buffering.max.messages: 0 is out of bounds; expected at least 1"),
        ({"queue_enqueue_timeout_ms": -2}, "queue.enqueue.timeout.ms: -2 is out of bounds; expected at least -1"),
        ({"batch_num_messages": "many"}, "batch.num.messages: 'many' is not an integer"),
        (
            {"key_serializer": "JsonSerializer"},
            "key.serializer: 'JsonSerializer' is neither a function",
        ),
        ({"partitioner_class": "no_such_module:f"}, "partitioner.class: No module named 'no_such_module'"),
        (
            {"partitioner_class": "com.example.Mine"},
            "partitioner.class: 'com.example.Mine' is neither a function, module:",
        ),
        (
            {"partitioner_class": "lookup"},
            "lookup.table: is required with partitioner.class=lookup",
        ),
        ({"lookup_table": "topic:tables"}, "lookup.table: requires partitioner.class=lookup"),
        (
            {"lookup_table": "tables", "partitioner_class": "lookup"},
            "lookup.table: 'tables' must be topic:NAME",
        ),
        ({"event_handler": Handler()}, "event.handler: .* is no EventHandler"),
        ({"callback_handler": "json:dumps"}, "callback.handler: .* is no CallbackHandler"),
        ({"compressed_topics": "t"}, "compressed.topics: is not supported: compression.type is for all topics"),
        ({"callback_handler_props": "x"}, "callback.handler.props: is not supported: pass an object"),
        ({"reconnect_interval": 1}, "reconnect.interval: is not supported: connections are replaced only after"),
        ({"transactional_id": "x"}, "transactional.id: is not supported: this producer has no transactions"),
        ({"queue_time": 1, "linger_ms": 2}, "linger.ms: given twice, as 'queue.time' and 'linger.ms'"),
        ({"linger_mss": 2}, "linger.mss: is not a property of the producer; did you mean linger.ms?"),
        ({"batch_num_mesages": 2}, "batch.num.mesages: is not .*; did you mean batch.num.messages?"),
        ({"zookeeper_conect": "h:1"}, "zookeeper.conect: is not .*; did you mean zookeeper.connect?"),
        ({"kafka_acks": "1"}, "kafka.acks: is an option of Spark; the property is acks"),
    ],
)
def test_a_wrong_property_is_an_error_that_names_it(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse(**options)


def test_the_address_of_a_cluster_is_required() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers: is required .*, or zookeeper\.connect"):
        ProducerConfig.parse({})


def test_brokers_can_be_given_by_old_names_or_found_in_zookeeper() -> None:
    for options in ({"broker.list": "0:localhost:9092"}, {"metadata.broker.list": "localhost:9092"}):
        config = ProducerConfig.parse(options)
        assert [str(server) for server in config.client.bootstrap_servers] == ["localhost:9092"]
        assert config.discovery.discovery() is None
    config = ProducerConfig.parse({"zk.connect": "localhost:2181/kafka"})
    assert config.client.bootstrap_servers == ()
    assert str(config.discovery.zookeeper_connect) == "localhost:2181/kafka"
