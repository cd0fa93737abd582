"""``topics.json``: the topics of a data directory, as bytes. Reading and writing the file is done elsewhere.

    {"version": 1,
     "topics": [{"name": "events", "id": "<uuid>", "configs": {"retention.ms": "60000"},
                 "partitions": [{"leader": 1, "epoch": 0, "replicas": [1], "isr": [1]}, ...]}, ...],
     "deleting": [{"name": "old", "id": "<uuid>"}, ...]}

``deleting`` names topics whose deletion is decided and whose directories may still be there: a start after a crash
removes those, and no others. Keys that a reader does not know are errors, so that an older broker never drops what a
newer one wrote.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from broker_embedded.metadata.image import PartitionImage, TopicImage

VERSION: Final = 1


class TopicsFileError(ValueError):
    """Bytes that are not a topics file of a version known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsFile:
    """What the file says."""

    topics: tuple[TopicImage, ...] = ()
    deleting: Mapping[UUID, str]


def encode(topics: Iterable[TopicImage], deleting: Mapping[UUID, str]) -> bytes:
    """The file's bytes, a topic a line; the same topics give the same bytes."""
    lines = ",\n ".join(json.dumps(_topic_out(topic)) for topic in sorted(topics, key=lambda topic: topic.name))
    ends = [{"name": name, "id": str(topic_id)} for topic_id, name in sorted(deleting.items())]
    return f'{{"version": {VERSION},\n"topics": [\n {lines}],\n"deleting": {json.dumps(ends)}}}\n'.encode()


def decode(raw: bytes) -> TopicsFile:
    """What ``encode`` was given. Raises TopicsFileError."""
    try:
        document = json.loads(raw)
        if document["version"] != VERSION:
            raise TopicsFileError(f"version {document['version']!r}; this broker reads version {VERSION}")
        _only(document, {"version", "topics", "deleting"})
        return TopicsFile(
            topics=tuple(_topic_in(item) for item in document["topics"]),
            deleting={UUID(item["id"]): str(item["name"]) for item in document["deleting"]},
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, TopicsFileError):
            raise
        raise TopicsFileError(f"{type(error).__name__}: {error}") from error


def _topic_out(topic: TopicImage) -> dict[str, Any]:
    return {
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
    _only(item, {"name", "id", "configs", "partitions"})
    return TopicImage(
        name=str(item["name"]),
        topic_id=UUID(item["id"]),
        configs={str(key): str(value) for key, value in item["configs"].items()},
        partitions=tuple(_partition_in(part) for part in item["partitions"]),
    )


def _partition_in(item: dict[str, Any]) -> PartitionImage:
    _only(item, {"leader", "epoch", "replicas", "isr"})
    return PartitionImage(
        leader=int(item["leader"]),
        leader_epoch=int(item["epoch"]),
        replicas=tuple(map(int, item["replicas"])),
        isr=tuple(map(int, item["isr"])),
    )


def _only(item: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(item) - known)
    if unknown:
        raise TopicsFileError(f"unknown keys {', '.join(unknown)}")
