"""Tools of old releases administer and read the bundled broker through ZooKeeper, as they do Apache Kafka."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka.admin import AdminClient
from dirty_equals import Contains

from broker_embedded._quotas.entities import EntityFilter
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.schema import Request, Response
from tests.support.report import skip_if
from tests.support.requests.of_topic import offset_commit, offset_fetch
from tests.support.requests.raw_client import RawClient
from tests.support.scripts import started
from tests.support.servers.apache_kafka import (
    LAST_KAFKA_WITH_ZOOKEEPER,
    ApacheKafkaError,
    apache_kafka_unavailable,
    java_command,
)
from tests.support.servers.kafka_on_zookeeper import (
    RELEASES,
    KafkaOnZooKeeper,
    run_class,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

TOOLS = tuple(release for release in RELEASES if not release.startswith("3."))
"""The releases whose tools of topics work through ZooKeeper."""
VERIFIER = "0.10.2.2"
"""VerifyConsumerRebalance of 0.8.2.2 finds an error in any group that has a member, with Apache Kafka, too."""
SETTINGS = {"delete.topic.enable": "true", "offsets.topic.num.partitions": "3"}
VALUES = [f"value {number}" for number in range(20)]


ResponseT = TypeVar("ResponseT", bound=Response)
FIRST_LAST = "SCRAM-SHA-256=[iterations=4096,password=first],SCRAM-SHA-512=[password=last]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A broker and the tools of its release."""

    release: str
    connect: str
    broker: EmbeddedBroker | KafkaOnZooKeeper

    def run(self, class_name: str, *arguments: str, given: str = "") -> str:
        """What a tool prints that gets the address of ZooKeeper."""
        return run_class(self.release, class_name, "--zookeeper", self.connect, *arguments, given=given)

    def topic_command(self, *arguments: str) -> str:
        """What kafka-topics prints, also when it fails."""
        try:
            return self.run("kafka.admin.TopicCommand", *arguments)
        except ApacheKafkaError as error:
            return str(error)

    def create(self, topic: str, *options: str, partitions: int = 2) -> None:
        """Create a topic, and wait until the broker serves it."""
        options = ("--partitions", str(partitions), "--replication-factor", "1", *options)
        assert f'Created topic "{topic}"' in self.topic_command("--create", "--topic", topic, *options)
        eventually(self.topics, Contains((topic, partitions)))

    def produce(self, topic: str, values: list[str]) -> None:
        """Write values with the console producer."""
        arguments = ("--broker-list", self.broker.bootstrap_servers, "--topic", topic)
        run_class(
            self.release, "kafka.tools.ConsoleProducer", *arguments, given="".join(f"{each}\n" for each in values)
        )

    def topics(self) -> set[tuple[str | None, int]]:
        """The topics that have leaders, with their numbers of partitions, as clients see them."""
        found = self.ask(MetadataRequest(topics=()), 0).topics
        led = [topic for topic in found if not any(partition.error_code for partition in topic.partitions)]
        return {(topic.name, len(topic.partitions)) for topic in led}

    def ask(self, request: Request[ResponseT], version: int) -> ResponseT:
        """The response to a request."""
        with RawClient(self.broker.bootstrap_servers) as client:
            return client.ask(request, version)

    def configs(self, topic: str) -> dict[str, str]:
        """The topic's own settings as kafka-topics describes them."""
        first = self.topic_command("--describe", "--topic", topic).splitlines()[0]
        return dict(re.findall(r"([a-z.]+)=(.*?)(?=,[a-z.]+=|$)", first.partition("Configs:")[2]))

    def assert_configs(self, topic: str, expected: dict[str, str]) -> None:
        """The broker has these settings of a topic, and the tool describes them."""
        if isinstance(self.broker, EmbeddedBroker):
            topics = self.broker._server.broker.topics
            eventually(lambda: dict(topics.image.topics[topic].configs), expected)
        assert self.configs(topic) == expected


@pytest.fixture(params=TOOLS)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["bundled", "apache"])
def cluster(request: pytest.FixtureRequest, release: str, zookeeper_connect: str) -> Iterator[Cluster]:
    """The bundled broker as of a release, and Apache Kafka of that release."""
    skip_if(apache_kafka_unavailable(release))
    broker: EmbeddedBroker | KafkaOnZooKeeper
    if request.param == "bundled":
        settings = {"as.version": release, "zookeeper.connect": zookeeper_connect, **SETTINGS}
        broker = EmbeddedBroker(settings=settings)
    else:
        broker = KafkaOnZooKeeper(connect=zookeeper_connect, release=release, settings=SETTINGS)
    with broker:
        yield Cluster(release=release, connect=zookeeper_connect, broker=broker)


