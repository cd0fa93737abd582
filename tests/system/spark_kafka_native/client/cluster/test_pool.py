import dataclasses
import logging
import re
import socket
import tracemalloc
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster.pool import ConnectionPool
from spark_kafka_native._net import frame_socket
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers
from tests.support.waiting import eventually

SOON = 60_000


brokers = scripted_brokers()


@pytest.fixture
def pool(brokers: ScriptedCluster) -> Iterator[ConnectionPool]:
    made = ConnectionPool(brokers.config())
    yield made
    made.close()


@pytest.mark.feature("run.connections")
def test_a_returned_connection_is_used_again(brokers: ScriptedCluster, pool: ConnectionPool) -> None:
    first = pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON))
    pool.give_back(first)
    second = pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON))
    assert second is first
    second.close()


def test_two_borrowers_get_two_connections(brokers: ScriptedCluster, pool: ConnectionPool) -> None:
    with (
        pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON)) as first,
        pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON)) as second,
    ):
        assert first is not second
        first.send(MetadataRequest(), deadline=Deadline.after_ms(SOON))
        assert second.call(MetadataRequest()).cluster_id == "scripted"


@pytest.mark.feature("run.retry")
def test_a_connection_with_a_response_outstanding_is_closed(brokers: ScriptedCluster, pool: ConnectionPool) -> None:
    connection = pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON))
    connection.send(MetadataRequest(), deadline=Deadline.after_ms(SOON))
    pool.give_back(connection)
    assert connection.closed


@pytest.mark.feature("run.retry")
def test_a_connection_that_the_broker_closed_while_it_was_idle_is_replaced(
    brokers: ScriptedCluster, pool: ConnectionPool
) -> None:
    first = pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON))
    pool.give_back(first)
    brokers.brokers[1].drop_connections()
    eventually(first.is_stale, True)
    with pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON)) as second:
        assert second is not first
        assert first.closed
        assert second.call(MetadataRequest()).cluster_id == "scripted"


@pytest.mark.parametrize(("max_idle_ms", "kept"), [(-1, True), (60_000, True), (500, False)])
def test_connections_idle_for_too_long_are_replaced(brokers: ScriptedCluster, max_idle_ms: int, kept: bool) -> None:
    pool = ConnectionPool(dataclasses.replace(brokers.config(), connections_max_idle_ms=max_idle_ms))
    first = pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON))
    pool.give_back(first)
    first.idle_since -= 1
    with pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON)) as second:
        assert (second is first) == kept
    pool.close()


def test_connections_idle_for_too_long_are_closed_when_another_broker_is_used() -> None:
    with ScriptedCluster(brokers=3) as brokers:
        one, two, three = (brokers.brokers[node].address for node in (1, 2, 3))
        pool = ConnectionPool(dataclasses.replace(brokers.config(), connections_max_idle_ms=60_000))
        old = [pool.borrow(where, Deadline.after_ms(SOON)) for where in (one, one, two)]
        recent = pool.borrow(two, Deadline.after_ms(SOON))
        for connection in (*old, recent):
            pool.give_back(connection)
        for connection in old:
            connection.idle_since -= 61
        brokers.brokers[1].drop_connections()  # what brokers closed meanwhile is no error
        used = pool.borrow(three, Deadline.after_ms(SOON))
        assert [connection.closed for connection in old] == [True, True, True]
        assert not recent.closed
        recent.idle_since -= 61
        pool.give_back(used)
        assert recent.closed
        pool.close()


def test_idle_connections_share_the_memory_of_one_large_response() -> None:
    with ScriptedCluster(topics={f"{number:05}-{'x' * 240}": 1 for number in range(1_000)}) as brokers:
        pool = ConnectionPool(brokers.config())
        frame_socket._released.clear()  # or one connection takes what a test before left, which is not traced
        tracemalloc.start()
        try:
            lent = [pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON)) for _ in range(4)]
            for connection in lent:
                assert len(connection.call(MetadataRequest(topics=None)).topics) == 1_000
            while_lent = _frame_bytes()
            for connection in lent:
                pool.give_back(connection)
            assert not any(connection.closed for connection in lent)
            while_idle = _frame_bytes()
        finally:
            tracemalloc.stop()
            pool.close()
    assert while_lent > 1_000_000
    assert while_idle < while_lent / 3


def _frame_bytes() -> int:
    """The memory that readers of frames have allocated and still hold."""
    only = tracemalloc.Filter(inclusive=True, filename_pattern=frame_socket.__file__)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([only]).traces)


def test_close_closes_the_idle_ones(brokers: ScriptedCluster, pool: ConnectionPool) -> None:
    connection = pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON))
    pool.give_back(connection)
    pool.close()
    assert connection.closed
    pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON)).close()


def test_after_close_that_is_final_a_lent_connection_is_closed_when_it_comes_back(
    brokers: ScriptedCluster, pool: ConnectionPool
) -> None:
    lent = pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON))
    pool.close(final=True)
    assert not lent.closed
    pool.give_back(lent)
    assert lent.closed


def test_failures_are_counted_until_one_try_succeeds() -> None:
    with ScriptedCluster(brokers=2) as brokers:
        pool = ConnectionPool(brokers.config())
        first, second = addresses = [brokers.brokers[node].address for node in (1, 2)]
        for broker in brokers.brokers.values():
            broker.stop()
        for address, order in (first, [second, first]), (second, addresses), (second, [first, second]):
            with pytest.raises(BrokerUnreachable):
                pool.borrow(address, Deadline.after_ms(SOON))
            assert sorted(addresses, key=pool.rank) == order
        brokers.brokers[2].start()
        pool.borrow(second, Deadline.after_ms(SOON)).close()
        assert sorted(addresses, key=pool.rank) == [second, first]


def test_the_log_has_ever_fewer_failures_of_an_outage_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedCluster() as brokers, caplog.at_level(logging.INFO, "spark_kafka_native"):
        pool, address = ConnectionPool(brokers.config()), brokers.brokers[1].address
        brokers.brokers[1].stop()
        for _ in range(9):
            with pytest.raises(BrokerUnreachable):
                pool.borrow(address, Deadline.after_ms(SOON))
        brokers.brokers[1].start()
        for _ in range(2):
            pool.borrow(address, Deadline.after_ms(SOON)).close()
    lines = [re.sub(r"for \S+ s", "for N s", text) for text in caplog.messages]
    refused = f"{address}: connection refused; trying again for N s"
    counted = [f"{refused}; {number} failures in a row" for number in (2, 4, 8)]
    assert lines == [refused, *counted, f"{address}: connected; failures before: 9"]


def test_a_server_that_is_slow_to_accept_gets_more_time_at_each_try() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ScriptedCluster() as brokers:
        config = brokers.config(socket_connection_setup_timeout_ms=20, socket_connection_setup_timeout_max_ms=50)
        pool = ConnectionPool(config)
        waited = []
        for _ in range(4):
            with pytest.raises(BrokerUnreachable, match=r"within \d+ ms") as caught:
                pool.borrow(HostPort("127.0.0.1", silent.getsockname()[1]), Deadline.after_ms(SOON))
            waited.append(str(caught.value).split("within ")[1].split(" ms")[0])
    assert waited == ["20", "40", "50", "50"]


def test_after_a_fork_the_child_starts_with_none(brokers: ScriptedCluster, pool: ConnectionPool) -> None:
    connection = pool.borrow(brokers.brokers[1].address, Deadline.after_ms(SOON))
    pool.give_back(connection)
    pool.reset_after_fork()
    assert connection.closed
