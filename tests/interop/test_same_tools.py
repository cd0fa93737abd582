"""Our tools print what Apache Kafka's own tools print of the same broker and of the same files."""

import re
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from dirty_equals import HasLen

from broker_embedded.testing import BrokerProcess
from broker_embedded.tools import main
from spark_kafka_native.clients import FetchRequest, SimpleConsumer
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable, run_tool
from tests.support.servers.both_brokers import kafka_of_its_own
from tests.support.spark.hard_topics import HardTopics
from tests.support.tools import calling
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

CLASSES = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
STARTED_AND_DURATION = re.compile(r"(\t1\d{12} *\t)\d+ *")
CONFIG_CHANGES = (
    ("--user", "alice", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=hunter2]"),
    ("--user", "alice", "--add-config", "SCRAM-SHA-512=[password=hunter2]"),
    ("--user", "alice", "--add-config", "producer_byte_rate=1000,request_percentage=12.5"),
    ("--user-defaults", "--add-config", "consumer_byte_rate=2000"),
    ("--user", "bob", "--client", "c", "--add-config", "consumer_byte_rate=3000"),
    ("--client-defaults", "--add-config", "producer_byte_rate=4000"),
    ("--ip", "127.9.9.9", "--add-config", "connection_creation_rate=5"),
)
CONFIGS = (
    ("--entity-type", "users"),
    ("--entity-type", "users", "--entity-name", "alice"),
    ("--entity-type", "users", "--entity-default"),
    ("--entity-type", "users", "--entity-type", "clients"),
    ("--client-defaults",),
    ("--entity-type", "ips"),
    ("--entity-type", "brokers", "--entity-name", "1"),
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    skip_if(apache_kafka_unavailable())
    with BrokerProcess(tmp_path / "data") as running:
        yield running


def ours(capfd: pytest.CaptureFixture[str], tool: str, *arguments: str) -> list[str]:
    capfd.readouterr()
    assert main([tool, *arguments]) == 0
    return capfd.readouterr().out.splitlines()


def theirs(tool: str, *arguments: str) -> list[str]:
    return run_tool(CLASSES[tool], *arguments).splitlines()


kafka = kafka_of_its_own("function", settings={"log.cleaner.backoff.ms": "200"})


def test_dumps_and_transactions(kafka: ApacheKafka, capfd: pytest.CaptureFixture[str]) -> None:
    servers = ("--bootstrap-server", kafka.bootstrap_servers)
    topics = HardTopics(kafka)
    topics.write()
    try:
        for arguments in (
            ("list",),
            ("describe", "--transactional-id", "1-23"),
            ("describe", "--transactional-id", "1-20"),
            ("describe-producers", "--topic", topics.transactions, "--partition", "0"),
            ("describe-producers", "--topic", topics.transactions, "--partition", "1"),
        ):
            both = [
                [STARTED_AND_DURATION.sub(r"\1N", line) for line in lines]
                for lines in (
                    ours(capfd, "kafka-transactions", *servers, *arguments),
                    theirs("kafka-transactions", *servers, *arguments),
                )
            ]
            assert sorted(both[0]) == sorted(both[1])
            assert len(both[0]) > 1
    finally:
        topics.close()
    kafka.stop()
    # Control records of KRaft's own log are printed by their type alone.
    found = sorted(
        set(kafka.log_directory.glob("*-[0-9]*/*")) - set(kafka.log_directory.glob("__cluster_metadata-0/*"))
    )
    files = ",".join(str(path) for path in found if path.suffix in {".log", ".index", ".timeindex"})
    for options in ([], ["--deep-iteration"], ["--print-data-log"]):
        dump = ours(capfd, "kafka-dump-log", "--files", files, *options)
        assert list(unified_diff(dump, theirs("kafka-dump-log", "--files", files, *options))) == []
        assert {"none", "gzip", "snappy", "lz4", "zstd"} <= {word for line in dump for word in line.split()}


def test_quotas_and_users(broker: BrokerProcess, capfd: pytest.CaptureFixture[str]) -> None:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    for change in CONFIG_CHANGES:
        done = ours(capfd, "kafka-configs", *servers, "--alter", *change)
        assert done == theirs("kafka-configs", *servers, "--alter", *change)
    for entity in CONFIGS:
        both = [
            sorted(sorted(re.split(" are |, ", line)) for line in lines)
            for lines in (
                ours(capfd, "kafka-configs", *servers, "--describe", *entity),
                theirs("kafka-configs", *servers, "--describe", *entity),
            )
        ]
        assert both[0] == both[1]
        assert both[0]


@pytest.mark.parametrize(
    ("reading", "lines"),
    [
        (("parse.key=true",), b"a:1,b:2:3\tk\tv\na:,:\t\t\n"),
        (("headers.delimiter=/", "headers.separator=;", "headers.key.separator=::"), b"a::1;b::::2/v/w\n::/\n"),
        (("parse.key=true", "null.marker=N"), b"N\tN\tN\na:N,b:NN\tN\tv\n"),
        (("parse.key=true", "ignore.error=true"), b"a\na,b:2\tk\n\tk\tv\n"),
    ],
)
def test_console_producers_send_the_same_records(
    broker: BrokerProcess,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    reading: tuple[str, ...],
    lines: bytes,
) -> None:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    options = [part for each in ("parse.headers=true", *reading) for part in ("--reader-property", each)]
    send = calling(main, capfd, monkeypatch)
    assert send("kafka-console-producer", *servers, "--topic", "ours", *options, stdin=lines).status == 0
    run_tool(CLASSES["kafka-console-producer"], *servers, "--topic", "theirs", *options, given=lines.decode())
    with SimpleConsumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
        requests = [FetchRequest(topic, partition=0, offset=0) for topic in ("ours", "theirs")]
        both = [
            [(each.key, each.value, each.headers) for each in result.records]
            for result in consumer.multifetch(requests)
        ]
    assert both[0] == both[1]
    assert both[0]


@pytest.mark.parametrize("cluster", ["broker", "kafka"])
def test_descriptions_of_topics(
    request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str], cluster: str
) -> None:
    running: BrokerProcess | ApacheKafka = request.getfixturevalue(cluster)
    servers = ("--bootstrap-server", running.bootstrap_servers)
    settings = ("--config", "retention.ms=70000", "--config", "cleanup.policy=compact,delete")
    ours(capfd, "kafka-topics", *servers, "--create", "--topic", "configured", *settings)
    ours(capfd, "kafka-topics", *servers, "--create", "--topic", "wide_", "--partitions", "3")
    described = ("kafka-topics", *servers, "--describe", "--if-exists", "--topic", "wide_")
    # Apache Kafka answers CreateTopics before its metadata has the topic.
    (line, *_) = eventually(lambda: ours(capfd, *described), HasLen(4))
    topic_id = line.split("\t")[1].removeprefix("TopicId: ")
    for options in (
        (),
        ("--topic", "configured"),
        ("--topic-id", topic_id),
        ("--topics-with-overrides",),
        ("--under-min-isr-partitions",),
        ("--at-min-isr-partitions",),
        ("--unavailable-partitions", "--under-replicated-partitions"),
    ):
        both = [
            sorted(sorted(re.split(r"(?<=Configs: )|,", line)) for line in lines)
            for lines in (
                ours(capfd, "kafka-topics", *servers, "--describe", *options),
                theirs("kafka-topics", *servers, "--describe", *options),
            )
        ]
        assert both[0] == both[1]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("cluster", ["broker", "kafka"])
