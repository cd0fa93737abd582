"""One partition's Fetch requests: where they go, what is asked, and what to do about errors.

A channel has at most one Fetch in flight. ``ask`` sends it ahead of time; ``take`` returns its answer, or finds the
partition's leader again and asks anew, at exactly the same offset, until the deadline. Fetch sessions (KIP-227) are
not used: with one partition there is nothing to leave out of a request.

A Fetch says in which leader epoch the record before the offset was written. A leader that lacks that record answers,
from Kafka 2.7 on, where its log parts from the one that was read (KIP-320, KIP-595).
"""

from spark_kafka_native.client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native.client.cluster.metadata import NO_EPOCH, Node, PartitionLeader
from spark_kafka_native.client.consumer.fetch_request import (
    FetchMetrics,
    Wanted,
    is_throttled,
    parts_of,
    receive_fetch,
    replica_named,
    send_fetch,
)
from spark_kafka_native.client.consumer.nearest_replica import NearestReplica
from spark_kafka_native.client.consumer.planned_topics import PlannedTopics
from spark_kafka_native.client.errors import LogTruncated, TopicRecreated
from spark_kafka_native.client.retry import give_up, may_pass
from spark_kafka_native.net.blocking import Connection
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.net.errors import BrokerUnreachable, Throttled
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.fetch import FetchResponse, PartitionData
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.protocol.wire import ZERO_UUID


