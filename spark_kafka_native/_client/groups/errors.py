"""Errors of members of groups."""

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError


class RebalanceFailed(KafkaError):
    """A member of a group in ZooKeeper got no partitions within ``rebalance.max.retries`` attempts."""

    _shows_code = False
    _retriable = False

    def __init__(self, group_id: str, consumer_id: str, attempts: int, problem: str) -> None:
        tried = f"could not rebalance in {attempts} attempts (rebalance.max.retries)"
        super().__init__(ErrorCode.REBALANCE_IN_PROGRESS, f"group {group_id}: {consumer_id} {tried}: {problem}")