def test_topics_are_created_listed_and_described(cluster: Cluster) -> None:
    cluster.create("other")
    cluster.create("events", "--config", "retention.ms=7200000", "--config", "cleanup.policy=compact", partitions=3)
    assert cluster.topic_command("--list").split() == ["events", "other"]
    cluster.assert_configs("events", {"retention.ms": "7200000", "cleanup.policy": "compact"})
    first, *partitions = cluster.topic_command("--describe", "--topic", "events").splitlines()
    assert first.startswith("Topic:events\tPartitionCount:3\tReplicationFactor:1\tConfigs:")
    assert partitions == [f"\tTopic: events\tPartition: {index}\tLeader: 1\tReplicas: 1\tIsr: 1" for index in range(3)]
    assert cluster.topic_command("--describe", "--unavailable-partitions").split() == []
    assert cluster.topic_command("--describe", "--under-replicated-partitions").split() == []


def test_what_cannot_be_created_is_an_error(cluster: Cluster) -> None:
    cluster.create("events")
    options = ("--create", "--topic", "events", "--partitions", "3", "--replication-factor")
    assert re.search("Topic .events. already exists", cluster.topic_command(*options, "1"))
    assert "eplication factor: 2 larger than available brokers: 1" in cluster.topic_command(*options, "2")
    assert cluster.topics() == {("events", 2)}


def test_partitions_are_added(cluster: Cluster) -> None:
    cluster.create("events")
    assert "Adding partitions succeeded!" in cluster.topic_command("--alter", "--topic", "events", "--partitions", "4")
    eventually(cluster.topics, {("events", 4)})
    described = cluster.topic_command("--describe", "--topic", "events")
    assert described.startswith("Topic:events\tPartitionCount:4\tReplicationFactor:1\tConfigs:")
    assert described.count("\tLeader: 1\tReplicas: 1\tIsr: 1\n") == 4


def test_settings_are_altered_by_kafka_topics(cluster: Cluster) -> None:
    cluster.create("events", "--config", "retention.ms=7200000")
    alter = ("--alter", "--topic", "events")
    assert "pdated config for topic" in cluster.topic_command(*alter, "--config", "max.message.bytes=2000")
    cluster.assert_configs("events", {"retention.ms": "7200000", "max.message.bytes": "2000"})
    assert "pdated config for topic" in cluster.topic_command(*alter, "--delete-config", "retention.ms")
    cluster.assert_configs("events", {"max.message.bytes": "2000"})


@pytest.mark.parametrize("release", [release for release in TOOLS if not release.startswith("0.8.")])
def test_settings_are_altered_by_kafka_configs(cluster: Cluster) -> None:
    cluster.create("events", "--config", "retention.ms=7200000")
    topic = ("--entity-type", "topics", "--entity-name", "events")

    def alter(*options: str) -> None:
        printed = cluster.run("kafka.admin.ConfigCommand", "--alter", *topic, *options)
        assert printed == "Completed Updating config for entity: topic 'events'.\n"

    alter("--add-config", "cleanup.policy=[compact,delete],max.message.bytes=2000")
    three = {"cleanup.policy": "compact,delete", "max.message.bytes": "2000", "retention.ms": "7200000"}
    cluster.assert_configs("events", three)
    alter("--delete-config", "cleanup.policy,retention.ms")
    cluster.assert_configs("events", {"max.message.bytes": "2000"})
    described = cluster.run("kafka.admin.ConfigCommand", "--describe", *topic)
    assert described == "Configs for topic 'events' are max.message.bytes=2000\n"


def test_topics_are_deleted_and_created_again(cluster: Cluster) -> None:
    for partitions in (2, 3):
        cluster.create("events", partitions=partitions)
        cluster.produce("events", VALUES)
        assert "events is marked for deletion" in cluster.topic_command("--delete", "--topic", "events")
        eventually(cluster.topics, set())
        eventually(lambda: cluster.topic_command("--list").split(), [])


def test_the_consumer_of_zookeeper_reads_what_was_written(cluster: Cluster) -> None:
    cluster.create("events")
    for part in (VALUES[:10], VALUES[10:]):
        cluster.produce("events", part)
    options = ("--topic", "events", "--from-beginning", "--max-messages", str(len(VALUES)))
    assert sorted(cluster.run("kafka.tools.ConsoleConsumer", *options).splitlines()) == sorted(VALUES)


