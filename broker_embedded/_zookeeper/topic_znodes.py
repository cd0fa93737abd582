"""The znodes of topics, in the formats of Apache Kafka 0.8 to 3.9.

- ``/brokers/topics/T``: ``{"version":3,"topic_id":"...","partitions":{"0":[1]},...}``
- ``/brokers/topics/T/partitions/P/state``: ``{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}``
- ``/config/topics/T``: ``{"version":1,"config":{"retention.ms":"60000"}}``
- ``/config/changes/config_change_N``: ``{"version":2,"entity_path":"topics/T"}``
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from broker_embedded._config.releases import Release
from broker_embedded._metadata.image import PartitionImage, TopicImage
from spark_kafka_native._protocol.ids import format_id
from spark_kafka_native._zookeeper.json_data import InvalidZnode, decode_json, encode_json, parse_json

BROKER_TOPICS: Final = "/brokers/topics"
CONFIG_TOPICS: Final = "/config/topics"
CONFIG_CHANGES: Final = "/config/changes"
DELETE_TOPICS: Final = "/admin/delete_topics"
_REASSIGNMENT_SINCE: Final = "2.4"
_TOPIC_ID_SINCE: Final = "2.8"
_ENTITY_PATH: Final = 2
TOPICS: Final = "topics"
"""The type of topics in paths of entities."""


def encode_topic(topic: TopicImage, release: Release) -> bytes:
    """The znode of a topic: version 1, 2 with reassignments (2.4), 3 with the topic's id (2.8)."""
    entries: dict[str, object] = {
        "partitions": {str(index): list(partition.replicas) for index, partition in enumerate(topic.partitions)},
        "version": 1,
    }
    if release.since(_REASSIGNMENT_SINCE):
        entries |= {"version": 2, "adding_replicas": {}, "removing_replicas": {}}
    if release.since(_TOPIC_ID_SINCE):
        entries |= {"version": 3, "topic_id": format_id(topic.topic_id)}
    return encode_json(entries)


def decode_topic(data: bytes) -> tuple[tuple[int, ...], ...]:
    """The replicas of each partition of a topic's znode. Raises InvalidZnode."""
    partitions = decode_json(data).get("partitions")
    if not isinstance(partitions, dict) or not partitions:
        raise InvalidZnode("it has no partitions")
    if set(partitions) != {str(index) for index in range(len(partitions))}:
        raise InvalidZnode("its partitions are not numbered from 0")
    replicas = [partitions[str(index)] for index in range(len(partitions))]
    if not all(isinstance(brokers, list) and all(type(each) is int for each in brokers) for brokers in replicas):
        raise InvalidZnode("its replicas are not lists of broker ids")
    return tuple(tuple(brokers) for brokers in replicas)


def is_topic(data: bytes, topic_id: UUID) -> bool:
    """Whether a topic's znode has this id."""
    try:
        return bool(decode_json(data).get("topic_id") == format_id(topic_id))
    except InvalidZnode:
        return False


def encode_state(partition: PartitionImage, controller_epoch: int) -> bytes:
    """The znode of a partition's leader and ISR."""
    entries = {
        "controller_epoch": controller_epoch,
        "leader": partition.leader,
        "version": 1,
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr),
    }
    return encode_json(entries)


def is_state_of(data: bytes, partition: PartitionImage) -> bool:
    """Whether a znode has the leader, the leader epoch and the ISR of a partition."""
    try:
        found = decode_json(data)
    except InvalidZnode:
        return False
    wanted = (partition.leader, partition.leader_epoch, list(partition.isr))
    return (found.get("leader"), found.get("leader_epoch"), found.get("isr")) == wanted


def encode_config(configs: Mapping[str, str]) -> bytes:
    """The znode of a topic's own settings."""
    return encode_json({"version": 1, "config": dict(sorted(configs.items()))})


def decode_config(data: bytes) -> dict[str, str]:
    """The settings of a znode. Raises InvalidZnode."""
    configs = decode_json(data).get("config")
    if not isinstance(configs, dict):
        raise InvalidZnode("it has no config")
    return {key: str(value) for key, value in configs.items()}


def changed_entity(data: bytes) -> str:
    """The entity whose settings a znode of ``/config/changes`` is about, such as ``topics/T`` or ``users/U/clients/C``.

    The data is ``"T"`` for a topic in 0.8, an object with ``entity_type`` and ``entity_name`` (version 1) or
    ``entity_path`` (version 2) later. Raises InvalidZnode.
    """
    found = parse_json(data)
    if isinstance(found, str):
        return f"{TOPICS}/{found}"
    if not isinstance(found, dict):
        raise InvalidZnode("it is not a JSON object")
    if found.get("version") == _ENTITY_PATH:
        return str(found.get("entity_path", ""))
    return f"{found.get('entity_type', '')}/{found.get('entity_name', '')}"
