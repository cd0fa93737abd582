"""The replica that a leader has sent a reader to, because it is in the reader's rack (KIP-392)."""

from spark_kafka_native.net.deadline import Deadline


class NearestReplica:
    """Which replica to read instead of the leader, and for how long.

    The leader's word holds for ``metadata.max.age.ms``; then the leader is asked again, for another replica may be
    nearer by now. A replica that fails, or has nothing although more was written, is left for the leader, which then
    is asked without a rack for as long, so that it does not send us back at once.
    """

    def __init__(self, rack: str, max_age_ms: float) -> None:
        """``rack`` is ``client.rack``; empty: leaders send nobody elsewhere."""
        self.node_id: int | None = None
        """The replica to read; None: the leader."""
        self._rack = rack
        self._max_age_ms = max_age_ms
        self._lease = self._shunned = Deadline.after_ms(0)

    @property
    def rack(self) -> str:
        """What to tell the leader of where we are."""
        return self._rack if self._shunned.expired else ""

    def follow(self, node_id: int) -> None:
        """The leader has named a replica."""
        self.node_id = node_id
        self._lease = Deadline.after_ms(self._max_age_ms)

    def leave(self) -> bool:
        """Read from the leader, from now on and for a while: the replica cannot serve us. Whether there was one."""
        if self.node_id is None:
            return False
        self.node_id = None
        self._shunned = Deadline.after_ms(self._max_age_ms)
        return True

    def end_lease(self) -> bool:
        """After an answer: go back and ask the leader, if its word has become old. Whether that is so."""
        if self.node_id is None or not self._lease.expired:
            return False
        self.node_id = None
        return True
