"""Which partition keeps an id: where Kafka looks for it."""

import pytest

from broker_embedded.coordinator.hashing import partition_for


@pytest.mark.parametrize(
    ("name", "partition"),
    # Java: Math.abs("...".hashCode()) % 50, computed by a JVM; the last hash is Integer.MIN_VALUE, which counts as 0.
    [("", 0), ("g", 3), ("console-consumer-12345", 6), ("grüße", 23), ("😀 group", 6), ("polygenelubricants", 0)],
)
def test_ids_live_where_kafka_puts_them(name: str, partition: int) -> None:
    assert partition_for(name, 50) == partition


def test_a_topic_of_one_partition_holds_all() -> None:
    assert {partition_for(name, 1) for name in ("a", "b", "polygenelubricants")} == {0}
