"""One member of a group `g` of scripted brokers, which reads topic `t`: two partitions, six numbers."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pytest

from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from spark_kafka_native._protocol.schema import Request
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.consuming import SHORT_PAUSES
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import KAFKA_4_3, ScriptedCluster
from tests.support.scripted.groups import GROUP_VERSIONS, FakeGroup
from tests.support.scripted.steps import Respond
from tests.support.waiting import eventually

ALL: Final = [0, 1, 2, 3, 4, 5]


def brokers_of_a_group(*, brokers: int = 2, numbers: Iterable[int] = ALL) -> Any:
    """A fixture: brokers of each test's own; the partitions have the even and the odd numbers, one to a batch."""

    @pytest.fixture
    def made() -> Iterator[ScriptedCluster]:
        versions = {**KAFKA_4_3, **GROUP_VERSIONS}
        with ScriptedCluster(brokers=brokers, topics={"t": 2}, versions=versions) as running:
            write(running, numbers)
            yield running

    return made


def write(brokers: ScriptedCluster, numbers: Iterable[int]) -> None:
    """Even numbers to partition 0, odd ones to partition 1."""
    for number in numbers:
        brokers.partition("t", number % 2).append(batch_of([b"%d" % number]))


def member_options(brokers: ScriptedCluster) -> dict[str, object]:
    """Of a member with short pauses."""
    return {
        "bootstrap.servers": brokers.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 20,
        "auto.commit.interval.ms": 20,
        "value.deserializer": int,
        **SHORT_PAUSES,
    }


def options_of_a_member() -> Any:
    """A fixture: `member_options` of the fixture ``brokers``."""

    @pytest.fixture
    def made(brokers: ScriptedCluster) -> dict[str, object]:
        return member_options(brokers)

    return made


def assigning(partitions: Mapping[uuid.UUID, Iterable[int]], *, interval_ms: int = 20) -> Respond:
    """A heartbeat response, in a group of the consumer protocol, with an assignment by topic id."""
    topics = tuple(TopicPartitions(topic_id=each, partitions=tuple(parts)) for each, parts in partitions.items())

    def respond(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=max(request.member_epoch, 1),
            heartbeat_interval_ms=interval_ms,
            assignment=Assignment(topic_partitions=topics),
        )

    return Respond(respond)


def group_of(brokers: ScriptedCluster) -> FakeGroup:
    """The group, also before the first member joins it."""
    return brokers.state.groups.get("g", FakeGroup())


def committed(brokers: ScriptedCluster) -> list[int]:
    """The committed offsets of both partitions; -1: none."""
    return [brokers.state.committed.get(("g", TopicPartition("t", number)), (-1,))[0] for number in range(2)]


def count(brokers: ScriptedCluster, kind: type[Request[Any]]) -> int:
    """How many requests of a kind have come."""
    return len(brokers.requests(kind))


def wait_for_requests(brokers: ScriptedCluster, kind: type[Request[Any]], more: int = 1) -> None:
    """Wait until so many more requests of a kind have come."""
    wanted = count(brokers, kind) + more
    eventually(lambda: count(brokers, kind) >= wanted, expected=True)
