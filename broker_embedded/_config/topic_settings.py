"""Settings of new topics."""

from dataclasses import dataclass
from typing import Final

from broker_embedded._config.settings import INT_MAX, SettingError, setting

_COUNT_MAP: Final = "topic.partition.count.map"
_MAX_DIGITS: Final = 10


@dataclass(frozen=True, kw_only=True)
class TopicSettings:
    """The broker's settings of topics that are created without a number of partitions or replicas."""

    num_partitions: int = setting(
        1, "Partitions of a topic that is created without a number of partitions.", at_least=1
    )
    topic_partition_count_map: tuple[str, ...] = setting(
        (),
        "Partitions of single topics, TOPIC:NUMBER, comma-separated; overrides num.partitions. From Kafka 0.7.",
    )
    default_replication_factor: int = setting(
        1, "Replicas of a topic that is created without a replication factor.", at_least=1
    )

    def partition_counts(self) -> dict[str, int]:
        """The numbers of partitions of ``topic.partition.count.map``, by topic. Raises SettingError."""
        found: dict[str, int] = {}
        for item in self.topic_partition_count_map:
            topic, _, count = item.rpartition(":")
            is_number = count.isascii() and count.isdigit() and len(count) <= _MAX_DIGITS
            if not topic or not is_number or not 1 <= int(count) <= INT_MAX:
                raise SettingError(_COUNT_MAP, f"{item!r} is not TOPIC:NUMBER")
            if found.setdefault(topic, int(count)) != int(count):
                raise SettingError(_COUNT_MAP, f"topic {topic} has two numbers of partitions")
        return found
