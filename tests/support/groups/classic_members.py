"""Classic groups of consumers, brought to rest in one call, for stories about what becomes of them."""

from collections.abc import Sequence
from typing import Any

from broker_embedded._groups.classic.group import ClassicGroup
from broker_embedded._groups.consumer.member import TopicIdPartition
from broker_embedded._groups.consumer.migration import assignment_of
from broker_embedded._groups.group import Pending
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequestAssignment
from tests.support.groups.classic_requests import ClassicClient
from tests.support.groups.consumer_driver import ConsumerDriver, topic_id


def assigned(group: ConsumerDriver, **partitions: Sequence[int]) -> bytes:
    """An assignment of these partitions, by topic."""
    wanted = [TopicIdPartition(topic_id(name), number) for name, numbers in partitions.items() for number in numbers]
    return assignment_of(wanted, group.view, 3)


def stable_classic(
    group: ConsumerDriver,
    *topics: str,
    assignments: Sequence[bytes] | None = None,
    protocol_type: str = "consumer",
    **fields: Any,
) -> list[ClassicClient]:
    """A stable classic group with a member for each topic that is named, which shares its partitions with its like."""
    clients = [ClassicClient(topics=(name,)) for name in topics]
    waiting = {}
    for client in clients:
        pending = group.classic_join(client, protocol_type=protocol_type, **fields)
        assert isinstance(pending, Pending)
        waiting[pending.request_id] = client
    group.advance(0)
    for request_id, client in waiting.items():
        response = group.replies[request_id]
        client.member_id, client.generation = response.member_id, response.generation_id
    shares = list(assignments or _shares(group, topics))
    classic = group.group
    assert isinstance(classic, ClassicGroup)
    parked_syncs = {}
    for client in sorted(clients, key=lambda client: client.member_id == classic.leader):  # the leader comes last
        given = tuple(
            SyncGroupRequestAssignment(member_id=other.member_id, assignment=share)
            for other, share in zip(clients, shares, strict=True)
        )
        leads = client.member_id == classic.leader
        response = group.classic_sync(client, assignments=given if leads else (), protocol_type=protocol_type)
        assert isinstance(response, Pending)
        parked_syncs[response.request_id] = client
    for request_id, client in parked_syncs.items():
        if protocol_type == "consumer" and assignments is None:
            client.take(group.replies[request_id])
    assert group.state == "Stable"
    return clients


def _shares(group: ConsumerDriver, topics: Sequence[str]) -> list[bytes]:
    shares = []
    for index, name in enumerate(topics):
        alike = [other for other in range(len(topics)) if topics[other] == name]
        numbers = range(group.view.by_name[name].partitions)[alike.index(index) :: len(alike)]
        shares.append(assigned(group, **{name: list(numbers)}))
    return shares
