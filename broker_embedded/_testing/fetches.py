"""Pauses of fetches, and fetch sessions (KIP-227) during faults of single partitions.

In a session a request does not name its partitions. During faults or pauses of single partitions sessions are therefore
refused: a request of a session gets FETCH_SESSION_ID_NOT_FOUND, and a new session is not opened, as by a broker without
free slots. Clients then name all their partitions.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

from broker_embedded._broker import Broker
from broker_embedded._replica.fetch_sessions import TOPIC_IDS_SINCE
from broker_embedded._replica.partitions import LocalPartition
from broker_embedded._testing.scopes import Scope, TopicNames
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_NO_SESSION: Final = 0
_NO_EPOCH: Final = -1
SESSION_REFUSED: Final = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
"""The response to a request of a session."""


def continues_session(request: FetchRequest) -> bool:
    """Whether a request is an incremental fetch of a session."""
    return request.session_epoch > 0


def without_session(request: FetchRequest) -> FetchRequest:
    """A copy of the request without a session."""
    return dataclasses.replace(request, session_id=_NO_SESSION, session_epoch=_NO_EPOCH, forgotten_topics_data=())


class Pauses:
    """Paused partitions, whose fetches return no records."""

    def __init__(self) -> None:
        self._scopes: list[Scope] = []

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def pause(self, scope: Scope) -> None:
        """Pause the partitions of a scope."""
        if scope not in self._scopes:
            self._scopes.append(scope)

    def resume(self, scope: Scope) -> None:
        """Resume the partitions of a scope. A partition stays paused if another scope has paused it too."""
        self._scopes = [paused for paused in self._scopes if paused != scope]

    def clear(self) -> None:
        """Resume all."""
        self._scopes = []

    def cover(self, topic: str, partition: int) -> bool:
        """Whether a partition is paused."""
        return any(scope.covers(topic, partition) for scope in self._scopes)

    def take_out(
        self, request: FetchRequest, version: int, broker: Broker
    ) -> tuple[FetchRequest | None, FetchResponse, list[LocalPartition]]:
        """The request without the paused partitions; the response for these; and their ids."""
        paused: list[LocalPartition] = []
        rest: list[FetchTopic] = []
        responses: list[FetchableTopicResponse] = []
        for topic in request.topics:
            found = [(requested, self._find(topic, requested, version, broker)) for requested in topic.partitions]
            left = tuple(requested for requested, partition in found if partition is None)
            if left:
                rest.append(dataclasses.replace(topic, partitions=left))
            here = [partition for _, partition in found if partition is not None]
            if here:
                parts = tuple(_empty(here))
                responses.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=parts))
                paused += here
        left_to_ask = dataclasses.replace(request, topics=tuple(rest)) if rest else None
        return left_to_ask, FetchResponse(responses=tuple(responses)), paused

    def empty(self, response: FetchResponse, names: TopicNames) -> FetchResponse:
        """A response without the records of paused partitions, for a fetch that began before the pause."""
        topics = []
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            parts = tuple(
                dataclasses.replace(part, records=b"") if self.cover(name, part.partition_index) else part
                for part in topic.partitions
            )
            topics.append(dataclasses.replace(topic, partitions=parts))
        return dataclasses.replace(response, responses=tuple(topics))

    def _find(
        self, topic: FetchTopic, requested: FetchPartition, version: int, broker: Broker
    ) -> LocalPartition | None:
        """The partition, if it exists, is paused, and the client's leader epoch is correct."""
        try:
            if version >= TOPIC_IDS_SINCE:
                partition = broker.partitions.get_by_id(topic.topic_id, requested.partition)
            else:
                partition = broker.partitions.get(topic.topic, requested.partition)
            partition.check_leader_epoch(requested.current_leader_epoch)
        except KafkaError:
            return None
        return partition if self.cover(*partition.id) else None


def _empty(partitions: list[LocalPartition]) -> Iterator[PartitionData]:
    for partition in partitions:
        yield PartitionData(
            partition_index=partition.id.partition,
            high_watermark=partition.log.high_watermark,
            last_stable_offset=partition.log.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