class FetchChannel:
    """Fetches one partition from its leader, or from the closer replica that the leader names (KIP-392)."""

    def __init__(
        self, cluster: Cluster, partition: TopicPartition, *, isolation: int, leader: PartitionLeader | None = None
    ) -> None:
        """``leader`` saves the first question for metadata; its topic id, if any, is the one topic to read from."""
        self.metrics = FetchMetrics()
        self.max_bytes = cluster.config.max_partition_fetch_bytes
        self._cluster = cluster
        self._partition = partition
        self._isolation = isolation
        self._topic_id = ZERO_UUID if leader is None else leader.topic_id
        self._planned = PlannedTopics(cluster, {partition: leader})
        self._leader = leader
        self._replica = NearestReplica(cluster.config.client_rack, cluster.config.metadata_max_age_ms)
        self._connection: Connection | None = None
        self._asked: int | None = None

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that answered last, or will be asked next; -1 while that is not known."""
        return NO_EPOCH if self._leader is None else self._leader.leader_epoch

    def close(self) -> None:
        """Give the connection back, or close it if an answer is outstanding. The next ``take`` connects again."""
        connection, self._connection, self._asked = self._connection, None, None
        if connection is not None:
            self._cluster.give_back(connection)

    def disconnect(self) -> None:
        """Close the connection: what came over it cannot be trusted."""
        if self._connection is not None:
            self._connection.close()
        self.close()

    def check_topic(self) -> None:
        """Check, after the last answer was taken, that all of them are of the planned topic: as ``PlannedTopics``."""
        self._planned.check_last()

    def ask(self, offset: int, *, epoch: int = NO_EPOCH) -> None:
        """Send the Fetch for ``offset`` now, if the connection is up, so that its answer is there when it is taken.

        ``epoch`` is the leader epoch of the record before ``offset``, -1 if that is not known.
        """
        if self._connection is None or self._leader is None or self._asked is not None or self._connection.throttle_ms:
            return
        try:
            self._send(
                self._connection,
                self._leader,
                offset,
                epoch,
                Deadline.after_ms(self._cluster.config.request_timeout_ms),
            )
        except KafkaError:
            self.close()  # ``take`` meets the trouble again and deals with it

    def take(self, offset: int, deadline: Deadline, *, epoch: int = NO_EPOCH) -> PartitionData:
        """The partition's part of the answer to the Fetch at ``offset``; its error code is NONE. ``epoch`` as in `ask`.

        A throttled answer extends the deadline; the same Fetch is sent again once the throttle is over.
        May be empty, after ``fetch.max.wait.ms``. Raises KafkaError: OFFSET_OUT_OF_RANGE and other errors that a new
        try does not mend, at once; others when the deadline has passed; LogTruncated; TopicRecreated;
        BrokerUnreachable.
        """
        backoff = self._cluster.backoff()
        trouble: KafkaError | None = None
        while True:
            try:
                leader = self._find_leader(deadline)
            except BrokerUnreachable as error:
                give_up(trouble, error)
            try:
                return self._take_once(leader, offset, epoch, deadline)
            except KafkaError as error:
                # A replica's word is not final: the leader is asked before the error counts.
                if not self._replica.leave() and not may_pass(error):
                    raise
                self.metrics.retries += 1
                self._lose_leader()
                if not deadline.pause(backoff.next_ms()):
                    give_up(trouble, error)
                trouble = error

    def _find_leader(self, deadline: Deadline) -> PartitionLeader:
        if self._leader is None:
            leader = self._cluster.leader(self._partition, deadline)
            backoff, tries = self._cluster.backoff(), 1
            while ZERO_UUID not in {self._topic_id, leader.topic_id} and leader.topic_id != self._topic_id:
                # A broker that does not know yet that the topic was created again before the plan has the earlier id.
                if tries == UNKNOWN_TOPIC_TRIES or not deadline.pause(backoff.next_ms()):
                    raise TopicRecreated(self._partition, str(self._topic_id), str(leader.topic_id))
                tries += 1
                self._cluster.mark_stale(self._partition.topic)
                leader = self._cluster.leader(self._partition, deadline)
            self._leader = leader
            if leader.topic_id != ZERO_UUID:
                self._topic_id = leader.topic_id
        return self._leader

    def _lose_leader(self) -> None:
        self.close()
        self._leader = None
        self._cluster.mark_stale(self._partition.topic)

    def _take_once(self, leader: PartitionLeader, offset: int, epoch: int, deadline: Deadline) -> PartitionData:
        part = self._exchange(leader, offset, epoch, deadline)
        named = replica_named(part, leader)
        if named is not None and self._replica.node_id is None:
            self.close()
            self._replica.follow(named)
            part = self._exchange(leader, offset, epoch, deadline)
        # A replica without records where more are expected lags; the leader has whatever there is.
        if (not part.records and self._replica.leave()) or self._replica.end_lease():
            self.close()
        self.metrics.bytes_fetched += 0 if part.records is None else len(part.records)
        return part

    def _exchange(self, leader: PartitionLeader, offset: int, epoch: int, deadline: Deadline) -> PartitionData:
        """Send the Fetch unless that was done ahead, again while its answers are throttled, and receive its answer."""
        if self._asked != offset:
            self.close()
        if self._connection is None:
            self._connection = self._cluster.borrow(self._source(leader, deadline), deadline)
        while True:
            if self._asked is None:
                self._send(self._connection, leader, offset, epoch, deadline)
            self._asked = None
            answer = receive_fetch(self._connection, self._cluster.config, deadline.remaining_ms)
            if not is_throttled(answer):
                break
            if deadline.expired:
                raise Throttled(self._connection.address, "Fetch", answer.throttle_time_ms)
        part = self._part_of(answer, leader)
        if part.diverging_epoch.end_offset >= 0:
            raise LogTruncated(self._partition, offset, min(part.diverging_epoch.end_offset, offset))
        return part

    def _source(self, leader: PartitionLeader, deadline: Deadline) -> Node:
        replica = self._replica.node_id
        return leader.node if replica is None else self._cluster.node(replica, deadline)

    def _send(
        self, connection: Connection, leader: PartitionLeader, offset: int, epoch: int, deadline: Deadline
    ) -> None:
        send_fetch(
            connection,
            self._cluster.config,
            {self._partition: Wanted(leader=leader, offset=offset, epoch=epoch, max_bytes=self.max_bytes)},
            planned=self._planned,
            max_bytes=max(self._cluster.config.fetch_max_bytes, self.max_bytes),
            isolation=self._isolation,
            deadline=deadline,
            rack=self._replica.rack,
        )
        self.metrics.requests += 1
        self._asked = offset

    def _part_of(self, answer: FetchResponse, leader: PartitionLeader) -> PartitionData:
        part = parts_of(answer, {self._partition: leader}).get(self._partition)
        code = ErrorCode.of(answer.error_code or (part.error_code if part else 0))
        if code is not ErrorCode.NONE:
            raise KafkaError(code, str(self._partition))
        if part is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{self._partition} is missing from the Fetch answer")
        return part
