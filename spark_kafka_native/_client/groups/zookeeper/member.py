"""A member of a group in ZooKeeper, as the consumers of Kafka 0.8 to 1.1.

    register --> read the group --> give up partitions --> claim partitions --> read them
                     ^                                                            |
                     +---- a consumer, topic or partition was added or removed ---+

Each member computes the assignment of the whole group. A member claims a partition by an ephemeral znode, which exists
until its owner has given it up. A claim that fails is tried again after ``rebalance.backoff.ms``, with the group as it
is then. Kafka's members give up all partitions in each rebalance; this one gives up those that move.
"""

import logging
import math
import socket
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from spark_kafka_native._client.errors import NoBrokersFound, RebalanceFailed
from spark_kafka_native._client.groups.member_loop import revoke
from spark_kafka_native._client.groups.membership import MemberIdentity, Reader, ZooKeeperMembershipConfig
from spark_kafka_native._client.groups.subscribed_topics import warn_of_missing
from spark_kafka_native._client.groups.waits import Interrupted, MemberWaits
from spark_kafka_native._client.groups.zookeeper.group_view import read_view
from spark_kafka_native._client.groups.zookeeper.session import MemberSession
from spark_kafka_native._client.groups.zookeeper.thread_assignors import THREAD_ASSIGNORS
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition, listed
from spark_kafka_native._zookeeper.broker_znode import BROKER_IDS
from spark_kafka_native._zookeeper.consumer_znodes import (
    STATIC,
    GroupPaths,
    Subscription,
    ThreadId,
    encode_subscription,
)
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError
from spark_kafka_native._zookeeper.znode_client import ZnodeClient

_log = logging.getLogger(__name__)

_ID_DIGITS: Final = 8


