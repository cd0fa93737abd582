"""Kafka's own command line tools say the same of the bundled broker as of Apache Kafka.

Each test gives the same commands to both and compares what was printed, but for what is no property of a broker:
addresses, ids, directories and measured times.
"""

import json
import re
import time
from collections.abc import Callable, Collection
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

import pytest

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.messages.describe_producers import ProducerState
from tests.support.programs.kafka_tools import KafkaTools
from tests.support.requests import broker_differences as differences
from tests.support.requests.same_responses import compare_brokers
from tests.support.requests.transaction_views import producers
from tests.support.requests.transactions import RawProducer
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.servers.brokers import AnyBroker

pytestmark = pytest.mark.interop

LOG_LINE = re.compile(
    r"^\d+ \[[^]]+\] [A-Z]+ |^\s+at |^Caused by: |^\s*$|is deprecated|has been deprecated|production-ready"
)
NOT_THE_BROKERS = (
    (re.compile(r"(TopicId: )\S+"), r"\1ID"),
    (re.compile(r"(Cluster ID: )\S+"), r"\1ID"),
    (re.compile(r"( Epoch: )\d+"), r"\1N"),
    (re.compile(r'("size":)\d+'), r"\1N"),
    (re.compile(r'("logDir":)"[^"]*"'), r"\1DIRECTORY"),
    (re.compile(r'("log_dirs":\[)"[^"]*"'), r"\1DIRECTORY"),
)


class Said(NamedTuple):
    """A command, how it ended and what it printed."""

    command: str
    status: int
    lines: list[str]


class Shell:
    """Gives commands to one broker and keeps what came of them."""

    def __init__(self, tools: KafkaTools, server: AnyBroker, scratch: Path) -> None:
        self._tools, self._server, self._scratch = tools, server, scratch
        self.said: list[Said] = []

    def __call__(
        self,
        script: str,
        *arguments: str,
        given: str = "",
        sort: bool = False,
        numbers: bool = True,
        only: str = "",
        without: Collection[str] = (),
        until: str = "",
        bootstrap: bool = True,
    ) -> list[str]:
        """Run a tool. Compared are lines that have `only` and are not of what is `without`; their order, unless `sort`.

        Numbers in them stand for any number if not `numbers`. It is run again and again until all that it prints is
        matched by the pattern `until`, as changes take Apache Kafka a moment after it has answered.
        """
        servers = self._server.bootstrap_servers
        expanded = [argument.replace("{servers}", servers) for argument in arguments]
        where = servers if bootstrap else ""
        deadline = time.monotonic() + 20
        output = self._tools.run(script, *expanded, server=where, given=given)
        while not re.match(until, output.output, re.DOTALL) and time.monotonic() < deadline:
            output = self._tools.run(script, *expanded, server=where, given=given)
        lines = []
        for line in [*output.output.splitlines(), *output.errors.splitlines()]:
            comparable = self._comparable(line, numbers=numbers)
            is_output = not LOG_LINE.search(line) and only in line and re.split("[=(]", comparable)[0] not in without
            if is_output:
                lines.append(comparable)
        said = Said(" ".join([script, *arguments]), output.status, sorted(lines) if sort else lines)
        self.said.append(said)
        return said.lines

    @property
    def servers(self) -> str:
        """The broker's address."""
        return self._server.bootstrap_servers

    def transcript(self) -> list[str]:
        """All that was said."""
        return [line for said in self.said for line in (f"$ {said.command}", f"[{said.status}]", *said.lines)]

    def file(self, name: str, contents: object) -> str:
        """The path of a JSON file for tools to read."""
        path = self._scratch / name
        path.write_text(json.dumps(contents))
        return str(path)

    def _comparable(self, line: str, *, numbers: bool) -> str:
        host, _, port = self._server.bootstrap_servers.partition(":")
        line = re.sub(rf"{re.escape(host)}[: ]{port}", "ADDRESS", line)
        # Columns are as wide as the longest address.
        line = re.sub(r"[ \t]+", " ", line)
        for pattern, replacement in (*NOT_THE_BROKERS, *differences.LINES):
            line = pattern.sub(replacement, line)
        line = line.strip()
        return line if numbers else re.sub(r"\d+(\.\d+)?(E-?\d+)?", "N", line)


