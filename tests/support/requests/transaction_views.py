"""What a consumer sees of transactions, and an administrator, in raw requests: the same to every broker."""

from collections.abc import Iterator
from typing import NamedTuple

from dirty_equals import HasLen

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages import describe_producers as producers_of
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from spark_kafka_native._protocol.messages.fetch import PartitionData
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsPartitionResponse
from spark_kafka_native._records.batch import iter_batches
from spark_kafka_native._records.control import ControlType, decode_control
from tests.support.broker.driver import fetch_request
from tests.support.records.log_batches import rows
from tests.support.requests.of_topic import list_offsets
from tests.support.requests.raw_client import RawClient
from tests.support.waiting import eventually

PATIENCE_S = 30.0
_FETCH = 4
"""This and the next are the first versions that know of transactions, so that brokers of 0.11 can be asked too."""
_LIST_OFFSETS = 2


class View(NamedTuple):
    """What one Fetch brings."""

    values: list[str]
    """Of records that the isolation level shows."""
    stable: int
    """The last stable offset."""
    end: int
    aborted: list[tuple[int, int]] | None
    """Producer ids and first offsets; None at ``read_uncommitted``."""
    next_offset: int


def view(client: RawClient, topic: str, partition: int = 0, *, committed: bool = True, offset: int = 0) -> View:
    """Fetch from an offset on, and read as consumers do: records of aborted transactions are passed over."""
    request = fetch_request(topic, offset, partition, isolation_level=int(committed), max_bytes=1 << 24)
    response = client.ask(request, _FETCH)
    data = response.responses[0].partitions[0]
    assert data.error_code == ErrorCode.NONE, ErrorCode.of(data.error_code).name
    aborted = data.aborted_transactions
    found = None if aborted is None else sorted((one.producer_id, one.first_offset) for one in aborted)
    raw = bytes(data.records or b"")  # type: ignore[arg-type]  # as a client gets them
    next_offset = max([offset, *(header.base_offset + header.last_offset_delta + 1 for _, header in iter_batches(raw))])
    return View(
        values=[value.decode() for value in shown(data)],
        stable=data.last_stable_offset,
        end=data.high_watermark,
        aborted=found,
        next_offset=next_offset,
    )


def values(client: RawClient, topic: str, partition: int = 0, *, committed: bool = True) -> list[str]:
    """All values that the isolation level shows at the moment."""
    found: list[str] = []
    offset = 0
    while True:
        seen = view(client, topic, partition, committed=committed, offset=offset)
        found += seen.values
        if seen.next_offset == offset:
            return found
        offset = seen.next_offset


def shows(client: RawClient, topic: str, *expected: str, partition: int = 0) -> None:
    """Wait until nothing is open, and assert what is visible: coordinators answer before all markers are written."""
    settle(client, topic, partition)
    assert values(client, topic, partition) == list(expected)


def settle(client: RawClient, topic: str, partition: int = 0) -> None:
    """Wait until nothing is open in a partition."""
    eventually(
        lambda: {end_offset(client, topic, partition, committed=committed) for committed in (True, False)},
        HasLen(1),
        within_s=PATIENCE_S,
    )


def is_served(client: RawClient, topic: str, partition: int = 0) -> bool:
    """Whether a partition can be used: its leader may hear of it later than others."""
    return _listed(client, topic, partition, committed=False).error_code == ErrorCode.NONE


def end_offset(client: RawClient, topic: str, partition: int = 0, *, committed: bool = True) -> int:
    """Where a partition ends for an isolation level, as ListOffsets says."""
    found = _listed(client, topic, partition, committed=committed)
    assert found.error_code == ErrorCode.NONE, ErrorCode.of(found.error_code).name
    return found.offset


def described(client: RawClient, transactional_id: str) -> TransactionState:
    """What DescribeTransactions says of an id."""
    (state,) = client.ask(DescribeTransactionsRequest(transactional_ids=(transactional_id,)), 0).transaction_states
    return state


def reaches(client: RawClient, transactional_id: str, state: str) -> TransactionState:
    """Wait until an id is in a state."""
    eventually(lambda: described(client, transactional_id).transaction_state, state, within_s=PATIENCE_S)
    return described(client, transactional_id)


def producers(client: RawClient, topic: str, partition: int = 0) -> dict[int, producers_of.ProducerState]:
    """What DescribeProducers says of a partition, by producer id."""
    wanted = producers_of.TopicRequest(name=topic, partition_indexes=(partition,))
    response = client.ask(producers_of.DescribeProducersRequest(topics=(wanted,)), 0).topics[0].partitions[0]
    assert response.error_code == ErrorCode.NONE, ErrorCode.of(response.error_code).name
    return {state.producer_id: state for state in response.active_producers}


def _listed(client: RawClient, topic: str, partition: int, *, committed: bool) -> ListOffsetsPartitionResponse:
    request = list_offsets(topic, -1, partition, isolation_level=int(committed))
    return client.ask(request, _LIST_OFFSETS).topics[0].partitions[0]


def shown(data: PartitionData) -> Iterator[bytes]:
    """The values in fetched batches, without those of the transactions that the response calls aborted."""
    raw = bytes(data.records or b"")  # type: ignore[arg-type]  # as a client gets them
    waiting = sorted(
        ((one.first_offset, one.producer_id) for one in data.aborted_transactions or ()), key=lambda one: one[0]
    )
    open_aborted: set[int] = set()
    for position, header in iter_batches(raw):
        while waiting and waiting[0][0] <= header.base_offset + header.last_offset_delta:
            open_aborted.add(waiting.pop(0)[1])
        if header.is_control:
            marker = decode_control(raw, position, header)
            if marker is not None and marker.type is ControlType.ABORT:
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            yield from (row.value for row in rows(raw[position : position + header.size_in_bytes]))
