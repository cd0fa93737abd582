"""Fetch (1) v0-v18: record batches from partitions; waits for them up to max_wait_ms.

v0   message format v0; the limit truncates even the first batch
v1   throttle time
v2   message format v1
v3   a limit for the whole response, whose first batch is always complete (KIP-74)
v4   record format v2; read committed
v5   log start offset
v6   KAFKA_STORAGE_ERROR; before it, NOT_LEADER_OR_FOLLOWER
v7   fetch sessions (KIP-227)
v9   current leader epoch in the request (KIP-320)
v10  zstd; before it, UNSUPPORTED_COMPRESSION_TYPE for topics with compression.type=zstd
v11  rack, ignored, because partitions have one replica
v12  flexible; last fetched epoch and diverging epoch (KIP-595)
v13  topic ids (KIP-516)
v15  the replica's state instead of its id (KIP-903)
v16  the current leader and its address (KIP-951)
v17  the replica's directory, v18 its high watermark: for followers only

A client over consumer_byte_rate gets a response without records and a throttle time.
"""

import functools
import itertools
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from broker_embedded._config.config import BrokerConfig
from broker_embedded._handlers.support.quota_charges import charge_time
from broker_embedded._handlers.support.registry import RequestContext, handles
from broker_embedded._metadata.client_quotas import ClientQuotas
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.timers import Timers
from broker_embedded._platform.worker_threads import WorkerThreads
from broker_embedded._replica.delayed import DelayedOperations
from broker_embedded._replica.fetch_sessions import TOPIC_IDS_SINCE, FetchContext, FetchSessions
from broker_embedded._replica.fetching import FetchLimits, PartitionRead, Reading
from broker_embedded._replica.partitions import Partitions
from spark_kafka_native._protocol.codec import encode
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_FORMAT_1_SINCE: Final = 2
_LIMITED_SINCE: Final = 3
_FORMAT_2_SINCE: Final = 4
_STORAGE_ERROR_SINCE: Final = 6
_ZSTD_SINCE: Final = 10
_REPLICA_STATE_SINCE: Final = 15
_LEADER_IN_ERROR_SINCE: Final = 16
_READ_COMMITTED: Final = 1
_NO_RECORDS: Final = b""
_DEFAULTS: Final = PartitionData()
_LEADER_WANTED: Final = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}


@handles(FetchRequest, "0-18")
def fetch(
    request: FetchRequest,
    context: RequestContext,
    quotas: ClientQuotas,
    delayed: DelayedOperations,
    configs: DynamicConfigs,
    fetch_sessions: FetchSessions,
    partitions: Partitions,
    timers: Timers,
    topics: Topics,
    threads: WorkerThreads,
) -> FetchResponse | Awaitable[FetchResponse]:
    """The available records; if they are fewer than min_bytes, wait for more up to max_wait_ms."""
    try:
        session = fetch_sessions.begin(request, context.version, topics.image.names.get, timers.elapsed_ms)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetching = _Fetching(request, context, session, configs.config, fetch_sessions, partitions, quotas, threads, timers)
    fetching.reading.read()
    if request.max_wait_ms > 0 and not fetching.reading.is_done:
        return fetching.respond_after(fetching.reading.wait(delayed, request.max_wait_ms))
    return fetching.respond_in_old_format() if context.version < _FORMAT_2_SINCE else fetching.response()


