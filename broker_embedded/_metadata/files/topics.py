"""``topics.json``: the topics of a data directory.

    {"version": 1,
     "topics": [{"name": "events", "id": "<uuid>", "configs": {"retention.ms": "60000"},
                 "partitions": [{"leader": 1, "epoch": 0, "replicas": [1], "isr": [1]}, ...]}, ...],
     "deleting": [{"name": "old", "id": "<uuid>"}, ...]}

``deleting`` has deleted topics whose directories may still exist: a start after a crash removes only these.
``unregistering`` has the names of deleted topics whose znodes may still exist in ZooKeeper, if there are some. A topic
that may be registered there has the settings that it was registered with, under ``registered_configs``.
"""

import json
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from broker_embedded._metadata.files.metadata_file import VERSION, MetadataFile, refuse_unknown
from broker_embedded._metadata.image import EMPTY_IMAGE, ClusterImage, PartitionImage, TopicImage


def _encode(image: ClusterImage) -> bytes:
    """One topic per line. Equal topics give equal bytes."""
    topics = sorted(image.topics.values(), key=lambda topic: topic.name)
    lines = ",\n ".join(json.dumps(_topic_out(topic)) for topic in topics)
    ends = [{"name": name, "id": str(topic_id)} for topic_id, name in sorted(image.deleting.items())]
    names = sorted(image.unregistering)
    unregistering = f',\n"unregistering": {json.dumps(names)}' if names else ""
    deleting = json.dumps(ends)
    return f'{{"version": {VERSION},\n"topics": [\n {lines}],\n"deleting": {deleting}{unregistering}}}\n'.encode()


def _parse(document: dict[str, Any]) -> ClusterImage:
    refuse_unknown(document, {"version", "topics", "deleting", "unregistering"})
    image = EMPTY_IMAGE.with_topics(
        [_topic_in(item) for item in document["topics"]],
        deleting={UUID(item["id"]): str(item["name"]) for item in document["deleting"]},
    )
    return replace(image, unregistering=frozenset(map(str, document.get("unregistering", ()))))


def _topic_out(topic: TopicImage) -> dict[str, Any]:
    registered = topic.registered_configs
    return ({} if registered is None else {"registered_configs": dict(sorted(registered.items()))}) | {
        "name": topic.name,
        "id": str(topic.topic_id),
        "configs": dict(sorted(topic.configs.items())),
        "partitions": [
            {
                "leader": partition.leader,
                "epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
            }
            for partition in topic.partitions
        ],
    }


def _topic_in(item: dict[str, Any]) -> TopicImage:
    refuse_unknown(item, {"name", "id", "configs", "partitions", "registered_configs"})
    return TopicImage(
        name=str(item["name"]),
        topic_id=UUID(item["id"]),
        configs=_configs_in(item["configs"]),
        partitions=tuple(_partition_in(part) for part in item["partitions"]),
        registered_configs=_configs_in(item["registered_configs"]) if "registered_configs" in item else None,
    )


def _configs_in(item: dict[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in item.items()}


def _partition_in(item: dict[str, Any]) -> PartitionImage:
    refuse_unknown(item, {"leader", "epoch", "replicas", "isr"})
    return PartitionImage(
        leader=int(item["leader"]),
        leader_epoch=int(item["epoch"]),
        replicas=tuple(map(int, item["replicas"])),
        isr=tuple(map(int, item["isr"])),
    )


TOPICS: Final = MetadataFile(name="topics.json", encode=_encode, parse=_parse, empty=lambda: EMPTY_IMAGE)
"""The image of the file has neither a cluster id nor brokers."""
