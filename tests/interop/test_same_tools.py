"""Our tools print what Apache Kafka's own tools print of the same broker and of the same files."""

import re
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess
from spark_kafka_native.tools.__main__ import main
from tests.support.apache_kafka import ApacheKafka, apache_kafka_unavailable, run_tool
from tests.support.hard_topics import HardTopics

pytestmark = pytest.mark.interop

CLASSES = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
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
    reason = apache_kafka_unavailable()
    if reason is not None:
        pytest.skip(reason)
    with BrokerProcess(tmp_path / "data") as running:
        yield running


def ours(capfd: pytest.CaptureFixture[str], tool: str, *arguments: str) -> list[str]:
    capfd.readouterr()
    assert main([tool, *arguments]) == 0
    return capfd.readouterr().out.splitlines()


def theirs(tool: str, *arguments: str) -> list[str]:
    return run_tool(CLASSES[tool], *arguments).splitlines()


@pytest.fixture
def kafka() -> Iterator[ApacheKafka]:
    reason = apache_kafka_unavailable()
    if reason is not None:
        pytest.skip(reason)
    with ApacheKafka(settings={"log.cleaner.backoff.ms": "200"}) as running:
        yield running


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
