import dataclasses
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import pytest

from broker_embedded._handlers.support.registry import Api, apis_of
from spark_kafka_native._protocol.codec import encode
from spark_kafka_native._protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from spark_kafka_native._protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from spark_kafka_native._protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from spark_kafka_native._protocol.schema import Message, Request, Struct, fields_of
from tests.support.broker.driver import BrokerDriver, batch, commit_offset, idempotent, to_bytes
from tests.support.broker.members import stable
from tests.support.requests.consumer_group import first_heartbeat
from tests.support.requests.every_api import GOOD_REQUESTS, Asking
from tests.support.requests.of_topic import add_partitions_to_txn, alter_replica_log_dirs, offset_delete, offset_fetch

StructT = TypeVar("StructT", bound=Struct)

TIMES: Final = 500
FACTOR: Final = 40
"""Bytes of the response for each byte of the request, beside what the resource itself takes."""
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0, "group.consumer.assignment.interval.ms": 0}
PRODUCERS, PARTITIONS, METADATA = 100, 300, "m" * 4000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerDriver]:
    """A broker whose resources are large where requests describe them."""
    with BrokerDriver(tmp_path_factory.mktemp("broker") / "data", SETTINGS) as driver:
        driver.create("t", 1, segment_bytes="1000")
        driver.create("wide", PARTITIONS)
        for producer_id in range(PRODUCERS):
            driver.produce("t", idempotent(batch(b"v" * 100), producer_id=1000 + producer_id, sequence=0))
        stable(driver)
        assert commit_offset(driver, 1, group_id="positions", metadata=METADATA) == 0
        open_transaction(driver)
        join_consumer_group(driver)
        yield driver


def open_transaction(broker: BrokerDriver) -> None:
    given = broker.ask(InitProducerIdRequest(transactional_id="busy", transaction_timeout_ms=60_000), 4)
    producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch, "transactional_id": "busy"}
    request = add_partitions_to_txn("wide", *range(PARTITIONS), version=3, **producer)
    results = broker.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition
    assert {result.partition_error_code for result in results} == {0}


def join_consumer_group(broker: BrokerDriver) -> None:
    request = first_heartbeat("member", "consumers-0", subscribed_topic_names=("wide",))
    assert broker.ask(request, 1).error_code == 0


def repeated(message: StructT, version: int, path: str = "") -> Iterator[tuple[str, StructT]]:
    """The message with the first item of one of its lists repeated, and which list; lists in lists, too."""
    for spec in fields_of(type(message)):
        value, name = getattr(message, spec.name), f"{path}{spec.name}"
        if version not in spec.versions or not value:
            continue
        if spec.is_array:
            yield name, dataclasses.replace(message, **{spec.name: value[:1] * TIMES})  # type: ignore[type-var]
        if spec.struct is not None:
            for what, one in repeated(value[0] if spec.is_array else value, version, f"{name}."):
                whole = (one, *value[1:]) if spec.is_array else one
                yield what, dataclasses.replace(message, **{spec.name: whole})  # type: ignore[type-var]


def size(message: Message, version: int) -> int:
    return len(to_bytes(encode(message, version)))


def check_size(broker: BrokerDriver, request: Request[Any], version: int, what: str, once_size: int) -> None:
    found = size(broker.ask(request, version), version)
    limit = once_size + FACTOR * size(request, version)
    assert found <= limit, f"{type(request).api_name} v{version}: {what} {TIMES} times: {found} > {limit} bytes"


_JOIN_GROUP: Final = 11
"""Waits for other members; its list is what the member itself supports."""
APIS: Final = [api for key, api in apis_of("4.3").items() if key != _JOIN_GROUP]


@pytest.mark.parametrize("api", APIS, ids=[api.request.api_name for api in APIS])
def test_a_repeated_entry_adds_little_to_the_response(broker: BrokerDriver, api: Api) -> None:
    topic = broker.broker.image.topic("t")
    assert topic is not None
    for version in {api.served.first, api.served.last}:
        request = GOOD_REQUESTS[api.request.api_key](Asking(version, topic.topic_id, "t2"))
        once_size = size(broker.ask(request, version), version)
        for what, many in repeated(request, version):
            check_size(broker, many, version, what, once_size)


def long_name(times: int) -> tuple[str, tuple[int, ...]]:
    return "n" * 5_000, tuple(range(times))


LARGE: Final[list[tuple[Request[Any], int]]] = [
    (DescribeTransactionsRequest(transactional_ids=("busy",)), 0),
    (DescribeConfigsRequest(resources=(DescribeConfigsResource(resource_type=4, resource_name="1"),)), 4),
    (OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="positions", topics=None),)), 9),
    (offset_fetch("t", version=9, group_id="positions"), 9),
    (DescribeUserScramCredentialsRequest(users=(UserName(name="u"),)), 0),
    (offset_delete("t", group_id="positions", partitions=(9,)), 0),
    (alter_replica_log_dirs("/", "t"), 2),
]
"""What good requests do not ask for: resources whose descriptions are large, lists that are empty there."""


@pytest.mark.parametrize(("request_", "version"), LARGE, ids=[type(one).api_name for one, _ in LARGE])
def test_a_repeated_large_resource_is_answered_once(broker: BrokerDriver, request_: Request[Any], version: int) -> None:
    once_size = size(broker.ask(request_, version), version)
    for what, many in repeated(request_, version):
        check_size(broker, many, version, what, once_size)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (ElectLeadersRequest(topic_partitions=(TopicPartitions(topic="n" * 5000, partitions=tuple(range(TIMES))),)), 2),
        (
            AlterPartitionReassignmentsRequest(
                topics=(
                    ReassignableTopic(
                        name="n" * 5000,
                        partitions=tuple(
                            ReassignablePartition(partition_index=index, replicas=(1,)) for index in range(TIMES)
                        ),
                    ),
                )
            ),
            0,
        ),
    ],
    ids=lambda value: value.api_name if isinstance(value, Request) else "",
)
def test_a_long_topic_name_is_not_repeated_for_each_partition(
    broker: BrokerDriver, request_: Request[Any], version: int
) -> None:
    check_size(broker, request_, version, "partitions", 0)
