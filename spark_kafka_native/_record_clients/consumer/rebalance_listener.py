"""What an application does when partitions come to its consumer and leave it."""

from collections.abc import Callable, Collection, Sequence

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.errors import RebalanceListenerError


class RebalanceListener:
    """Base class of listeners to the rebalances of a group; by default its methods do nothing.

    As ``ConsumerRebalanceListener`` of Kafka's Java consumer. The methods are called in a thread of the consumer, one
    at a time, with partitions in ascending order. Meanwhile no heartbeat is sent: a method that takes longer than
    ``session.timeout.ms`` loses the partitions. After an exception the member leaves the group, and its streams raise
    RebalanceListenerError; during ``shutdown`` that is logged.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions were added. No record of them has been returned yet."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions will be given up; also called by ``shutdown``.

        Their records have been processed, unless processing takes longer than the rebalance waits. No other member has
        the partitions yet, so ``commit_offsets`` succeeds here; automatic commits follow.
        """

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Other members may have these partitions already: offsets cannot be committed. By default as if revoked."""
        self.on_partitions_revoked(partitions)


def call(method: Callable[[Sequence[TopicPartition]], None], partitions: Collection[TopicPartition]) -> None:
    """Call a method of a listener, unless there are no partitions. Raises RebalanceListenerError."""
    if not partitions:
        return
    try:
        method(sorted(partitions))
    except Exception as error:  # whatever an application raises
        text = f"{method.__name__} of the rebalance listener has raised {type(error).__name__}: {error}"
        raise RebalanceListenerError(text) from error
