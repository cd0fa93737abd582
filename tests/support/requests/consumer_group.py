"""Members of consumer groups (KIP-848) in raw requests over real connections, the same to every broker."""

import itertools
from collections.abc import Iterable
from typing import Any, Self
from uuid import UUID

from dirty_equals import HasLen

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from spark_kafka_native._protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.requests.classic_group import wait_for_coordinator
from tests.support.requests.raw_client import RawClient
from tests.support.servers.brokers import Server, TopicMaker
from tests.support.waiting import eventually

Owned = frozenset[tuple[UUID, int]]


def first_heartbeat(member_id: str, group_id: str = "g", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """With it a member joins that reads topic t, unless the fields name others."""
    wants: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": (), "subscribed_topic_names": ("t",)}
    return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, **wants | fields)


class RawConsumer:
    """One consumer, with one connection: it keeps its epoch, and revokes what it has to. A context manager.

    ``holds_on``: it is slow to give back. ``owned`` is what it has, by topic id and number.
    """

    _numbers = itertools.count(1)

    def __init__(self, address: str, group_id: str, *topics: str, **fields: Any) -> None:
        self.group_id = group_id
        self.member_id = f"member-{next(self._numbers)}"
        self.instance_id: str | None = fields.pop("instance_id", None)
        self.fields: dict[str, Any] = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": topics or None,
            **fields,
        }
        self.epoch = 0
        self.owned: Owned = frozenset()
        self.assigned: Owned = frozenset()
        self.holds_on = False
        self._reported: Owned | None = None
        self.client = RawClient(address)

    def __enter__(self) -> Self:
        wait_for_coordinator(self.client, self.group_id)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.sock.close()

    def ask(self, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat with just these fields beside the ids and the epoch."""
        request: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            **fields,
        }
        return self.client.ask(ConsumerGroupHeartbeatRequest(**request), version)

    def code(self, version: int = 1, **fields: Any) -> ErrorCode:
        """The error code of a heartbeat with just these fields beside the ids and the epoch."""
        return ErrorCode.of(self.ask(version, **fields).error_code)

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Join, or join again having given up everything."""
        self.fields |= fields
        self.epoch, self.owned, self.assigned = 0, frozenset(), frozenset()
        return self.beat(full=True)

    def beat(self, *, full: bool = False) -> ConsumerGroupHeartbeatResponse:
        """The heartbeat of a consumer; it takes note of the response, which must be no refusal."""
        fields = dict(self.fields) if full else {}
        if full or self.owned != self._reported:
            fields["topic_partitions"] = as_topics(self.owned)
        response = self.ask(**fields)
        assert response.error_code == ErrorCode.NONE, response
        self._reported = self.owned
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = as_owned(response.assignment.topic_partitions)
        self.owned = self.owned | self.assigned if self.holds_on else self.assigned
        return response

    def beaten(self) -> frozenset[tuple[UUID, int]]:
        """The partitions that it owns after one more heartbeat."""
        self.beat()
        return self.owned

    def give_back(self) -> ConsumerGroupHeartbeatResponse:
        """Revoke partitions that are not assigned any more, and report it."""
        self.owned = self.assigned
        return self.beat()

    def leave(self, epoch: int = -1) -> ErrorCode:
        """Leave, for good or, a static member with -2, for a while."""
        return self.code(member_epoch=epoch)

    def numbers(self) -> list[int]:
        """The numbers of the partitions that it has."""
        return sorted(number for _, number in self.owned)


def make_topic(server: Server, partitions: int = 1) -> str:
    """A new topic that groups can be assigned: a coordinator may hear of it later than others."""
    name = TopicMaker(server)(partitions=partitions)
    with RawConsumer(server.bootstrap_servers, f"probe-{name}", name) as probe:
        probe.join()
        eventually(probe.beaten, HasLen(partitions))
        probe.leave()
    return name


def settle(*members: RawConsumer) -> None:
    """Have members send heartbeats until the group is stable and the members have sent what they own."""

    def state() -> tuple[str, list[str]]:
        for member in members:
            member.beat()
        group = describe(members[0].client, members[0].group_id)
        return group.group_state, [member.member_id for member in members if member.owned != member._reported]

    eventually(state, ("Stable", []))


def describe(client: RawClient, group_id: str, version: int = 1) -> DescribedGroup:
    """What ConsumerGroupDescribe says of a group."""
    (group,) = client.ask(ConsumerGroupDescribeRequest(group_ids=(group_id,)), version).groups
    return group


def topic_id(client: RawClient, name: str) -> UUID:
    """The id of a topic."""
    (topic,) = client.ask(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 12).topics
    assert topic.error_code == ErrorCode.NONE
    return topic.topic_id


def as_topics(owned: Iterable[tuple[UUID, int]]) -> tuple[TopicPartitions, ...]:
    """Partitions as heartbeats carry them."""
    found: dict[UUID, list[int]] = {}
    for id_, number in sorted(owned):
        found.setdefault(id_, []).append(number)
    return tuple(TopicPartitions(topic_id=id_, partitions=tuple(numbers)) for id_, numbers in found.items())


def as_owned(topics: Iterable[TopicPartitions]) -> Owned:
    """Partitions out of a heartbeat."""
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)
