"""Fetch sessions (KIP-227): the partitions of a client's Fetch are stored between its requests. Pure.

A full fetch (epoch 0) opens a session, and incremental ones (epochs 1, 2, ...) continue it. These name only partitions
that are new, changed or to be forgotten, and their responses contain only partitions with records, an error, or a high
watermark or log start offset that was not sent before. A partition that returned records moves to the end of the
session, so that each partition is first at times and not cut by the limits of the response.

The number of sessions is bounded by ``slots``. A new session evicts another one only if that was unused for two
minutes, or is older than that and smaller, or is a consumer's and the new one a follower's. A client without a session
gets session id 0 and continues with full fetches. Apache Kafka divides its slots among eight caches to avoid lock
contention; here is one cache.
"""

import secrets
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, TypeVar
from uuid import UUID

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest

EVICTION_MS: Final = 120_000
"""A session younger than this is not evicted by larger ones. A session used within this time is not stale."""
NO_SESSION: Final = 0
_OPENING_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
_LAST_ID: Final = 2**31 - 1
TOPIC_IDS_SINCE: Final = 13
_UNKNOWN: Final = -1

Key: TypeAlias = tuple[str | UUID, int]
"""The key of a partition in a session: topic id and number from Fetch v13 on, before it name and number."""
_Priority: TypeAlias = tuple[bool, int, int]
"""Privileged, partitions, id: the smallest is evicted first."""


@dataclass(slots=True, kw_only=True, eq=False)
class FetchedPartition:
    """A partition that a client fetches, and the state that was sent to the client in a session (CachedPartition).

    ``topic`` is None while no topic has the requested id.
    """

    key: Key
    topic: str | None
    topic_id: UUID
    request: FetchPartition
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN


class PartitionResult(Protocol):
    """The result of a partition, as far as sessions use it."""

    fetched: FetchedPartition
    error_code: int
    high_watermark: int
    log_start_offset: int
    size: int

    @property
    def diverges(self) -> bool:
        """Whether the client must truncate its log."""


ResultT = TypeVar("ResultT", bound=PartitionResult)
TopicNames: TypeAlias = Callable[[UUID], str | None]


