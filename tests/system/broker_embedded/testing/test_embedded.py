import json
import threading
import urllib.request
from pathlib import Path

import pytest
from dirty_equals import IsTrueLike

from broker_embedded._broker import DataDirectoryError
from broker_embedded.testing import EmbeddedBroker, ErrorCode, ManualClock
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.broker.driver import batch, fetch_request, idempotent, produce_request, values_in
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually


def produce(broker: EmbeddedBroker, value: bytes) -> int:
    with RawClient(broker.bootstrap_servers) as client:
        return client.ask(produce_request("t", batch(value)), 9).responses[0].partition_responses[0].error_code


def values(broker: EmbeddedBroker) -> list[bytes]:
    with RawClient(broker.bootstrap_servers) as client:
        return values_in(client.ask(fetch_request("t"), 11).responses[0].partitions[0])


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with EmbeddedBroker(tmp_path / "data", topics={"t": 1}) as broker:
        address = broker.bootstrap_servers
        with RawClient(address) as client:
            producer_id = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
            for sequence in range(3):
                records = idempotent(batch(b"%d" % sequence), producer_id=producer_id, sequence=sequence)
                client.ask(produce_request("t", records), 9)
            broker.kill()
            assert client.is_closed()
        with pytest.raises(ConnectionRefusedError):
            RawClient(address)
        with pytest.raises(RuntimeError, match="does not run"):
            broker.kill()
        assert not (broker.log_directory / ".kafka_cleanshutdown").exists()
        broker.start()
        assert broker.bootstrap_servers == address
        assert values(broker) == [b"0", b"1", b"2"]
    assert set(threading.enumerate()) <= before


def test_a_kill_does_not_answer_waiting_requests(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data", topics={"t": 1}) as broker, RawClient(broker.bootstrap_servers) as client:
        client.send(request_bytes(fetch_request("t", max_wait_ms=60_000, min_bytes=1), 11))
        eventually(lambda: broker.requests("Fetch"), IsTrueLike)
        broker.kill()
        assert client.is_closed()


def test_another_broker_may_take_over_what_a_killed_one_has_left(tmp_path: Path) -> None:
    killed = EmbeddedBroker(tmp_path / "data", topics={"t": 1})
    killed.start()
    produce(killed, b"x")
    with pytest.raises(DataDirectoryError, match="in use by another broker"):
        EmbeddedBroker(tmp_path / "data").start()
    killed.kill()
    with EmbeddedBroker(tmp_path / "data") as broker:
        assert values(broker) == [b"x"]
        broker.faults.fail("Fetch", ErrorCode.NONE)
    killed.stop()


def test_faults_and_recordings_outlive_kills_and_may_come_before_the_start(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "data", topics={"t": 1})
    fault = broker.faults.fail("Produce", ErrorCode.REQUEST_TIMED_OUT, times=2)
    with broker:
        assert produce(broker, b"x") == ErrorCode.REQUEST_TIMED_OUT
        broker.kill()
        assert (fault.hits, len(broker.requests("Produce"))) == (1, 1)
        broker.start()
        assert produce(broker, b"x") == ErrorCode.REQUEST_TIMED_OUT
    assert fault.is_spent
    with broker:
        assert produce(broker, b"x") == 0
        assert [request.faults for request in broker.requests("Produce")] == [(fault.id,), (fault.id,), ()]


def test_the_machines_clock_can_be_moved_ahead(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "data", topics={"t": 1})
    before = broker.now_ms()
    assert broker.advance(days=365) >= before + 365 * 86_400_000
    with broker:
        now_ms = broker.advance(hours=1, minutes=1, seconds=1, ms=1)
        assert now_ms >= before + 365 * 86_400_000 + 3_661_001
        broker.restart()
        assert broker.now_ms() >= now_ms
        with pytest.raises(ValueError, match="advance: the duration of -1 ms is negative"):
            broker.advance(-1)


def test_a_manual_clock_stands_until_it_is_moved(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with EmbeddedBroker(tmp_path / "data", topics={"t": 1}, clock=clock) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.send(request_bytes(fetch_request("t", max_wait_ms=5, min_bytes=1), 11))
            client.sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                client.frame()
            client.sock.settimeout(20)
            assert broker.advance(5) == 1_000_005
            assert client.frame()
        assert (broker.now_ms(), clock.now_ms()) == (1_000_005, 1_000_005)


def test_requests_need_not_be_kept(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data", topics={"t": 1}, recorded_requests=0) as broker:
        produce(broker, b"x")
        assert broker.requests() == []
        assert broker.request_counts() == {"Produce": 1}


def test_the_control_port_stays_while_the_broker_is_down(tmp_path: Path) -> None:
    def post(url: str) -> dict[str, object]:
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60) as response:
            body: dict[str, object] = json.loads(response.read())
            return body

    with EmbeddedBroker(tmp_path / "data", topics={"t": 1}, control=True) as broker:
        url = broker.control_url
        assert post(f"{url}/kill")["running"] is False
        assert broker.control_url == url
        assert post(f"{url}/start")["running"] is True
        assert produce(broker, b"x") == 0
        broker.kill()
        broker.start()
        assert broker.control_url == url
        broker.stop()
        with pytest.raises(RuntimeError, match="no control port"):
            _ = broker.control_url
    with pytest.raises(RuntimeError, match="control=True"):
        _ = EmbeddedBroker(tmp_path / "other").control_url


def test_a_broker_whose_logs_are_all_offline_stops_and_can_be_started_again(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, topics={"t": 1}) as broker:
        assert produce(broker, b"kept") == 0
        for log in broker._server.broker.logs.logs.values():
            log.local.offline = "the disk failed"
        broker.advance(ms=2000)
        eventually(lambda: broker._broker.is_running, False)
        with pytest.raises(RuntimeError, match="does not run"):
            broker.topics()
        broker.start()
        assert values(broker) == [b"kept"]
