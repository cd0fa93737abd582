import pytest

from spark_kafka_native._client.config import READ_COMMITTED, READ_UNCOMMITTED, ClientConfig
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST
from spark_kafka_native._client.groups.topic_filters import Whitelist
from spark_kafka_native._mirror.config import MirrorConfig, SourceConfig
from spark_kafka_native._net.errors import ConfigError

SOURCE = {"bootstrap.servers": "a:9092", "group.id": "mirror"}
TARGET = ClientConfig.parse({"bootstrap.servers": "b:9092"})


def test_a_source_is_read_from_its_beginning_without_aborted_records() -> None:
    consumer = SourceConfig.parse({**SOURCE, "enable.auto.commit": "false"}).consumer
    assert (consumer.auto_offset_reset, consumer.client.isolation_level) == (EARLIEST, READ_COMMITTED)
    assert consumer.enable_auto_commit, "offsets of acknowledged records are always committed"
    given = SourceConfig.parse(
        {**SOURCE, "Auto.Offset.Reset": "latest", "isolation.level": "read_uncommitted"}
    ).consumer
    assert (given.auto_offset_reset, given.client.isolation_level) == (LATEST, READ_UNCOMMITTED)


@pytest.mark.parametrize("protocol", ["consumer", "zookeeper"])
def test_exactly_once_needs_the_classic_protocol(protocol: str) -> None:
    properties = {**SOURCE, "group.protocol": protocol, "zookeeper.connect": "z:2181"}
    if protocol == "consumer":
        del properties["zookeeper.connect"]
    else:
        del properties["bootstrap.servers"]
    assert SourceConfig.parse(properties).consumer.group_protocol == protocol
    with pytest.raises(ConfigError, match=r"group\.protocol: must be classic"):
        SourceConfig.parse(properties, exactly_once=True)


def test_sources_with_exactly_once_have_groups_of_their_own() -> None:
    sources = tuple(SourceConfig.parse(SOURCE, prefix=prefix) for prefix in ("a.", "b."))
    MirrorConfig(sources=sources, target=TARGET, topics=Whitelist("t"))
    with pytest.raises(ConfigError, match=r"group\.id: must be another one for each source"):
        MirrorConfig(sources=sources, target=TARGET, topics=Whitelist("t"), exactly_once=True)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_the_target_must_acknowledge_with_all_replicas(acks: str) -> None:
    target = ClientConfig.parse({"bootstrap.servers": "b:9092", "acks": acks, "enable.idempotence": "false"})
    with pytest.raises(ConfigError, match="acks: must be all"):
        MirrorConfig(sources=(SourceConfig.parse(SOURCE),), target=target, topics=Whitelist("t"))