class Both:
    """The shells of both brokers."""

    def __init__(self, theirs: Shell, ours: Shell) -> None:
        self._theirs, self._ours = theirs, ours

    def tell(self, story: Callable[[Shell], None]) -> None:
        """Give both the same commands, and compare what they printed."""
        for shell in (self._theirs, self._ours):
            story(shell)
        diff = list(unified_diff(self._theirs.transcript(), self._ours.transcript(), "Apache Kafka", "bundled", n=2))
        assert not diff, "\n".join(diff)


@pytest.fixture
def both(tools: KafkaTools, bundled_server: BrokerProcess, apache_server: ApacheKafka, tmp_path: Path) -> Both:
    return Both(Shell(tools, apache_server, tmp_path), Shell(tools, bundled_server, tmp_path))


@compare_brokers
def test_topics(run: Shell) -> None:
    run("kafka-topics", "--create", "--topic", "tools-topics", "--partitions", "2", "--config", "retention.ms=1000")
    run("kafka-topics", "--create", "--topic", "tools-topics")
    run("kafka-topics", "--create", "--topic", "tools-topics", "--if-not-exists")
    run("kafka-topics", "--create", "--topic", "tools-bad", "--replication-factor", "3")
    run("kafka-topics", "--create", "--topic", "tools-bad", "--config", "retention.ms=soon")
    run("kafka-topics", "--create", "--topic", "tools/bad")
    run("kafka-topics", "--create", "--topic", "tools-placed", "--replica-assignment", "1,1")
    run("kafka-topics", "--describe", "--topic", "tools-topics", until=".*Partition: 1")
    run("kafka-topics", "--alter", "--topic", "tools-topics", "--partitions", "4")
    run("kafka-topics", "--alter", "--topic", "tools-topics", "--partitions", "3")
    run("kafka-topics", "--describe", "--topic", "tools-.*", sort=True, until=".*Partition: 3")
    run("kafka-topics", "--describe", "--unavailable-partitions")
    run("kafka-topics", "--list", only="tools-")
    run("kafka-topics", "--delete", "--topic", "tools-.*")
    run("kafka-topics", "--describe", "--topic", "tools-topics", until="Error")
    run("kafka-topics", "--delete", "--topic", "tools-topics")
    assert "PartitionCount: 4" in "".join(run.transcript())


@compare_brokers
def test_configs_of_topics(run: Shell) -> None:
    topic = ("--entity-type", "topics", "--entity-name", "tools-configs")
    run("kafka-topics", "--create", "--topic", "tools-configs")
    changes = "max.message.bytes=5000,cleanup.policy=[compact,delete],retention.ms=70000,segment.bytes=1048576"
    run("kafka-configs", *topic, "--alter", "--add-config", changes)
    run("kafka-configs", *topic, "--describe", until=".*=5000")
    run("kafka-configs", *topic, "--describe", "--all")
    run("kafka-configs", *topic, "--alter", "--delete-config", "max.message.bytes")
    run("kafka-configs", *topic, "--describe", until="(?!.*=5000)")
    for bad in ("no.such.config=1", "retention.ms=soon", "cleanup.policy=burn", "segment.bytes=1"):
        run("kafka-configs", *topic, "--alter", "--add-config", bad)
    run("kafka-configs", *topic, "--alter", "--delete-config", "segment.jitter.ms")
    run("kafka-configs", "--entity-type", "topics", "--entity-name", "tools-nothing", "--describe")
    run("kafka-topics", "--delete", "--topic", "tools-configs")


@compare_brokers
def test_configs_of_brokers_clients_and_groups(run: Shell) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    run("kafka-configs", *broker, "--alter", "--add-config", "log.retention.ms=123456789")
    run("kafka-configs", *broker, "--describe", until=".*  log.retention.ms=123456789")
    run("kafka-configs", *broker, "--alter", "--delete-config", "log.retention.ms")
    run("kafka-configs", *broker, "--alter", "--add-config", "log.dirs=elsewhere")
    run("kafka-configs", *broker, "--describe", until="(?!.*123456789)")
    run("kafka-configs", "--entity-type", "brokers", "--entity-default", "--describe")
    client = ("--entity-type", "clients", "--entity-name", "tools-client")
    run("kafka-configs", *client, "--alter", "--add-config", "producer_byte_rate=10000000,request_percentage=50")
    run("kafka-configs", *client, "--alter", "--add-config", "no_such_rate=1")
    run("kafka-configs", "--entity-type", "clients", "--describe", sort=True, until=".*request_perc")
    run("kafka-configs", *client, "--alter", "--delete-config", "producer_byte_rate,request_percentage")
    run("kafka-configs", "--entity-type", "clients", "--describe", until="(?!.*request_perc)")
    group = ("--entity-type", "groups", "--entity-name", "tools-group")
    run("kafka-configs", *group, "--alter", "--add-config", "consumer.heartbeat.interval.ms=6000")
    run("kafka-configs", *group, "--describe", until=".*=6000")
    run("kafka-configs", *group, "--alter", "--delete-config", "consumer.heartbeat.interval.ms")
    run("kafka-configs", *group, "--describe", until="(?!.*=6000)")