class ZooKeeperMembership:
    """One member of a group in ZooKeeper. All methods but ``session`` belong to the thread of ``run``."""

    def __init__(
        self,
        session: MemberSession,
        waits: MemberWaits,
        config: ZooKeeperMembershipConfig,
        subscription: Subscription,
        reader: Reader,
    ) -> None:
        self.identity = MemberIdentity()
        self._session = session
        self._waits = waits
        self._config = config
        self._subscription = subscription
        self._reader = reader
        self._paths = GroupPaths(config.group_id)
        self._consumer_id = f"{config.group_id}_{config.consumer_id or _unique_id()}"
        self._claims: dict[TopicPartition, int] = {}
        """The partitions whose owner znodes this session may have, and the numbers of their threads."""
        self._is_outdated = True
        self._retry_at = 0.0
        self._retry_at_once = False
        """Whether another member has given a partition up that this one has just failed to claim."""
        self._failures = 0
        self._has_rebalanced = False
        self._missing: frozenset[str] = frozenset()
        """The topics of the subscription that do not exist."""
        self._ignored: Mapping[str, str] = {}
        """Consumers that count as ones without topics, and why."""

    def run(self) -> None:
        """As ``Membership.run``. RebalanceFailed and NoBrokersFound are errors of the first rebalance."""
        try:
            try:
                self._session.open()
            except ZooKeeperError as error:
                raise NoBrokersFound(f"{self._named}: {error}") from error
            while True:
                self._step()
        except Interrupted:
            self._waits.resume()
            self._reader.stop(self._reader.owned)
            self._reader.commit_and_remove(self._reader.owned)
        except BaseException:
            self._reader.lose(self._reader.owned)
            raise
        finally:
            self._session.close()  # which ends the registration and the claims

    @property
    def _named(self) -> str:
        return f"group {self._config.group_id}"

    def _step(self) -> None:
        """Do what is due, or wait. Raises Interrupted; KafkaError."""
        if not self._session.is_open:
            self._open_again()
            return
        now, ends_at = time.monotonic(), self._session.ends_at
        if now >= ends_at:
            self._lose()
            return
        if self._session.znodes.take_changes():
            self._is_outdated, self._retry_at, self._failures = True, 0.0, 0
        can_rebalance = self._is_outdated and self._session.is_connected
        if can_rebalance and now >= self._retry_at:
            self._attempt()
            return
        reader_at = min(self._reader.commit_if_due(now), self._reader.begin_pending(now))
        due_at = min(reader_at, ends_at, self._retry_at if can_rebalance else math.inf)
        self._waits.pause((due_at - time.monotonic()) * 1000)

    def _lose(self) -> None:
        """Read no partition any more, because other members may have claimed them."""
        text = "%s: the session of %s with ZooKeeper is lost; it registers again"
        _log.warning(text, self._named, self._consumer_id)
        self._reader.lose(self._reader.owned)
        self._session.close()
        self._claims.clear()
        self._is_outdated, self._retry_at = True, 0.0

    def _open_again(self) -> None:
        try:
            self._session.open()
        except ZooKeeperError as error:
            _log.warning("%s: %s; trying again", self._named, error)
            self._waits.pause(self._config.rebalance_backoff_ms)

    # --- rebalances

    def _attempt(self) -> None:
        """Rebalance, or try again after a pause. Raises RebalanceFailed; Interrupted; KafkaError."""
        self._is_outdated = False  # before the group is read, because each later change counts
        self._retry_at_once = False
        try:
            self._rebalance(self._session.znodes)
        except (ZooKeeperError, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            self._is_outdated = True
            pause_ms = 0 if self._retry_at_once else self._config.rebalance_backoff_ms
            self._retry_at = time.monotonic() + pause_ms / 1000
            self._note_failure(error, pause_ms)
        else:
            self._failures, self._has_rebalanced = 0, True

    def _note_failure(self, error: ZooKeeperError | KafkaError, pause_ms: int) -> None:
        if isinstance(error, ConnectionLost):
            _log.warning("%s: %s; the rebalance of %s is tried again", self._named, error, self._consumer_id)
            return
        self._failures += 1
        if self._failures >= self._config.rebalance_max_retries and not self._has_rebalanced:
            raise RebalanceFailed(self._config.group_id, self._consumer_id, self._failures, str(error)) from error
        text = "%s: rebalance %d of %s failed, trying again in %d ms: %s"
        _log.warning(text, self._named, self._failures, self._consumer_id, pause_ms, error)

    def _rebalance(self, session: ZnodeClient) -> None:
        """Register, give up and claim partitions, and read them. Raises ZooKeeperError; KafkaError; Interrupted."""
        path = self._paths.consumer(self._consumer_id)
        registration = encode_subscription(self._subscription, int(time.time() * 1000))
        if session.create_ephemeral({path: registration}):
            raise ZooKeeperError(
                f"{path}: another session, perhaps an earlier one of this member, has this consumer id"
            )
        own = {self._consumer_id: self._subscription}
        view = read_view(session, self._paths, own, exclude_internal=self._config.exclude_internal_topics)
        self._note_missing(session, view.partitions)
        self._note_ignored(view.ignored)
        owners = THREAD_ASSIGNORS[self._config.assignor](view.threads, view.partitions)
        mine = {part: thread.number for part, thread in owners.items() if thread.consumer_id == self._consumer_id}
        self._release(session, [part for part, number in self._claims.items() if mine.get(part) != number])
        self._claim(session, mine)
        self._reader.assign(mine.keys() - set(self._reader.owned), streams=mine)
        _log.info("%s: %s has %d partitions", self._named, self._consumer_id, len(mine))

    def _note_ignored(self, ignored: Mapping[str, str]) -> None:
        for consumer_id in sorted(ignored.keys() - self._ignored.keys()):
            text = "%s: consumer %s is ignored, as if it had no topics: %s"
            _log.warning(text, self._named, consumer_id, ignored[consumer_id])
        self._ignored = ignored

    def _note_missing(self, session: ZnodeClient, existing: Mapping[str, object]) -> None:
        named = self._subscription.streams.keys() if self._subscription.pattern == STATIC else frozenset()
        missing = frozenset(named - existing.keys())
        warn_of_missing(self._config.group_id, missing, self._missing)
        if not existing and not session.children(BROKER_IDS):  # with a watch
            text = "%s: zookeeper.connect=%s: no broker is registered below %s; start one there, or correct the chroot"
            _log.warning(text, self._named, self._config.connect, BROKER_IDS)
        self._missing = missing

    def _release(self, session: ZnodeClient, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions up, each after the record in process, but within ``rebalance.backoff.ms``."""
        released = list(partitions)
        revoke(self._reader, self._waits, released, timeout_ms=self._config.rebalance_backoff_ms)
        session.delete_ephemeral(map(self._paths.owner, released))
        for part in released:
            del self._claims[part]

    def _claim(self, session: ZnodeClient, mine: Mapping[TopicPartition, int]) -> None:
        """Claim the partitions that are not read yet. Raises ZooKeeperError: another member has one of them."""
        owned = set(self._reader.owned)
        claimed = {part: number for part, number in mine.items() if part not in owned}
        self._claims.update(claimed)  # before they are created, because a response can be lost
        paths = {self._paths.owner(part): str(ThreadId(self._consumer_id, number)) for part, number in claimed.items()}
        conflicts = session.create_ephemeral({path: name.encode() for path, name in paths.items()})
        if not conflicts:
            return
        session.delete_ephemeral(paths)
        for part in claimed:
            del self._claims[part]
        found = session.get(conflicts)  # with watches, so that the next attempt follows when one is given up
        if conflicts - found.keys():
            self._retry_at_once = True  # one has been given up meanwhile: it has no watch
        path = min(conflicts)
        owner = found[path].data.decode(errors="replace") if path in found else "another consumer"
        others = f" and {len(conflicts) - 1} others" if len(conflicts) > 1 else ""
        ignored = f"; these consumers of the group are ignored: {listed(self._ignored)}" if self._ignored else ""
        raise ZooKeeperError(f"{path}{others}: {owner} has not given it up yet{ignored}")


def _unique_id() -> str:
    """As Kafka's: host, time and eight hexadecimal digits."""
    return f"{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:_ID_DIGITS]}"