class _Fetching:
    def __init__(
        self,
        request: FetchRequest,
        context: RequestContext,
        session: FetchContext,
        config: BrokerConfig,
        fetch_sessions: FetchSessions,
        partitions: Partitions,
        quotas: ClientQuotas,
        threads: WorkerThreads,
        timers: Timers,
    ) -> None:
        version = context.version
        self._context = context
        self._session = session
        self._config = config
        self._fetch_sessions = fetch_sessions
        self._partitions = partitions
        self._quotas = quotas
        self._threads = threads
        self._timers = timers
        max_bytes = max(0, min(request.max_bytes, config.fetch_max_bytes))
        if quotas.fetch.enabled:
            max_bytes = int(min(max_bytes, quotas.fetch.most_at_once(context.user, context.client_id)))
        by_state = version >= _REPLICA_STATE_SINCE
        limits = FetchLimits(
            max_bytes=max_bytes,
            min_bytes=min(request.min_bytes, max_bytes),
            replica_id=request.replica_state.replica_id if by_state else request.replica_id,
            committed=request.isolation_level == _READ_COMMITTED,
            by_id=version >= TOPIC_IDS_SINCE,
            cuts_first=version < _LIMITED_SINCE,
        )
        self.reading = Reading(partitions, session.partitions, limits)

    async def respond_after(self, enough: Awaitable[None]) -> FetchResponse:
        """The response, once min_bytes were appended, a partition has an error, or max_wait_ms has passed.

        The wait begins before this is awaited, because other connections may append until then.
        """
        await enough
        if self._context.version < _FORMAT_2_SINCE:
            return await self.respond_in_old_format()
        return self.response()

    def response(self) -> FetchResponse:
        """The response with the records of the last read."""
        return FetchResponse(session_id=self._session.session_id) if self._is_throttled() else self._response()

    async def respond_in_old_format(self) -> FetchResponse:
        """The response, down-converted to a message format that the client knows."""
        if self._is_throttled():
            return FetchResponse()
        magic = 0 if self._context.version < _FORMAT_1_SINCE else 1
        for read in self.reading.to_convert:
            await self._threads.reads.run(functools.partial(self.reading.convert, read, magic), self._context.presence)
        return self._response()

    def _is_throttled(self) -> bool:
        """Charge the response to the client's quotas; whether the response must have no records."""
        context, quota = self._context, self._quotas.fetch
        if not quota.enabled and not self._quotas.request.enabled:
            return False
        now_ms, size = self._timers.elapsed_ms(), 0
        if quota.enabled:
            selected = self._session.select(self.reading.results)
            size = sum(map(len, encode(FetchResponse(responses=self._topics(selected)), context.version)))
            context.cost.throttle(quota.record(context.user, context.client_id, size, now_ms))
        wait_ms = charge_time(context, self._quotas, self._timers)
        if not wait_ms or not self._config.release.answers_before_it_throttles:
            return False
        quota.note(context.user, context.client_id, -size, now_ms)
        return True

    def _response(self) -> FetchResponse:
        results = self.reading.results
        session = self._session
        try:
            selected = session.finish(results)
        except KafkaError as error:
            return FetchResponse(error_code=error.code, session_id=session.session_id)
        opened = 0
        if session.opens:
            opened = self._fetch_sessions.open(session, results, self._timers.elapsed_ms())
        for read in selected:
            if read.size:
                assert read.partition is not None
                read.partition.traffic.sent(read.size)
        return FetchResponse(
            session_id=opened or session.session_id,
            responses=self._topics(selected),
            node_endpoints=self._endpoints(selected) if self._context.version >= _LEADER_IN_ERROR_SINCE else (),
        )

    def _topics(self, reads: Sequence[PartitionRead]) -> tuple[FetchableTopicResponse, ...]:
        """Partitions in their order, consecutive partitions of a topic in one entry."""
        topics = []
        for _, group in itertools.groupby(reads, key=lambda read: read.fetched.key[0]):
            of_topic = tuple(group)
            first = of_topic[0].fetched
            parts = tuple(map(self._partition, of_topic))
            topics.append(FetchableTopicResponse(topic=first.topic or "", topic_id=first.topic_id, partitions=parts))
        return tuple(topics)

    def _partition(self, read: PartitionRead) -> PartitionData:
        index, version = read.fetched.request.partition, self._context.version
        if (
            version < _ZSTD_SINCE
            and read.partition is not None
            and read.partition.log.config.compression_type == "zstd"
        ):
            code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            return PartitionData(partition_index=index, error_code=code, high_watermark=-1, records=_NO_RECORDS)
        if read.error_code != ErrorCode.NONE:
            return PartitionData(
                partition_index=index,
                error_code=self._known_code(read.error_code),
                high_watermark=-1,
                aborted_transactions=() if read.is_missing else None,
                current_leader=self._leader(read) or _DEFAULTS.current_leader,
                records=_NO_RECORDS,
            )
        return PartitionData(
            partition_index=index,
            high_watermark=read.high_watermark,
            last_stable_offset=read.last_stable_offset,
            log_start_offset=read.log_start_offset,
            aborted_transactions=read.aborted,
            diverging_epoch=read.diverging_epoch or _DEFAULTS.diverging_epoch,
            records=read.records or _NO_RECORDS,
        )

    def _known_code(self, code: int) -> int:
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._context.version < _STORAGE_ERROR_SINCE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code

    def _leader(self, read: PartitionRead) -> LeaderIdAndEpoch | None:
        """The current leader of a partition, for a client with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH."""
        if self._context.version < _LEADER_IN_ERROR_SINCE or read.error_code not in _LEADER_WANTED:
            return None
        image = self._partitions.image_of(read.fetched.topic or "", read.fetched.request.partition)
        return LeaderIdAndEpoch(leader_id=image.leader, leader_epoch=image.leader_epoch) if image else None

    def _endpoints(self, reads: Iterable[PartitionRead]) -> tuple[NodeEndpoint, ...]:
        """The addresses of the leaders in the response, which is this broker's."""
        node = self._context.node
        for read in reads:
            leader = self._leader(read) if read.error_code else None
            if leader is not None and leader.leader_id == node.node_id:
                return (NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port),)
        return ()
