"""A checkpoint with offsets of topics or partitions that the options of the query do not name."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.offsets import offsets_to_json
from spark_kafka_native._spark.subscription import Assign, SubscribePattern, Subscription, describe, unnamed

_SHOWN_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class OtherTopics:
    """Why offsets of a checkpoint do not fit the options, and how the user can continue."""

    reason: str
    advice: str

    def error(self) -> PlanError:
        """The error for ``failOnDataLoss=true``."""
        return PlanError("KAFKA_CHECKPOINT_OF_OTHER_TOPICS", f"{self.reason}. Nothing was read. {self.advice}")


def not_named(offsets: Collection[TopicPartition], subscription: Subscription) -> OtherTopics | None:
    """For checkpointed partitions, some of which the options do not name; None: they name all."""
    removed = unnamed(subscription, offsets)
    if not removed:
        return None
    option, shown = describe(subscription), _shown(removed, subscription)
    verb, again = "name", f"Name {shown} in option '{option.partition('=')[0]}' again"
    if isinstance(subscription, SubscribePattern):
        verb, again = "match", f"Let the pattern match {shown} again"
    reason = f"the checkpoint has offsets of {_shown(offsets, subscription)}, and option {option} does not {verb}"
    if len(removed) == len(offsets):
        return OtherTopics(f"{reason} any of them", f"{again}, or use a new checkpointLocation for another query")
    return OtherTopics(
        f"{reason} {shown}",
        f"{again}. To remove {shown} from the query, or if it was deleted, set option 'failOnDataLoss' to false until "
        "a batch has finished: the checkpoint then has no offsets of what was removed, and what is named again later "
        "is read from its first record",
    )


def planned_without(
    left_out: Collection[TopicPartition], start: Mapping[TopicPartition, int], end: Collection[TopicPartition]
) -> OtherTopics:
    """For a batch that an earlier run has planned without partitions of its ``start`` that the cluster has."""
    if len(start) <= _SHOWN_AT_MOST:
        offsets = f"'startingOffsets' set to {offsets_to_json(start)}"
    else:
        offsets = "'startingOffsets' set to the offsets in the file before it"
    return OtherTopics(
        f"the checkpoint's last finished batch has offsets of {listed(start)}, but its next batch was planned by an "
        f"earlier run for {listed(end) or 'no partition'}, without {listed(left_out)}: the options of that run named "
        "other topics, or the cluster did not have the partitions then",
        "No run with failOnDataLoss=true has read the planned batch. If no other run has begun to write it: (1) stop "
        "the query; (2) delete the file with the highest number in directory 'offsets' of the checkpoint, and the .crc "
        "file of the same number; (3) start the query, and Spark plans the batch again. Otherwise start the query with "
        f"a new checkpointLocation and option {offsets}, which are those of the last finished batch",
    )


def _shown(partitions: Collection[TopicPartition], subscription: Subscription) -> str:
    if isinstance(subscription, Assign):
        return f"{'partition' if len(partitions) == 1 else 'partitions'} {listed(partitions)}"
    topics = {tp.topic for tp in partitions}
    return f"{'topic' if len(topics) == 1 else 'topics'} {listed(topics)}"