class FetchSession:
    """One client's partitions, in the order of the next read."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "partitions", "priority", "privileged", "used_ms")

    def __init__(self, id_: int, *, by_id: bool, privileged: bool, now_ms: int) -> None:
        self.id = id_
        self.by_id = by_id
        self.privileged = privileged
        self.created_ms = self.used_ms = now_ms
        self.epoch = _next_epoch(_OPENING_EPOCH)
        self.partitions: OrderedDict[Key, FetchedPartition] = OrderedDict()
        self.priority: _Priority = (privileged, 0, id_)

    def update(self, partitions: Iterable[FetchedPartition], forgotten: Iterable[Key]) -> None:
        """Apply the partitions that a request adds, changes and forgets, in this order."""
        for fetched in partitions:
            known = self.partitions.get(fetched.key)
            if known is None:
                self.partitions[fetched.key] = fetched
            else:
                known.request = fetched.request
        for key in forgotten:
            self.partitions.pop(key, None)

    def name_topics(self, name_of: TopicNames) -> None:
        """Resolve topic ids without a name. A resolved name stays, even if the topic is deleted."""
        for fetched in self.partitions.values():
            if fetched.topic is None:
                fetched.topic = name_of(fetched.topic_id)


class FetchContext:
    """One Fetch request.

    ``partitions`` are read in this order. ``session`` is that of an incremental fetch, else None. ``opens``: the
    request opens a session.
    """

    __slots__ = ("by_id", "epoch", "opens", "partitions", "privileged", "session")

    def __init__(
        self,
        partitions: Sequence[FetchedPartition],
        *,
        session: FetchSession | None = None,
        epoch: int = _FINAL_EPOCH,
        by_id: bool = False,
        privileged: bool = False,
        opens: bool = False,
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.epoch = epoch
        self.by_id = by_id
        self.privileged = privileged
        self.opens = opens

    def select(self, results: Sequence[ResultT]) -> Sequence[ResultT]:
        """The partitions of the response, without changing the session."""
        if self.session is None:
            return results
        return [each for each in results if _must_respond(each)] if self._is_current(self.session) else []

    def _is_current(self, session: FetchSession) -> bool:
        return session.epoch == _next_epoch(self.epoch)

    def finish(self, results: Sequence[ResultT]) -> Sequence[ResultT]:
        """The partitions of the response, recorded as sent. Those with records move to the end of the session.

        Raises KafkaError INVALID_FETCH_SESSION_EPOCH: another request has continued the session meanwhile.
        """
        session = self.session
        if session is None:
            return results
        if not self._is_current(session):
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, _stale(session, _next_epoch(self.epoch)))
        selected = []
        for each in results:
            if _must_respond(each):
                selected.append(each)
                _mark_sent(each)
                if each.size:
                    session.partitions.move_to_end(each.fetched.key)
        return selected

    @property
    def session_id(self) -> int:
        """The id for a response that does not change the session, such as a throttled one."""
        return NO_SESSION if self.session is None else self.session.id


@dataclass(slots=True)
class _Order:
    """Sessions in ascending order of their eviction priority."""

    entries: list[_Priority] = field(default_factory=list)

    def add(self, priority: _Priority) -> None:
        insort(self.entries, priority)

    def discard(self, priority: _Priority) -> None:
        index = bisect_left(self.entries, priority)
        if index < len(self.entries) and self.entries[index] == priority:
            del self.entries[index]


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        """``new_id`` returns unpredictable numbers from 1 to 2,147,483,647.

        It is called again if the number is in use.
        """
        self._slots = slots
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first
        self._evictable = _Order()
        self._evictable_by_followers = _Order()
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """Partitions of all sessions together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin(
        self, request: FetchRequest, version: int, name_of: TopicNames, now_ms: Callable[[], int]
    ) -> FetchContext:
        """Begin a request, with its own partitions or those of its session.

        ``name_of`` returns the name of the topic with an id, or None.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND; INVALID_FETCH_SESSION_EPOCH; FETCH_SESSION_TOPIC_ID_ERROR: the
        session was opened with topic names and continues with ids, or the reverse.
        """
        by_id = version >= TOPIC_IDS_SINCE
        requested = {fetched.key: fetched for fetched in _fetched(request, name_of if by_id else None)}
        if request.session_epoch in {_OPENING_EPOCH, _FINAL_EPOCH}:
            self.close(request.session_id)
            privileged = max(request.replica_id, request.replica_state.replica_id) >= 0
            opens = request.session_epoch == _OPENING_EPOCH
            return FetchContext(tuple(requested.values()), by_id=by_id, privileged=privileged, opens=opens)
        session = self._continued(request, by_id)
        session.update(requested.values(), _forgotten(request, by_id))
        if not session.partitions:
            self._remove(session)
            return FetchContext(tuple(requested.values()))
        if by_id:
            session.name_topics(name_of)
        self._touch(session, now_ms())
        epoch, session.epoch = session.epoch, _next_epoch(session.epoch)
        return FetchContext(tuple(session.partitions.values()), session=session, epoch=epoch)

    def open(self, context: FetchContext, results: Sequence[PartitionResult], now_ms: int) -> int:
        """Open the session of a full fetch. Returns its id, or 0 if no slot is free."""
        if not context.opens or not self._make_space(context.privileged, len(results), now_ms):
            return NO_SESSION
        id_ = self._new_id()
        while id_ in self._sessions or id_ == NO_SESSION:
            id_ = self._new_id()
        session = FetchSession(id_, by_id=context.by_id, privileged=context.privileged, now_ms=now_ms)
        for each in results:
            each.fetched.high_watermark, each.fetched.log_start_offset = each.high_watermark, each.log_start_offset
            session.partitions[each.fetched.key] = each.fetched
        self._sessions[id_] = session
        self._touch(session, now_ms)
        return id_

    def close(self, session_id: int) -> None:
        """Close a session, if the id exists."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._remove(session)

    def _continued(self, request: FetchRequest, by_id: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            detail = f"there is no fetch session {request.session_id}"
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, detail)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, _stale(session, request.session_epoch))
        if session.by_id != by_id:
            detail = f"fetch session {session.id} was opened with topic {'ids' if session.by_id else 'names'}"
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, detail)
        return session

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """Mark the session as used now, and update its eviction priority."""
        self._sessions.move_to_end(session.id)
        session.used_ms = now_ms
        self._forget_priority(session)
        session.priority = (session.privileged, len(session.partitions), session.id)
        settled = now_ms - session.created_ms > EVICTION_MS
        if settled:
            self._evictable.add(session.priority)
        if settled or not session.privileged:
            self._evictable_by_followers.add(session.priority)

    def _make_space(self, privileged: bool, size: int, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms <= EVICTION_MS:
            order = self._evictable_by_followers if privileged else self._evictable
            if not order.entries or (privileged, size, 0) < order.entries[0]:
                return False
            stalest = self._sessions[order.entries[0][2]]
        self._remove(stalest)
        self.evictions += 1
        return True

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self._forget_priority(session)

    def _forget_priority(self, session: FetchSession) -> None:
        self._evictable.discard(session.priority)
        self._evictable_by_followers.discard(session.priority)


def new_session_id() -> int:
    """An unpredictable session id, so that no client continues the session of another client by mistake."""
    return secrets.randbelow(_LAST_ID) + 1


def _next_epoch(epoch: int) -> int:
    if epoch < 0:
        return _FINAL_EPOCH
    return 1 if epoch == _LAST_EPOCH else epoch + 1


def _stale(session: FetchSession, epoch: int) -> str:
    return f"fetch session {session.id} is in epoch {session.epoch}, not {epoch}"


def _fetched(request: FetchRequest, name_of: TopicNames | None) -> Iterator[FetchedPartition]:
    for topic in request.topics:
        name = topic.topic if name_of is None else name_of(topic.topic_id)
        identity: str | UUID = topic.topic if name_of is None else topic.topic_id
        for requested in topic.partitions:
            yield FetchedPartition(
                key=(identity, requested.partition), topic=name, topic_id=topic.topic_id, request=requested
            )


def _forgotten(request: FetchRequest, by_id: bool) -> Iterator[Key]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield (topic.topic_id if by_id else topic.topic, partition)


def _must_respond(result: PartitionResult) -> bool:
    fetched = result.fetched
    return (
        result.size > 0
        or result.error_code != ErrorCode.NONE
        or result.high_watermark != fetched.high_watermark
        or result.log_start_offset != fetched.log_start_offset
        or result.diverges
    )


def _mark_sent(result: PartitionResult) -> None:
    """Record the state that was sent to the client; none after an error, so that the end of the error is sent."""
    failed = result.error_code != ErrorCode.NONE
    result.fetched.high_watermark = _UNKNOWN if failed else result.high_watermark
    result.fetched.log_start_offset = result.log_start_offset