@pytest.mark.parametrize("release", ["0.8.2.2", "0.10.2.2"])
@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_groups_of_zookeeper_are_checked(cluster: Cluster, storage: str, tmp_path: Path) -> None:
    """Its member owns both partitions; its offsets and its lag are right while it runs, and without it."""
    cluster.create("events")
    cluster.produce("events", ["first"])
    properties = tmp_path / "consumer.properties"
    lines = (
        "group.id=readers",
        f"offsets.storage={storage}",
        "dual.commit.enabled=false",
        "auto.commit.interval.ms=100",
    )
    properties.write_text("\n".join(lines))

    def positions() -> tuple[int, int, int, set[str]]:
        """Offset, end and lag, summed over the partitions, and the groups of the owners."""
        lines = cluster.run("kafka.tools.ConsumerOffsetChecker", "--group", "readers", "--topic", "events").splitlines()
        rows = [line.split() for line in lines]
        assert rows[0] == ["Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"]
        assert [row[:3] for row in rows[1:]] == [["readers", "events", str(number)] for number in range(2)]
        offset, end, lag = (sum(int(row[column]) for row in rows[1:]) for column in (3, 4, 5))
        return offset, end, lag, {row[6].partition("_")[0] for row in rows[1:]}

    options = ("--zookeeper", cluster.connect, "--topic", "events", "--consumer.config", str(properties))
    consumer = java_command("256m", release=cluster.release)
    consumer += ["kafka.tools.ConsoleConsumer", *options, "--from-beginning"]
    with started(consumer, until="first"):
        eventually(positions, (1, 1, 0, {"readers"}))
        arguments = ("--zookeeper.connect", cluster.connect, "--group", "readers")
        verified = run_class(VERIFIER, "kafka.tools.VerifyConsumerRebalance", *arguments)
        assert verified == "Rebalance operation successful !\n"
    cluster.produce("events", ["second", "third"])
    assert positions() == (1, 3, 2, {"none"})


def offsets_of_v0(cluster: Cluster) -> list[int]:
    """The offsets of group readers in topic events, by OffsetFetch v0."""
    partitions = range(dict(cluster.topics())["events"])
    (topic,) = cluster.ask(offset_fetch("events", *partitions, version=0, group_id="readers"), 0).topics
    return [part.committed_offset for part in sorted(topic.partitions, key=lambda part: part.partition_index)]