@compare_brokers
def test_console_producer_and_consumer(run: Shell) -> None:
    run("kafka-topics", "--create", "--topic", "tools-console")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        given = "".join(f"h:{number}\t{codec}-{number}\tvalue {number}\n" for number in range(20))
        parse = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
        run("kafka-console-producer", "--topic", "tools-console", "--compression-codec", codec, *parse, given=given)
    show = ("print.key", "print.headers", "print.partition", "print.offset")
    properties = [part for name in show for part in ("--formatter-property", f"{name}=true")]
    read = ("--topic", "tools-console", "--timeout-ms", "20000", *properties)
    run("kafka-console-consumer", *read, "--from-beginning", "--max-messages", "100")
    run("kafka-console-consumer", *read, "--partition", "0", "--offset", "90", "--max-messages", "10")
    for protocol in ("classic", "consumer"):
        member = ("--group", f"tools-{protocol}", "--command-property", f"group.protocol={protocol}")
        run("kafka-console-consumer", *read, *member, "--from-beginning", "--max-messages", "60")
        run("kafka-console-consumer", *read, *member, "--max-messages", "40")
    assert run.said[-1].lines[-2] == "Partition:0 Offset:99 h:19 zstd-19 value 19"


@compare_brokers
def test_consumer_groups(run: Shell) -> None:
    topic, group = "tools-groups", "tools-group-1"
    run("kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    given = "".join(f"key-{number}\t{number}\n" for number in range(30))
    run("kafka-console-producer", "--topic", topic, "--reader-property", "parse.key=true", given=given)
    read = ("--topic", topic, "--from-beginning", "--max-messages", "30", "--timeout-ms", "20000")
    for protocol in ("classic", "consumer"):
        member = ("--group", group, "--command-property", f"group.protocol={protocol}")
        run("kafka-console-consumer", *read, *member, sort=True)
        tell_groups(run, topic, group)


def tell_groups(run: Shell, topic: str, group: str) -> None:
    run("kafka-consumer-groups", "--list", only=group)
    run("kafka-consumer-groups", "--list", "--state", only=group)
    run("kafka-groups", "--list", only=group)
    one = ("--group", group)
    run("kafka-consumer-groups", "--describe", *one, sort=True)
    run("kafka-consumer-groups", "--describe", *one, "--state")
    run("kafka-consumer-groups", "--describe", *one, "--members", "--verbose")
    for how in (
        ("--to-earliest", "--all-topics"),
        ("--shift-by", "2", "--topic", f"{topic}:0,1"),
        ("--to-datetime", "2040-01-01T00:00:00.000", "--topic", topic),
        ("--to-offset", "1", "--topic", topic),
    ):
        run("kafka-consumer-groups", "--reset-offsets", *one, *how, "--execute", sort=True)
    run("kafka-consumer-groups", "--describe", *one, "--offsets", sort=True)
    run("kafka-consumer-groups", "--delete-offsets", *one, "--topic", topic, sort=True)
    run("kafka-consumer-groups", "--delete-offsets", *one, "--topic", "tools-unheard-of")
    run("kafka-consumer-groups", "--delete", *one)
    run("kafka-consumer-groups", "--delete", *one)
    run("kafka-consumer-groups", "--describe", *one)
    run("kafka-consumer-groups", "--reset-offsets", *one, "--to-latest", "--topic", topic, "--execute", sort=True)
    run("kafka-consumer-groups", "--delete", *one)


@compare_brokers
def test_offsets_and_deleted_records(run: Shell) -> None:
    topic = "tools-offsets"
    run("kafka-topics", "--create", "--topic", topic)
    run("kafka-console-producer", "--topic", topic, given="a\nb\nc\nd\n")
    for moment in ("latest", "earliest", "earliest-local", "2000", "4000000000000"):
        run("kafka-get-offsets", "--topic", topic, "--time", moment)
    deletion = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 3}]}
    run("kafka-delete-records", "--offset-json-file", run.file("deletion", deletion), only="low_watermark")
    run("kafka-get-offsets", "--topic-partitions", f"{topic}:0", "--time", "earliest")
    late = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 30}]}
    run("kafka-delete-records", "--offset-json-file", run.file("late", late), only="error")
    read = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
    run("kafka-console-consumer", "--topic", topic, *read)
    run("kafka-get-offsets", "--topic", "tools-unheard-of")


