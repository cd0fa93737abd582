import contextlib
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import Contains

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_correlation_id, decode_response
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.broker.driver import batch, fetch_request, produce_request
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually

PRODUCE, FETCH = 8, 11
FEW = 128
OTHERS = FEW // 8
CONNECTIONS = FEW - FEW // 2 - OTHERS
PARTITIONS = 150


class BrokerWithFewDescriptors(BrokerProcess):
    """A process that may have ``FEW`` descriptors, and cannot raise that limit."""

    def _command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {FEW}; exec "$@"', "sh", *super()._command()]


@contextlib.contextmanager
def idle_connections(broker: BrokerProcess, count: int) -> Iterator[list[RawClient]]:
    """Connections that were accepted, or wait in the backlog; none of them sends anything by itself."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RawClient(broker.bootstrap_servers)) for _ in range(count)]


def produce(client: RawClient, partition: int, value: bytes) -> int:
    """The error code of a Produce to one partition of topic t."""
    (topic,) = client.ask(produce_request("t", batch(value), partition), PRODUCE).responses
    return topic.partition_responses[0].error_code


def records_in(client: RawClient, partition: int) -> int:
    (topic,) = client.ask(fetch_request("t", partition=partition), FETCH).responses
    return topic.partitions[0].high_watermark


def went_offline(broker: BrokerProcess) -> bool:
    return "goes offline" in broker.output


def test_idle_connections_leave_log_files_their_descriptors(tmp_path: Path) -> None:
    with (
        BrokerWithFewDescriptors(tmp_path, topics={"t": PARTITIONS}) as broker,
        RawClient(broker.bootstrap_servers) as client,
        idle_connections(broker, CONNECTIONS + 20) as others,
    ):
        eventually(lambda: broker.output, Contains("their share of the open files that the system allows"))
        assert [produce(client, partition, b"one") for partition in range(PARTITIONS)] == [0] * PARTITIONS
        assert [records_in(client, partition) for partition in range(PARTITIONS)] == [1] * PARTITIONS
        late = others[-1]
        late.send(request_bytes(ApiVersionsRequest(), 0))
        for other in others[:40]:
            other.sock.close()
        assert decode_correlation_id(late.frame()) == 1
        assert not went_offline(broker)


def test_a_fetch_that_waits_for_many_partitions_holds_no_descriptor(tmp_path: Path) -> None:
    with (
        BrokerWithFewDescriptors(tmp_path, topics={"t": PARTITIONS}) as broker,
        RawClient(broker.bootstrap_servers) as producer,
        contextlib.ExitStack() as stack,
    ):
        consumers = [stack.enter_context(RawClient(broker.bootstrap_servers)) for _ in range(5)]
        assert all(produce(producer, partition, b"one") == 0 for partition in range(PARTITIONS))
        partitions = tuple(FetchPartition(partition=i, partition_max_bytes=1 << 20) for i in range(PARTITIONS))
        waiting = FetchRequest(
            topics=(FetchTopic(topic="t", partitions=partitions),),
            max_wait_ms=600_000,
            min_bytes=PARTITIONS * (len(batch(b"one")) + len(batch(b"two"))),
            max_bytes=1 << 26,
        )
        for consumer in consumers:
            consumer.send(request_bytes(waiting, FETCH))
        assert [produce(producer, partition, b"two") for partition in range(PARTITIONS)] == [0] * PARTITIONS
        for consumer in consumers:
            _, response = decode_response(FetchResponse, FETCH, consumer.frame())
            found = response.responses[0].partitions
            assert [part.error_code for part in found] == [ErrorCode.NONE] * PARTITIONS
            assert [part.high_watermark for part in found] == [2] * PARTITIONS


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux, to take descriptors from a process")
def test_a_moment_without_descriptors_takes_no_log_offline(tmp_path: Path) -> None:
    settings = {"log.flush.interval.ms": 10, "log.flush.scheduler.interval.ms": 10, "log.segment.bytes": 200}
    acknowledged = [0] * 8
    with (
        BrokerProcess(tmp_path, topics={"t": 8}, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):

        def produce_to_all() -> set[int]:
            codes = [produce(client, partition, b"value") for partition in range(8)]
            for partition, code in enumerate(codes):
                acknowledged[partition] += code == ErrorCode.NONE
            return set(codes)

        assert produce_to_all() == {ErrorCode.NONE}
        limits = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        seen: set[int] = set()
        for limit in (1, 8, 16, 24):
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit, limits[1]))
            for _ in range(10):
                seen |= produce_to_all()
        assert seen == {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limits)
        assert produce_to_all() == {ErrorCode.NONE}
        assert not went_offline(broker)
        assert [records_in(client, partition) for partition in range(8)] == acknowledged
        broker.kill()
        broker.start()
        with RawClient(broker.bootstrap_servers) as again:
            assert [records_in(again, partition) for partition in range(8)] == acknowledged


def test_a_broker_whose_logs_are_all_offline_ends(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"log.flush.interval.ms": 10, "log.flush.scheduler.interval.ms": 10}
    with (
        BrokerProcess(tmp_path, topics={"t": 2}, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        for partition in range(2):
            shutil.rmtree(tmp_path / f"t-{partition}")
            produce(client, partition, b"lost")
        assert broker._server.running.wait(60) == 1
        assert f"stopping: all logs in {tmp_path} are offline (2)" in broker.output


MANY_SEGMENTS = """
import resource, sys
from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.opening import open_log
from broker_embedded._platform.platform import Platform
from tests.support.records.log_batches import batch
from tests.support.broker.log_driver import batches_of, offset_for_timestamp

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
log = open_log(sys.argv[1], LogConfig(), Platform())
for _ in range(60):
    log.append(batch(b"v"), leader_epoch=0)
    log.local.roll()
log.close()
for clean in (True, False):
    again = open_log(sys.argv[1], LogConfig(), Platform(), clean_shutdown=clean)
    assert len(again.local.view.bases) == 61
    assert len(list(batches_of(again))) == 60
    assert [offset_for_timestamp(again, 0).offset, again.log_end_offset] == [0, 60]
    again.close()
print("done")
"""


def test_a_log_may_have_more_segments_than_the_process_may_have_open_files(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    command = [sys.executable, "-c", MANY_SEGMENTS, str(directory)]
    response = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[4])
    assert response.stdout == "done\n", response.stderr
