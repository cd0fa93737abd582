"""The simple consumer finds what the tools of Apache Kafka 0.8.2 find with theirs, on brokers of several releases."""

from collections.abc import Iterator

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.clients import FetchRequest, SimpleConsumer
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import apache_kafka_unavailable
from tests.support.servers.brokers import Server
from tests.support.servers.kafka_on_zookeeper import RELEASES, KafkaOnZooKeeper, run_class

pytestmark = pytest.mark.interop

TOOLS = "0.8.2.2"
SEGMENT_BYTES = 2000
VALUES = [f"{number} {'x' * 300}" for number in range(40)]


@pytest.fixture(params=["bundled", "apache"])
def broker(request: pytest.FixtureRequest, release: str, zookeeper_connect: str) -> Iterator[Server]:
    """The bundled broker as of a release, and Apache Kafka of that release, with records in several segments."""
    for each in (release, TOOLS):
        skip_if(apache_kafka_unavailable(each))
    running: EmbeddedBroker | KafkaOnZooKeeper
    if request.param == "bundled":
        running = EmbeddedBroker(settings={"as.version": release, "zookeeper.connect": zookeeper_connect})
    else:
        running = KafkaOnZooKeeper(connect=zookeeper_connect, release=release)
    with running as started:
        started.create_topic("t", 2, configs={"segment.bytes": str(SEGMENT_BYTES)})
        for first in range(0, len(VALUES), 4):
            arguments = ("--broker-list", started.bootstrap_servers, "--topic", "t", "--sync")
            given = "".join(f"{value}\n" for value in VALUES[first : first + 4])
            run_class(TOOLS, "kafka.tools.ConsoleProducer", *arguments, given=given)
        yield started


@pytest.mark.parametrize("release", [release for release in RELEASES if release != TOOLS])
def test_offsets_and_records_are_those_of_the_old_tools(broker: Server) -> None:
    with SimpleConsumer({"bootstrap.servers": broker.bootstrap_servers, "fetch.size": "1000"}) as consumer:
        for time in (consumer.LATEST_TIME, consumer.EARLIEST_TIME):
            for most in (1, 3, 100):
                arguments = ("--topic", "t", "--time", str(time), "--offsets", str(most))
                shell = run_class(
                    TOOLS, "kafka.tools.GetOffsetShell", "--broker-list", broker.bootstrap_servers, *arguments
                )
                found = [(part, consumer.offsets_before("t", part, time, most)) for part in (0, 1)]
                lines = [f"t:{part}:{','.join(map(str, offsets))}" for part, offsets in found]
                assert sorted(shell.splitlines()) == lines
        assert sum(len(consumer.offsets_before("t", part, consumer.LATEST_TIME, 100)) for part in (0, 1)) > 6
        values: list[str] = []
        for part in (0, 1):
            end, offset, read = consumer.offsets_before("t", part, consumer.LATEST_TIME)[0], 0, []
            while offset < end:
                result = consumer.fetch(FetchRequest("t", part, offset))
                read += result.records
                offset = result.next_offset
            assert [record.offset for record in read] == list(range(end))
            arguments = ("--topic", "t", "--partition", str(part), "--no-wait-at-logend", "--print-offsets")
            shell = run_class(
                TOOLS, "kafka.tools.SimpleConsumerShell", "--broker-list", broker.bootstrap_servers, *arguments
            )
            printed = [line for line in shell.splitlines() if line.strip()]
            expected = [line for record in read for line in _printed(record.offset, record.value or b"")]
            expected.append(f"Terminating. Reached the end of partition (t, {part}) at offset {end}")
            assert printed[-len(expected) :] == expected
            values += [(record.value or b"").decode() for record in read]
        assert sorted(values) == sorted(VALUES)


def _printed(offset: int, value: bytes) -> list[str]:
    """A record as the shell prints it."""
    return [f"next offset = {offset + 1}", value.decode()]
