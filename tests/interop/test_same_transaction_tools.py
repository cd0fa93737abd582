"""Our ``kafka-transactions`` prints and refuses what Apache Kafka's does, on the same brokers, and ends the same."""

import re
import time
from collections.abc import Iterator

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native.tools import main
from tests.support.programs.kafka_tools import KafkaTools
from tests.support.requests.transaction_views import reaches, settle
from tests.support.requests.transactions import RawProducer
from tests.support.servers.both_brokers import running_broker
from tests.support.servers.brokers import AnyBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SETTINGS = {"transaction.partition.verification.enable": "false"}
"""Lets a producer write in a transaction to partitions that its coordinator does not know of, as before Kafka 3.6."""
HOUR_MS = 3_600_000
TOPIC = "t"
CHANGING = re.compile(r"(\t1\d{12} *\t)\d+ *\t")
"""A time, and how long ago that is."""


@pytest.fixture(scope="module", params=["bundled", "apache"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    with running_broker(request.param, tmp_path_factory.mktemp("data"), SETTINGS) as broker:
        broker.create_topic(TOPIC, 3)
        yield broker


class Commands:
    """The same command to both tools."""

    def __init__(self, broker: AnyBroker, tools: KafkaTools, capfd: pytest.CaptureFixture[str]) -> None:
        self._broker, self._tools, self._capfd = broker, tools, capfd

    def ours(self, *arguments: str) -> tuple[int, list[str], str]:
        """Status, sorted lines, and what is on stderr."""
        self._capfd.readouterr()
        status = main(["kafka-transactions", "--bootstrap-server", self._broker.bootstrap_servers, *arguments])
        printed = self._capfd.readouterr()
        return status, sorted(printed.out.splitlines()), printed.err

    def theirs(self, *arguments: str) -> tuple[int, list[str], str]:
        done = self._tools.run("kafka-transactions", *arguments, server=self._broker.bootstrap_servers)
        return done.status, sorted(done.output.splitlines()), done.errors

    def same(self, *arguments: str) -> list[str]:
        """The lines that both print; both succeed."""
        both = [
            (status, [CHANGING.sub(r"\1", line) for line in lines])
            for status, lines, _ in (self.ours(*arguments), self.theirs(*arguments))
        ]
        assert both[0] == both[1]
        assert both[0][0] == 0
        return both[0][1]

    def refused(self, reason: str, *arguments: str, status: int = 1) -> None:
        """Neither does it, and both say why in the same words."""
        our_status, our_lines, our_errors = self.ours(*arguments)
        their_status, their_lines, their_errors = self.theirs(*arguments)
        assert (our_status, our_lines) == (status, [])
        assert (their_status, their_lines) == (1, [])
        assert reason in their_errors
        assert reason in our_errors


@pytest.fixture
def run(broker: AnyBroker, tools: KafkaTools, capfd: pytest.CaptureFixture[str]) -> Commands:
    return Commands(broker, tools, capfd)


def hang(broker: AnyBroker, name: str, *, partition: int = 0) -> tuple[int, int, int]:
    """Write an hour ago in a transaction that its coordinator does not know of: producer id, epoch, first offset."""
    with RawProducer(broker.bootstrap_servers, name, level=1) as producer:
        producer.begin()
        written = producer.produce(TOPIC, name, partition=partition, timestamps=now_ms() - HOUR_MS)
        assert written.error_code == ErrorCode.NONE
        return *producer.identity, written.base_offset


def now_ms() -> int:
    return int(time.time() * 1000)


def test_finding_and_aborting_hanging_transactions(broker: AnyBroker, run: Commands) -> None:
    with RawProducer(broker.bootstrap_servers, "expected", level=1) as expected:
        expected.begin()
        assert expected.add((TOPIC, 1)) == [ErrorCode.NONE]
        old = expected.produce(TOPIC, "expected", partition=1, timestamps=now_ms() - HOUR_MS)
        assert old.error_code == ErrorCode.NONE
        hanging = [hang(broker, f"hanging-{number}", partition=number % 2) for number in range(4)]
        for scope, count in (
            (("--topic", TOPIC), 4),
            (("--topic", TOPIC, "--partition", "1"), 2),
            (("--topic", TOPIC, "--broker-id", "1"), 4),
            (("--broker-id", "1"), 4),
            (("--broker-id", "1", "--max-transaction-timeout", "30"), 4),
            (("--broker-id", "1", "--max-transaction-timeout", "90"), 0),
        ):
            assert len(run.same("find-hanging", *scope)) == 1 + count, scope
        for number in range(2):
            place = ("--topic", TOPIC, "--partition", str(number))
            run.same("describe-producers", *place)
            run.same("describe-producers", *place, "--broker-id", "1")
        run.same("list", "--transactional-id-pattern", "hanging-[13]")

        first, second, third, fourth = hanging
        assert run.ours(*by_offset(first, 0)) == (0, [], "")
        assert run.theirs(*by_offset(second, 1))[:2] == (0, [])
        assert run.ours(*by_producer(third, 0, "-1")) == (0, [], "")
        assert run.theirs(*by_producer(fourth, 1, "0"))[:2] == (0, [])
        assert len(run.same("find-hanging", "--topic", TOPIC)) == 1
        run.refused("Could not find any open transactions starting at offset ", *by_offset(first, 0))
        expected.abort()
        for number in range(2):
            settle(expected.client, TOPIC, number)


def by_offset(hanging: tuple[int, int, int], partition: int) -> tuple[str, ...]:
    return "abort", "--topic", TOPIC, "--partition", str(partition), "--start-offset", str(hanging[2])


def by_producer(hanging: tuple[int, int, int], partition: int, coordinator_epoch: str) -> tuple[str, ...]:
    place = ("abort", "--topic", TOPIC, "--partition", str(partition))
    producer = ("--producer-id", str(hanging[0]), "--producer-epoch", str(hanging[1]))
    return *place, *producer, "--coordinator-epoch", coordinator_epoch


def test_refusals(broker: AnyBroker, run: Commands) -> None:
    with RawProducer(broker.bootstrap_servers, "fenced") as producer:
        producer.begin()
        producer.write(TOPIC, "a", partition=2)
        producer.commit()  # raises the epoch
        producer.write(TOPIC, "b", partition=2)
        spec = (
            f"Failed to abort transaction AbortTransactionSpec(topicPartition={TOPIC}-2, "
            f"producerId={producer.producer_id}, producerEpoch={producer.epoch - 1}, coordinatorEpoch=3): "
        )
        run.refused(spec, *by_producer((producer.producer_id, producer.epoch - 1, 0), 2, "3"))
        producer.abort()
    name = "Failed to describe transaction state of transactional-id `none`: "
    run.refused(name, "describe", "--transactional-id", "none")
    run.refused("Failed to list transactions: ", "list", "--transactional-id-pattern", "(")
    place = ("--topic", TOPIC, "--partition", "0")
    for arguments in (
        ("abort", *place),
        ("abort", *place, "--producer-id", "1"),
        ("abort", *place, "--producer-id", "1", "--producer-epoch", "1"),
        ("find-hanging",),
        ("find-hanging", "--broker-id", "1", "--partition", "0"),
        ("forceTerminateTransaction",),
    ):
        assert run.ours(*arguments)[:2] == (2, [])
        assert run.theirs(*arguments)[:2] == (1, [])


def test_terminating_transactions(broker: AnyBroker, run: Commands) -> None:
    with (
        RawProducer(broker.bootstrap_servers, "terminated-by-us") as ours,
        RawProducer(broker.bootstrap_servers, "terminated-by-them") as theirs,
    ):
        for producer in (ours, theirs):
            producer.begin()
            producer.write(TOPIC, "a", partition=2)
        for tool, producer in ((run.ours, ours), (run.theirs, theirs)):
            assert tool("forceTerminateTransaction", "--transactionalId", producer.transactional_id)[:2] == (0, [])
        for producer in (ours, theirs):
            state = reaches(producer.client, producer.transactional_id, "Empty")
            assert (state.producer_id, state.producer_epoch > producer.epoch) == (producer.producer_id, True)
            assert state.transaction_timeout_ms == 30_000
            assert producer.produce(TOPIC, "b", partition=2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        settle(ours.client, TOPIC, 2)
        run.same("list", "--transactional-id-pattern", "terminated-.*")
