import os
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess, BrokerStartError, ErrorCode, KafkaError, ManualClock
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from tests.support.requests.raw_client import RawClient, request_bytes


def test_the_process_id_and_the_output(tmp_path: Path) -> None:
    settings = {"metrics.listener": "127.0.0.1:0"}  # of which it also says something
    with BrokerProcess(tmp_path / "data", topics={"t": 1}, settings=settings) as process:
        os.kill(process.pid, 0)
        assert "created topic t with 1 partition\n" in process.output
        with pytest.raises(RuntimeError, match="control=True"):
            process.faults.drop("*")
        process.kill()
        with pytest.raises(RuntimeError, match="does not run"):
            _ = process.pid
        with pytest.raises(RuntimeError, match="does not run"):
            process.kill()


@pytest.mark.parametrize("release", ["0.10.1", "2.7"])
def test_topics_are_made_and_deleted_as_a_release_knows_it(tmp_path: Path, release: str) -> None:
    with BrokerProcess(tmp_path, topics={"first": 2}, settings={"as.version": release}) as process:
        process.create_topic("second", 1, {"retention.ms": "60000"})
        assert process.topics() == {"first": 2, "second": 1}
        process.delete_topic("first")
        assert process.topics() == {"second": 1}
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            process.delete_topic("first")


def test_create_topic_is_refused_for_a_release_without_create_topics(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, settings={"as.version": "0.9"}) as process:
        assert process.topics() == {}
        with pytest.raises(KafkaError, match=r"Kafka 0\.9 has no CreateTopics"):
            process.create_topic("t")


def test_a_restart_keeps_the_clock_and_drops_the_faults(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", control=True, clock=ManualClock(1_000_000)) as process:
        address, url = process.bootstrap_servers, process.control_url
        process.faults.fail("Produce", ErrorCode.REQUEST_TIMED_OUT)
        assert process.advance(500) == 1_000_500
        process.kill()
        process.start()
        assert (process.bootstrap_servers, process.control_url) == (address, url)
        assert process.now_ms() == 1_000_500
        assert list(process.faults) == []


def test_a_clock_that_could_not_be_moved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without control=True"):
        BrokerProcess(tmp_path / "data", clock=ManualClock())


def test_a_control_port_that_is_taken_stops_the_start(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", control=True) as process:
        taken = process.control_url.removeprefix("http://")
        with pytest.raises(BrokerStartError, match=r"ended with status 1: .*[Aa]ddress already in use"):
            BrokerProcess(tmp_path / "other", control=taken).start()


def test_many_requests_are_listed_in_pages(tmp_path: Path) -> None:
    settings = {"metrics.listener": "127.0.0.1:0"}
    with BrokerProcess(tmp_path / "data", control=True, settings=settings) as process:
        request = request_bytes(ApiVersionsRequest(), 0)
        with RawClient(process.bootstrap_servers) as client:
            for _ in range(25):
                client.send(request * 100)
                for _ in range(100):
                    client.frame()
        assert [each.number for each in process.requests("ApiVersions")] == list(range(1, 2501))
        assert [each.number for each in process.requests(after=2498)] == [2499, 2500]