@compare_brokers
def test_performance_tools(run: Shell) -> None:
    topic = "tools-performance"
    run("kafka-topics", "--create", "--topic", topic)
    produce = ("--num-records", "5000", "--record-size", "1000", "--throughput", "-1")
    for acks in ("1", "all"):
        properties = ("--command-property", "bootstrap.servers={servers}", f"acks={acks}")
        run("kafka-producer-perf-test", "--topic", topic, *produce, *properties, numbers=False, bootstrap=False)
    run("kafka-get-offsets", "--topic", topic)
    run("kafka-consumer-perf-test", "--topic", topic, "--num-records", "10000", numbers=False)


@compare_brokers
def test_the_cluster(run: Shell) -> None:
    topic = "tools-cluster"
    run("kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    given = "".join(f"key-{number}\t{number}\n" for number in range(20))
    run("kafka-console-producer", "--topic", topic, "--reader-property", "parse.key=true", given=given)
    run("kafka-log-dirs", "--describe", "--topic-list", topic, only=topic, numbers=False)
    run("kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    run("kafka-leader-election", "--election-type", "unclean", "--topic", topic, "--partition", "1")
    run("kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "7")
    run("kafka-cluster", "cluster-id", "--bootstrap-server", "{servers}", bootstrap=False)
    run("kafka-cluster", "list-endpoints", "--bootstrap-server", "{servers}", bootstrap=False)
    run("kafka-reassign-partitions", "--list")
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}
    run("kafka-reassign-partitions", "--reassignment-json-file", run.file("plan", plan), "--execute")
    run("kafka-reassign-partitions", "--reassignment-json-file", run.file("plan", plan), "--verify")
    producers = ("describe-producers", "--topic", topic, "--partition", "0")
    run("kafka-transactions", *producers, numbers=False)
    run("kafka-acls", "--list", only="Error")
    run("kafka-metadata-quorum", "describe", "--replication", only="NodeId")


@compare_brokers
def test_transactions(run: Shell) -> None:
    topic = "tools-transactions"
    for name in (topic, "tools-perf"):
        run("kafka-topics", "--create", "--topic", name)
    perf = ("--num-records", "100", "--record-size", "10", "--throughput", "-1", "--transactional-id", "tools-perf")
    run("kafka-producer-perf-test", "--topic", "tools-perf", *perf, "--transaction-duration-ms", "50", numbers=False)
    with RawProducer(run.servers, "tools-id") as producer:
        producer.begin()
        producer.write(topic, "open")
        (start,) = {state.current_txn_start_offset for state in _open_producers(producer, topic)}
        run("kafka-transactions", "list", only="tools-", numbers=False, sort=True)
        run("kafka-transactions", "describe", "--transactional-id", "tools-id", only="tools-id", numbers=False)
        run("kafka-transactions", "describe", "--transactional-id", "tools-unknown", only="Error")
        of_partition = ("describe-producers", "--topic", topic, "--partition", "0")
        run("kafka-transactions", *of_partition, numbers=False, sort=True)
        run("kafka-transactions", "find-hanging", "--topic", topic, numbers=False)
        run("kafka-get-offsets", "--topic", topic, numbers=False)
        place = ("--topic", topic, "--partition", "0", "--start-offset", f"{start}")
        run("kafka-transactions", "abort", *place, numbers=False)
        run("kafka-transactions", *of_partition, numbers=False, sort=True)
        wanted = ("--topic", "tools-perf", "--from-beginning", "--max-messages", "100", "--isolation-level")
        run("kafka-console-consumer", *wanted, "read_committed", "--property", "print.value=false", numbers=False)


def _open_producers(producer: RawProducer, topic: str) -> list[ProducerState]:
    found = producers(producer.client, topic).values()
    return [state for state in found if state.current_txn_start_offset >= 0]


@compare_brokers
def test_the_versions_of_every_api(run: Shell) -> None:
    assert len(run("kafka-broker-api-versions", without=differences.APIS_WE_LACK)) > 40


@compare_brokers
def test_features(run: Shell) -> None:
    for feature in ("metadata.version", "group.version", "transaction.version", "eligible.leader.replicas.version"):
        run("kafka-features", "describe", only=feature)
