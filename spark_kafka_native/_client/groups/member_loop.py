"""What members of classic groups and of groups of the consumer protocol have in common."""

import logging
import math
import time
from collections.abc import Callable, Collection
from typing import Final, Protocol

from spark_kafka_native._client.groups.coordinator_link import CoordinatorLink
from spark_kafka_native._client.groups.membership import MemberIdentity, MembershipConfig, Reader
from spark_kafka_native._client.groups.waits import Interrupted, MemberWaits
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition

_log = logging.getLogger(__name__)

_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
MEMBER_REMOVED: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH}
)
"""Errors after which other members have the partitions; the member joins again."""


class GroupProtocol(Protocol):
    """One protocol's part of a membership."""

    @property
    def identity(self) -> MemberIdentity:
        """What the member's requests carry now."""
        ...

    def step(self) -> None:
        """Join, or stay a member until something is to be done. Raises KafkaError; Interrupted."""
        ...

    def heartbeat_if_due(self, now: float) -> float:
        """Send a heartbeat, if one is due; the time of the next one. Raises KafkaError; Interrupted."""
        ...

    def rejoin(self) -> None:
        """Join again in the next step, because the member's generation has passed."""
        ...

    def forget(self) -> None:
        """Join as another member in the next step, because the coordinator does not know this one."""
        ...

    def leave(self) -> None:
        """Leave the group. Raises KafkaError."""
        ...


def revoke(
    reader: Reader,
    waits: MemberWaits,
    partitions: Collection[TopicPartition],
    *,
    timeout_ms: float,
    meanwhile: Callable[[float], float] = lambda _: math.inf,
) -> None:
    """Wait for the records in process, for ``timeout_ms`` at most, and commit. Raises Interrupted.

    ``meanwhile`` is called with the time; it returns the time of its next call.
    """
    if not partitions:
        return
    reader.stop(partitions)
    ends = time.monotonic() + timeout_ms / 1000
    while not reader.is_stopped(partitions) and (now := time.monotonic()) < ends:
        waits.pause((min(meanwhile(now), ends) - time.monotonic()) * 1000)
    reader.commit_and_remove(partitions)


class MemberLoop:
    """Runs a protocol in the thread of a member: errors, retries, and the end. Times are those of ``monotonic``."""

    def __init__(self, link: CoordinatorLink, config: MembershipConfig, reader: Reader) -> None:
        self.link = link
        self.config = config
        self.reader = reader
        self._backoff = link.cluster.backoff()

    def run(self, protocol: GroupProtocol) -> None:
        """Be a member until ``MemberWaits.stop``; then commit and leave. Raises KafkaError: the member cannot join.

        Then all partitions are lost.
        """
        try:
            while True:
                try:
                    protocol.step()
                    self._backoff.reset()
                except KafkaError as error:
                    self._recover(protocol, error)
        except Interrupted:
            self.link.waits.resume()
            try:
                self.reader.stop(self.reader.owned)
                self.reader.commit_and_remove(self.reader.owned)
            finally:
                self._leave(protocol)
        except BaseException:
            try:
                self.reader.lose(self.reader.owned)
            finally:
                self._leave(protocol)
            raise

    def revoke(self, protocol: GroupProtocol, partitions: Collection[TopicPartition]) -> None:
        """Wait for the records in process, and commit. Sends heartbeats meanwhile. Raises KafkaError; Interrupted."""
        self.reader.is_stalled(time.monotonic())  # a record is stalled if it is in process for the whole wait
        revoke(
            self.reader,
            self.link.waits,
            list(partitions),
            timeout_ms=self.config.rebalance_timeout_ms,
            meanwhile=protocol.heartbeat_if_due,
        )

    def hold(self, protocol: GroupProtocol, is_over: Callable[[], bool]) -> None:
        """Send heartbeats and commit, until ``is_over``. Raises KafkaError; Interrupted."""
        while not is_over():
            now = time.monotonic()
            if self.leave_if_stalled(protocol):
                return
            heartbeat_at = protocol.heartbeat_if_due(now)
            reader_at = min(self.reader.commit_if_due(now), self.reader.begin_pending(now))
            if not is_over():
                self.pause_until(min(heartbeat_at, reader_at))

    def pause_until(self, at: float) -> None:
        """Wait until a time, or until another thread wakes the member. Raises Interrupted."""
        self.link.waits.pause((at - time.monotonic()) * 1000)

    def leave_if_stalled(self, protocol: GroupProtocol) -> bool:
        """Leave the group if a record is in process for too long, and wait for its end. Whether the member has left.

        The next step joins again. Raises Interrupted.
        """
        if not self.reader.is_stalled(time.monotonic()):
            return False
        self._warn_of_stall(protocol.identity.member_id)
        self.reader.lose(self.reader.owned)
        self._leave(protocol)
        protocol.forget()
        warn_at = time.monotonic() + self.config.rebalance_timeout_ms / 1000
        while self.reader.is_stalled(now := time.monotonic()):
            if now >= warn_at:
                self._warn_of_stall(protocol.identity.member_id)
                warn_at = now + self.config.rebalance_timeout_ms / 1000
            self.link.waits.pause(self.config.heartbeat_interval_ms)
        return True

    def _warn_of_stall(self, member_id: str) -> None:
        _log.warning(
            "group %s: member %s is not in the group, because a record has been in process for longer than "
            "max.poll.interval.ms (%d ms): %s. None of its streams gets records until the next one is requested from "
            "the same stream; then the member joins again",
            self.config.group_id,
            member_id,
            self.config.rebalance_timeout_ms,
            self.reader.stalled,
        )

    def _leave(self, protocol: GroupProtocol) -> None:
        identity = protocol.identity
        try:
            protocol.leave()
        except (KafkaError, Interrupted) as error:
            text = "group %s: member %s has not left, and is removed after session.timeout.ms: %s"
            _log.info(text, self.config.group_id, identity.member_id, error)

    def _recover(self, protocol: GroupProtocol, error: KafkaError) -> None:
        """Prepare the next attempt. Raises the error if another attempt cannot help; Interrupted."""
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            return  # of JoinGroup or SyncGroup: the next step joins again
        if error.code in MEMBER_REMOVED:
            _log.info("group %s: joining again: %s", self.config.group_id, error)
            self.reader.lose(self.reader.owned)
            protocol.forget() if error.code is ErrorCode.UNKNOWN_MEMBER_ID else protocol.rejoin()
            return
        if not error.retriable:
            raise error
        if error.code in _MOVED:
            self.link.forget()
        _log.info("group %s: trying again after a pause: %s", self.config.group_id, error)
        self.link.waits.pause(self._backoff.next_ms())