@pytest.mark.parametrize("release", ["0.8.2.2", "0.10.2.2"])
def test_offsets_of_v0_are_checked_exported_and_imported(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create("events")
    for partition, offset in enumerate((2, 4)):
        committed = cluster.ask(offset_commit("events", offset, partition, group_id="readers"), 0)
        assert committed.topics[0].partitions[0].error_code == 0
    checked = cluster.run("kafka.tools.ConsumerOffsetChecker", "--group", "readers", "--topic", "events")
    rows = [line.split()[:4] for line in checked.splitlines()]
    assert rows[1:] == [["readers", "events", "0", "2"], ["readers", "events", "1", "4"]]
    exported = tmp_path / "offsets"
    zookeeper = ("--zkconnect", cluster.connect)
    output = ("--group", "readers", "--output-file", str(exported))
    run_class(cluster.release, "kafka.tools.ExportZkOffsets", *zookeeper, *output)
    paths = [f"/consumers/readers/offsets/events/{partition}" for partition in range(2)]
    assert sorted(exported.read_text().splitlines()) == [f"{paths[0]}:2", f"{paths[1]}:4"]
    exported.write_text(f"{paths[0]}:3\n{paths[1]}:0\n")
    run_class(cluster.release, "kafka.tools.ImportZkOffsets", *zookeeper, "--input-file", str(exported))
    assert offsets_of_v0(cluster) == [3, 0]


@pytest.mark.parametrize("release", ["0.8.2.2", "0.10.2.2"])
def test_the_consumer_of_zookeeper_resumes_at_offsets_of_v0(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create("events", partitions=1)
    cluster.produce("events", VALUES)
    cluster.ask(offset_commit("events", 15, 0, group_id="readers"), 0)
    properties = tmp_path / "consumer.properties"
    properties.write_text("group.id=readers\n")
    options = ("--topic", "events", "--consumer.config", str(properties), "--max-messages", "3")
    assert cluster.run("kafka.tools.ConsoleConsumer", *options).splitlines() == VALUES[15:18]
    assert offsets_of_v0(cluster) == [18]


def quotas_of(broker: EmbeddedBroker) -> dict[str, dict[str, float]]:
    """The quotas of all entities."""
    found = broker._server.broker.quotas.describe(EntityFilter([], strict=False))
    return {str(entity): dict(values) for entity, values in found}


@pytest.fixture
def with_users(zookeeper_connect: str) -> Iterator[EmbeddedBroker]:
    """A broker in ZooKeeper, to which users log in."""
    with EmbeddedBroker(users={"admin": "secret"}, settings={"zookeeper.connect": zookeeper_connect}) as broker:
        yield broker


def alter(release: str, connect: str, *arguments: str) -> None:
    """Change the settings of an entity by kafka-configs."""
    skip_if(apache_kafka_unavailable(release))
    command = ("--zookeeper", connect, "--alter", *arguments)
    assert "Completed " in run_class(release, "kafka.admin.ConfigCommand", *command)


def topics_for_ann(broker: EmbeddedBroker, mechanism: str, password: str) -> set[str]:
    """The topics as ann sees them, who logs in."""
    client = AdminClient(
        {
            "bootstrap.servers": broker.servers_of("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "ann",
            "sasl.password": password,
        }
    )
    return set(client.list_topics(timeout=30).topics)


@pytest.mark.parametrize("release", ["0.10.2.2", "1.1.1"])
def test_quotas_of_clients_and_users_are_altered_by_kafka_configs(
    with_users: EmbeddedBroker, zookeeper_connect: str, release: str
) -> None:
    def alter_here(*arguments: str) -> None:
        alter(release, zookeeper_connect, *arguments)

    rates = "producer_byte_rate=1024,consumer_byte_rate=2048"
    alter_here("--add-config", rates, "--entity-type", "clients", "--entity-name", "etl")
    alter_here("--add-config", "consumer_byte_rate=50", "--entity-type", "users", "--entity-default")
    both = ("--entity-type", "users", "--entity-name", "a b", "--entity-type", "clients", "--entity-name", "etl")
    alter_here("--add-config", "producer_byte_rate=7", *both)
    expected = {
        "client-id etl": {"producer_byte_rate": 1024.0, "consumer_byte_rate": 2048.0},
        "user <default>": {"consumer_byte_rate": 50.0},
        "user a b, client-id etl": {"producer_byte_rate": 7.0},
    }
    eventually(lambda: quotas_of(with_users), expected)
    alter_here("--delete-config", "producer_byte_rate", "--entity-type", "clients", "--entity-name", "etl")
    alter_here("--delete-config", "producer_byte_rate", *both)
    left = {"client-id etl": {"consumer_byte_rate": 2048.0}, "user <default>": {"consumer_byte_rate": 50.0}}
    eventually(lambda: quotas_of(with_users), left)


@pytest.mark.parametrize("release", ["1.1.1", LAST_KAFKA_WITH_ZOOKEEPER])
def test_scram_users_of_kafka_configs_log_in(with_users: EmbeddedBroker, zookeeper_connect: str, release: str) -> None:
    ann = ("--entity-type", "users", "--entity-name", "ann")
    alter(release, zookeeper_connect, "--add-config", FIRST_LAST, *ann)
    users = with_users._server.broker.scram_users
    both = {("ann", "SCRAM-SHA-256"), ("ann", "SCRAM-SHA-512")}
    eventually(lambda: {name for name in users.names() if name.name == "ann"}, both)
    with_users.create_topic("events")
    assert topics_for_ann(with_users, "SCRAM-SHA-256", "first") == {"events"}
    assert topics_for_ann(with_users, "SCRAM-SHA-512", "last") == {"events"}
    alter(release, zookeeper_connect, "--delete-config", "SCRAM-SHA-256", *ann)
    eventually(lambda: {name for name in users.names() if name.name == "ann"}, {("ann", "SCRAM-SHA-512")})


def test_settings_of_brokers_that_kafka_configs_altered_before_the_start_are_used(zookeeper_connect: str) -> None:
    """Kafka 3.9's tool refuses to alter them in ZooKeeper while a broker runs."""
    with EmbeddedBroker(settings={"zookeeper.connect": zookeeper_connect}):
        pass
    release = LAST_KAFKA_WITH_ZOOKEEPER
    brokers = ("--entity-type", "brokers")
    alter(release, zookeeper_connect, "--add-config", "log.retention.ms=1000", *brokers, "--entity-default")
    alter(release, zookeeper_connect, "--add-config", "log.cleaner.threads=2", *brokers, "--entity-name", "1")
    with EmbeddedBroker(settings={"zookeeper.connect": zookeeper_connect}) as broker:
        eventually(
            lambda: (broker._server.broker.config.log.retention_ms, broker._server.broker.config.log_cleaner_threads),
            (1000, 2),
        )