def test_descriptions_of_groups(
    request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str], cluster: str, protocol: str
) -> None:
    running: BrokerProcess | ApacheKafka = request.getfixturevalue(cluster)
    servers = ("--bootstrap-server", running.bootstrap_servers)
    ours(capfd, "kafka-topics", *servers, "--create", "--topic", "t", "--partitions", "3")
    group = f"a-group-of-protocol-{protocol}"
    settings = {
        "bootstrap.servers": running.bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        "group.instance.id": "instance",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }

    def compare() -> None:
        for options in (
            ("--list", "--state", "--type"),
            ("--list", "--type", "consumer"),
            *(("--describe", "--group", group, *which) for which in ((), ("--state",), ("--members",))),
            *(("--describe", "--group", group, "--verbose", *which) for which in ((), ("--state",), ("--members",))),
        ):
            described = ours(capfd, "kafka-consumer-groups", *servers, *options)
            assert described == theirs("kafka-consumer-groups", *servers, *options)

    consumer = Consumer(settings)
    try:
        consumer.subscribe(["t"])
        assigned = eventually(lambda: (consumer.poll(0.1), consumer.assignment())[1], HasLen(3))
        consumer.commit(offsets=[TopicPartition("t", assigned[0].partition, 0)], asynchronous=False)
        compare()
    finally:
        consumer.close()
