"""Fetch, where a request need not say what it asks for: its session knows (KIP-227).

While something is to happen to single partitions, clients are kept out of sessions: one that goes on with a session is
told that there is none, and one that opens a session gets none, as from a broker whose slots are taken. Both are things
that clients live with; they name all their partitions then.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from broker_embedded.broker import Broker
from broker_embedded.replica.partitions import LocalPartition
from broker_embedded.testing.scopes import Scope, TopicNames
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_NO_SESSION: Final = 0
_NO_EPOCH: Final = -1
_IDS_SINCE: Final = 13
SESSION_REFUSED: Final = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
"""The answer to a client that goes on with a session."""


def goes_on_with_a_session(request: FetchRequest) -> bool:
    """Whether a request leaves out the partitions that its session knows."""
    return request.session_epoch > 0


def without_session(request: FetchRequest) -> FetchRequest:
    """The same request from a client that wants no session."""
    return dataclasses.replace(request, session_id=_NO_SESSION, session_epoch=_NO_EPOCH, forgotten_topics_data=())


class Pauses:
    """Partitions whose fetches find nothing new, whatever there is."""

    def __init__(self) -> None:
        self._scopes: list[Scope] = []

    def __bool__(self) -> bool:
        return bool(self._scopes)

    def pause(self, scope: Scope) -> None:
        """From now on there is nothing new in these partitions."""
        if scope not in self._scopes:
            self._scopes.append(scope)

    def resume(self, scope: Scope) -> None:
        """Let fetches see again what is in them. A partition stays paused that was paused by another scope too."""
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
        """What is left to be asked; the answer for the paused partitions; and these. Others than ours are left."""
        paused: list[LocalPartition] = []
        rest: list[FetchTopic] = []
        answers: list[FetchableTopicResponse] = []
        for topic in request.topics:
            found = [(asked, self._find(topic, asked, version, broker)) for asked in topic.partitions]
            left = tuple(asked for asked, partition in found if partition is None)
            if left:
                rest.append(dataclasses.replace(topic, partitions=left))
            here = [partition for _, partition in found if partition is not None]
            if here:
                answers.append(_nothing_new(topic.topic, topic.topic_id, here))
                paused += here
        left_to_ask = dataclasses.replace(request, topics=tuple(rest)) if rest else None
        return left_to_ask, FetchResponse(responses=tuple(answers)), paused

    def empty(self, response: FetchResponse, names: TopicNames) -> FetchResponse:
        """An answer without the records of paused partitions: the fetch began before the pause."""
        topics = []
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            parts = tuple(
                dataclasses.replace(part, records=b"") if self.cover(name, part.partition_index) else part
                for part in topic.partitions
            )
            topics.append(dataclasses.replace(topic, partitions=parts))
        return dataclasses.replace(response, responses=tuple(topics))

    def _find(self, topic: FetchTopic, asked: FetchPartition, version: int, broker: Broker) -> LocalPartition | None:
        """The partition, if it is here and paused, and the client's epoch is right."""
        try:
            if version >= _IDS_SINCE:
                partition = broker.partitions.get_by_id(topic.topic_id, asked.partition)
            else:
                partition = broker.partitions.get(topic.topic, asked.partition)
            partition.check_leader_epoch(asked.current_leader_epoch)
        except KafkaError:
            return None
        return partition if self.cover(*partition.id) else None


def _nothing_new(topic: str, topic_id: UUID, partitions: list[LocalPartition]) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=tuple(_empty(partitions)))


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
