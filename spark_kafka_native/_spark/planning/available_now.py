"""Trigger.AvailableNow: validation of the end offsets at which a run stops."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._spark.errors import DataLossError
from spark_kafka_native._spark.offsets import OffsetMap

_ADVICE = "Nothing after the last finished batch was written; start the query again to read the present records"


def check_reachable(
    end: OffsetMap, latest: Mapping[TopicPartition, int], planned: Mapping[str, UUID], found: Mapping[str, UUID]
) -> None:
    """Raise DataLossError if records up to ``end`` no longer exist, whatever ``failOnDataLoss`` is.

    ``planned`` and ``found`` are the topic ids at the start of the run and now.
    """
    if lost := end.keys() - latest.keys():
        raise _unreachable(
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
            f"partitions {listed(lost)} were lost during a query with Trigger.AvailableNow",
        )
    if short := [tp for tp, offset in end.items() if latest[tp] < offset]:
        raise _unreachable(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
            f"partitions {listed(short)} end before the offset that this query with Trigger.AvailableNow was to reach: "
            "the topic was created again or its log truncated",
        )
    if other := [topic for topic in planned if topic in found and found[topic] != planned[topic]]:
        raise _unreachable(
            "TOPIC_RECREATED",
            f"topics {listed(other)} were deleted and created again during a query with Trigger.AvailableNow",
        )


def check_same_partitions(end: Iterable[TopicPartition], target: Mapping[TopicPartition, int]) -> None:
    """Raise DataLossError if a batch has partitions that the run did not find at its start."""
    if surplus := set(end) - target.keys():
        raise _unreachable(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
            f"a batch of a query with Trigger.AvailableNow has partitions {listed(surplus)}, which the query did "
            "not find when it began",
        )


def _unreachable(kind: str, reason: str) -> DataLossError:
    return DataLossError(f"KAFKA_DATA_LOSS.{kind}", f"{reason}. {_ADVICE}")
