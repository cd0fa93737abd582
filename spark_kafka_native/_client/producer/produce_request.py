"""Produce requests and responses as values.

Pure: no socket, no clock.
"""

import dataclasses
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from spark_kafka_native._client.producer.partition_queue import OutgoingBatch, PartitionQueue
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID

UNKNOWN_OFFSET: Final = -1
_LAST_VERSION_WITH_NAMES: Final = 12
_LAST_VERSION_AFTER_ADDING: Final = 11


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One partition's batch in a request; the topic id is zero where the cluster has none."""

    queue: PartitionQueue
    batch: OutgoingBatch
    topic_id: UUID


class Acknowledgement(NamedTuple):
    """A batch that its leader has: ``records_count`` records from the partition's ``first_record`` on.

    Records are counted from the first one that was added for the partition, or was added after ``give_up``.
    ``base_offset`` is -1 where the response had none. ``log_append_time_ms`` is -1 for topics with CreateTime.
    """

    partition: TopicPartition
    first_record: int
    records_count: int
    base_offset: int
    log_append_time_ms: int


def produce_request(
    load: Iterable[Loaded], *, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> ProduceRequest:
    """One request with all of ``load``, its topics under both their names and their ids."""
    topics: dict[tuple[str, UUID], list[PartitionProduceData]] = {}
    for item in load:
        data = PartitionProduceData(index=item.queue.partition.partition, records=item.batch.encoded.buffer)
        topics.setdefault((item.queue.partition.topic, item.topic_id), []).append(data)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=tuple(
            TopicProduceData(name=name, topic_id=topic_id, partition_data=tuple(parts))
            for (name, topic_id), parts in topics.items()
        ),
    )


def max_version(topic_ids: Iterable[UUID], *, adds_partitions: bool = True) -> int | None:
    """The highest version that can name topics with these ids: from v13 on there are only ids (KIP-516).

    ``adds_partitions``: whether to be written to makes a partition part of a transaction, as it does from v12 on
    (KIP-890).
    """
    if not adds_partitions:
        return _LAST_VERSION_AFTER_ADDING
    return _LAST_VERSION_WITH_NAMES if any(topic_id == ZERO_UUID for topic_id in topic_ids) else None


def pair(load: Iterable[Loaded], response: ProduceResponse) -> list[tuple[Loaded, PartitionProduceResponse | None]]:
    """Each batch with its part of the response; None where the response has none."""
    parts: dict[tuple[str | UUID, int], PartitionProduceResponse] = {}
    for topic in response.responses:
        for part in topic.partition_responses:
            parts[topic.name or topic.topic_id, part.index] = part
    paired = []
    for item in load:
        name, index = item.queue.partition
        part_or_none = parts.get((name, index))
        paired.append((item, parts.get((item.topic_id, index)) if part_or_none is None else part_or_none))
    return paired


def refusal(partition: TopicPartition, part: PartitionProduceResponse) -> KafkaError:
    """The broker's error about a batch of ``partition``, or about the first record that it names (KIP-467).

    The text does not name the partition, as ProduceError does.
    """
    detail, message = "", part.error_message or ""
    if part.record_errors:
        first = part.record_errors[0]
        detail, message = f"record {first.batch_index} of the batch", first.batch_index_error_message or message
    code = ErrorCode.of(part.error_code)
    return KafkaError(code, detail, message.removeprefix(f"{partition}: "), operation="WRITE")
