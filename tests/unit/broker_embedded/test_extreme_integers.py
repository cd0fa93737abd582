"""Every API with the least and the largest integers in every field: a response or an error code, never an exception.

The requests are those that do something (`tests.support.requests.every_api`). Those about transactions and groups are
also sent by a producer and by members that exist, because most arithmetic comes after the look whether there is one.
"""

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar
from uuid import UUID

import pytest

from broker_embedded._handlers.support.registry import Api, apis_of
from spark_kafka_native._protocol.codec import encode
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.schema import Request, Struct, fields_of
from tests.support.broker.driver import BrokerDriver, to_bytes
from tests.support.broker.members import join_request
from tests.support.records.fuzz_targets import FrameTarget
from tests.support.requests.consumer_group import first_heartbeat
from tests.support.requests.every_api import GOOD_REQUESTS, Asking
from tests.support.requests.of_topic import add_partitions_to_txn

StructT = TypeVar("StructT", bound=Struct)

BITS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
FOUR_YEARS_MS: Final = 2**37
APIS: Final = list(apis_of("4.3").values())
each_api = pytest.mark.parametrize("api", APIS, ids=[api.request.api_name for api in APIS])


def extremes(kind: str) -> tuple[int, ...]:
    return 0, -1, 1, -(2 ** BITS[kind]), 2 ** BITS[kind] - 1


def variants(message: StructT, version: int, path: str = "") -> Iterator[tuple[str, StructT]]:
    """The message with one integer changed, and which; of a list its first item."""
    for spec in fields_of(type(message)):
        value, name = getattr(message, spec.name), f"{path}{spec.name}"
        changed: list[tuple[str, Any]] = []
        if version not in spec.versions:
            continue
        if spec.primitive in BITS:
            changed = [(f"{name}={extreme}", extreme) for extreme in extremes(spec.primitive)]
        elif spec.struct is not None and value:
            changed = list(variants(value[0] if spec.is_array else value, version, f"{name}."))
        for what, one in changed:
            whole = (one, *(value or ())[1:]) if spec.is_array else one
            yield what, dataclasses.replace(message, **{spec.name: whole})  # type: ignore[type-var]  # every struct is


@pytest.fixture
def frames() -> Iterator[FrameTarget]:
    logging.disable(logging.CRITICAL)  # what is repaired is logged
    target = FrameTarget()
    yield target
    target.close()
    logging.disable(logging.NOTSET)


def send(frames: FrameTarget, api: Api, version: int, request: Request[Any], what: str) -> None:
    """Raises if the broker does, or if its response cannot be encoded in the version."""
    try:
        frames(bytes([api.request.api_key, version - api.served.first]) + to_bytes(encode(request, version)))
    except Exception as error:
        error.add_note(f"{api.request.api_name} v{version}, {what}")
        raise


def outlive(broker: BrokerDriver) -> None:
    """Let all timers fire, and start again on what was written."""
    failed: list[dict[str, Any]] = []
    broker._loop.set_exception_handler(lambda _, context: failed.append(context))
    broker.advance(FOUR_YEARS_MS)
    broker.settle()
    broker.restart()
    broker.run(broker.broker.groups.make_ready())
    broker.run(broker.broker.transactions.make_ready())
    broker.settle()
    assert failed == []


@each_api
def test_every_integer_may_be_extreme(frames: FrameTarget, api: Api) -> None:
    for version in range(api.served.first, api.served.last + 1):
        asking = Asking(version, topic_id(frames.broker), "t2")
        for what, request in variants(GOOD_REQUESTS[api.request.api_key](asking), version):
            send(frames, api, version, request, what)
    outlive(frames.broker)


def topic_id(broker: BrokerDriver) -> UUID:
    topic = broker.broker.image.topic("t")
    assert topic is not None
    return topic.topic_id


def producer(broker: BrokerDriver, number: int) -> dict[str, object]:
    """What names a producer whose transaction has partition 0."""
    transactional_id = f"tx-{number}"
    given = broker.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 4)
    names = {
        "transactional_id": transactional_id,
        "producer_id": given.producer_id,
        "producer_epoch": given.producer_epoch,
    }
    of_old = {f"v3_and_below_{name}": value for name, value in names.items()}
    added = broker.ask(add_partitions_to_txn("t", version=3, **names), 3)
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    return names | of_old


def member_of_old(broker: BrokerDriver, number: int) -> dict[str, object]:
    """What names the member of a classic group."""
    group_id = f"classic-{number}"
    joined = broker.ask(join_request(group_id), 3)
    assert joined.error_code == 0
    return {
        "group_id": group_id,
        "member_id": joined.member_id,
        "generation_id": joined.generation_id,
        "generation_id_or_member_epoch": joined.generation_id,
    }


def member(broker: BrokerDriver, number: int) -> dict[str, object]:
    """What names the member of a group of KIP-848."""
    group_id = f"consumers-of-{number}"
    joined = broker.ask(first_heartbeat("me", group_id), 1)
    assert joined.error_code == 0
    return {
        "group_id": group_id,
        "member_id": "me",
        "member_epoch": joined.member_epoch,
        "generation_id": joined.member_epoch,
        "generation_id_or_member_epoch": joined.member_epoch,
    }


def sent_by(message: StructT, names: dict[str, object], version: int) -> StructT:
    """The message with the fields that ``names`` has."""
    changed: dict[str, Any] = {}
    for spec in fields_of(type(message)):
        if version not in spec.versions:
            continue
        value = getattr(message, spec.name)
        if spec.name in names:
            changed[spec.name] = names[spec.name]
        elif spec.struct is not None and spec.is_array and value:
            changed[spec.name] = tuple(sent_by(each, names, version) for each in value)
    return dataclasses.replace(message, **changed)  # type: ignore[type-var]  # every struct is


TRANSACTIONS: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
GROUPS: Final = ("OffsetCommit", "OffsetFetch", "TxnOffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")


@pytest.mark.parametrize(
    ("sender", "name"),
    [
        *((producer, name) for name in TRANSACTIONS),
        *((member_of_old, name) for name in GROUPS),
        *((member, name) for name in (*GROUPS, "ConsumerGroupHeartbeat")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_integer_may_be_extreme_where_the_sender_is_known(
    frames: FrameTarget, sender: Callable[[BrokerDriver, int], dict[str, object]], name: str
) -> None:
    (api,) = (api for api in APIS if api.request.api_name == name)
    numbers = itertools.count(1)
    for version in range(api.served.first, api.served.last + 1):
        good = GOOD_REQUESTS[api.request.api_key](Asking(version, topic_id(frames.broker), "t2"))
        for what, _ in variants(good, version):
            names = sender(frames.broker, next(numbers))
            request = dict(variants(sent_by(good, names, version), version))[what]
            send(frames, api, version, request, what)
    outlive(frames.broker)
