"""Whole data directories change hands between Apache Kafka and the bundled broker; docs/data-directory.md names these.

Kafka 4 runs in combined KRaft mode, with the controller's metadata in the same directory; Kafka 3.9 on ZooKeeper.
"""

import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from dirty_equals import Contains, IsStr

from broker_embedded._broker import Broker, DataDirectoryError
from broker_embedded._config.config import BrokerConfig
from broker_embedded._log.checkpoints import read_meta_properties, read_partition_metadata
from broker_embedded._platform.platform import Platform, RealFileSystem
from broker_embedded._zookeeper_server.programs import shell_command
from broker_embedded.testing import BrokerProcess, EmbeddedZooKeeper
from spark_kafka_native._protocol.ids import format_id
from spark_kafka_native._protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker.driver import batch, idempotent, produce_request
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import Record
from tests.support.report import skip_if
from tests.support.requests.consumer_group import RawConsumer, describe, settle
from tests.support.requests.raw_client import RawClient
from tests.support.servers.apache_kafka import (
    LAST_KAFKA_WITH_ZOOKEEPER,
    ApacheKafka,
    apache_kafka_unavailable,
    run_tool,
)
from tests.support.servers.both_brokers import kafka_of_its_own
from tests.support.servers.brokers import Server
from tests.support.servers.kafka_on_zookeeper import KafkaOnZooKeeper
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

TOPIC, PARTITIONS, RECORDS = "events", 3, 20
OLD_GROUP, NEW_GROUP = "old-group", "new-group"
OFFSETS = {0: 7, 2: 11}
COMPACTED, KEPT = "compacted", "kept"
OLD_MS = 10 * 24 * 60 * 60 * 1000
PAGE = Path(__file__).parents[2] / "docs" / "data-directory.md"
OF_TRANSACTIONS = Path(__file__).with_name("test_exchanged_transactions.py")
SETTINGS = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
CLIENT = ConfluentClient()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The responses to clients before a directory changed brokers."""

    producer_id: int
    group_epoch: int
    leader_epochs: tuple[int, ...]


def values(first: int, count: int) -> list[Record]:
    now_ms = int(time.time() * 1000)
    return [
        Record(None, b"%d" % number, (), now_ms, partition)
        for number in range(first, first + count)
        for partition in range(PARTITIONS)
    ]


def fill(broker: Server) -> Seen:
    """Records, a producer that is under way in partition 0, and groups of both kinds."""
    servers = broker.bootstrap_servers
    broker.create_topic(TOPIC, PARTITIONS)
    CLIENT.produce(servers, TOPIC, values(0, RECORDS))
    CLIENT.commit(servers, OLD_GROUP, TOPIC, OFFSETS)
    with RawConsumer(servers, NEW_GROUP, TOPIC) as member:
        member.join()
        settle(member)
        epoch = describe(member.client, NEW_GROUP).group_epoch
        member.leave()
    with RawClient(servers) as client:
        producer_id = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 2)
        assert send(client, producer_id.producer_id, 0) == RECORDS
        assert send(client, producer_id.producer_id, 1) == RECORDS + 1
    return Seen(producer_id=producer_id.producer_id, group_epoch=epoch + 1, leader_epochs=leader_epochs(broker))


def send(client: RawClient, producer_id: int, sequence: int) -> int:
    """One record of an idempotent producer; its offset."""
    sent = batch(b"sequence %d" % sequence, timestamp_ms=int(time.time() * 1000))
    records = idempotent(sent, producer_id=producer_id, sequence=sequence)
    (response,) = client.ask(produce_request(TOPIC, records), 9).responses[0].partition_responses
    assert response.error_code == 0, response
    return response.base_offset


def leader_epochs(broker: Server) -> tuple[int, ...]:
    with RawClient(broker.bootstrap_servers) as client:
        (topic,) = client.ask(MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),)), 12).topics
    return tuple(part.leader_epoch for part in sorted(topic.partitions, key=lambda part: part.partition_index))


def assert_all_is_there(broker: Server, seen: Seen) -> None:
    """Records, offsets of groups, and producer state; then all clients continue."""
    servers = broker.bootstrap_servers
    ends = {0: RECORDS + 2, 1: RECORDS, 2: RECORDS}
    stored = CLIENT.consume(servers, TOPIC, ends)
    expected = [b"%d" % number for number in range(RECORDS)]
    for partition in range(PARTITIONS):
        found = [record.value for record in stored if record.partition == partition]
        assert found == expected + [b"sequence 0", b"sequence 1"] * (partition == 0)
    assert CLIENT.committed(servers, OLD_GROUP, TOPIC, [0, 1, 2]) == {0: 7, 1: None, 2: 11}
    with RawClient(servers) as client:
        assert send(client, seen.producer_id, 1) == RECORDS + 1, "a repetition is not taken for a new record"
        assert send(client, seen.producer_id, 2) == RECORDS + 2
    # New producers have ids of their own: with an old one's, their first records would pass for repetitions.
    for _ in range(3):
        CLIENT.produce(servers, TOPIC, values(RECORDS, 1))
    assert [CLIENT.watermarks(servers, TOPIC, number)[1] for number in range(PARTITIONS)] == [26, 23, 23]
    CLIENT.commit(servers, OLD_GROUP, TOPIC, {1: 9})


def assert_the_new_group_continues(broker: Server, seen: Seen) -> None:
    with RawConsumer(broker.bootstrap_servers, NEW_GROUP, TOPIC) as member:
        assert describe(member.client, NEW_GROUP).group_epoch == seen.group_epoch
        member.join()
        settle(member)
        assert (member.epoch, member.numbers()) == (seen.group_epoch + 1, [0, 1, 2])
        member.leave()


def shell_of_page(begin: str) -> str:
    """The commands on the page that name ``begin``."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = (block for block in blocks if begin in block)
    return str(found)


def ids(directory: Path) -> dict[str, str]:
    found = {
        path.parent.name: read_partition_metadata(RealFileSystem(), str(path))
        for path in directory.glob("*/partition.metadata")
    }
    return {name: format_id(topic_id) for name, topic_id in found.items() if topic_id is not None}


def test_the_page_names_the_tests_that_are_here() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    here = {name for name in globals() if name.startswith("test_")}
    of_transactions = set(re.findall(r"^def (test_\w+)", OF_TRANSACTIONS.read_text(), re.MULTILINE))
    assert named - of_transactions == here - {"test_the_page_names_the_tests_that_are_here"}


# --- an Apache Kafka's, in ours --------------------------------------------------------------------------------------


kafka = kafka_of_its_own()


@pytest.fixture(scope="module")
def seen(kafka: ApacheKafka) -> Seen:
    """What clients saw of Kafka, which has stopped then; a crash before has moved its leader epochs."""
    servers = kafka.bootstrap_servers
    for topic, configs in ((COMPACTED, {"cleanup.policy": "compact"}), (KEPT, {"retention.ms": "-1"})):
        kafka.create_topic(topic, configs=configs)
        CLIENT.produce(servers, topic, [Record(b"key", b"old", (), int(time.time() * 1000) - OLD_MS)])
    seen = fill(kafka)
    kafka.kill()
    kafka.restart()
    epochs = leader_epochs(kafka)
    kafka.stop()
    return Seen(producer_id=seen.producer_id, group_epoch=seen.group_epoch, leader_epochs=epochs)


@pytest.fixture(scope="module")
def left(kafka: ApacheKafka, seen: Seen, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kafka's data directory as it was left first."""
    assert seen
    return shutil.copytree(kafka.log_directory, tmp_path_factory.mktemp("left") / "data")


@pytest.fixture
def theirs(left: Path, tmp_path: Path) -> Path:
    """A copy of Kafka's data directory."""
    return shutil.copytree(left, tmp_path / "kafka-data")


@pytest.fixture
def stopped(kafka: ApacheKafka, left: Path) -> ApacheKafka:
    """Kafka, stopped, with its data directory as it was left first."""
    kafka.stop()
    shutil.rmtree(kafka.log_directory)
    shutil.copytree(left, kafka.log_directory)
    return kafka


def test_a_directory_of_kafka_opens_in_ours(theirs: Path, seen: Seen) -> None:
    assert {"__cluster_metadata-0", "bootstrap.checkpoint", "__consumer_offsets-0"} <= set(os.listdir(theirs))
    before = {name: (theirs / "__cluster_metadata-0" / name).read_bytes() for name in ("quorum-state",)}
    topic_ids = ids(theirs)
    with BrokerProcess(theirs, settings=SETTINGS) as broker:
        assert broker.topics() == {TOPIC: PARTITIONS, COMPACTED: 1, KEPT: 1, "__consumer_offsets": 3}
        assert leader_epochs(broker) == seen.leader_epochs
        assert min(seen.leader_epochs) > 0
        assert_all_is_there(broker, seen)
        assert_the_new_group_continues(broker, seen)
    assert ids(theirs) == topic_ids
    assert before == {name: (theirs / "__cluster_metadata-0" / name).read_bytes() for name in before}
    topics = {topic["name"]: topic for topic in json.loads((theirs / "topics.json").read_text())["topics"]}
    assert topics["__consumer_offsets"]["configs"]["cleanup.policy"] == "compact"


def test_nothing_is_deleted_before_configs_are_set(theirs: Path) -> None:
    often = {**SETTINGS, "log.retention.check.interval.ms": "20"}
    with BrokerProcess(theirs, settings={**often, "log.retention.ms": "-1"}) as broker:
        resource = ("--alter", "--entity-type", "topics", "--entity-name", COMPACTED)
        server = ("--bootstrap-server", broker.bootstrap_servers)
        run_tool("kafka.admin.ConfigCommand", *server, *resource, "--add-config", "cleanup.policy=compact")
        assert [CLIENT.watermarks(broker.bootstrap_servers, topic, 0) for topic in (COMPACTED, KEPT)] == [(0, 1)] * 2
    with BrokerProcess(theirs, settings=often) as broker:
        eventually(lambda: CLIENT.watermarks(broker.bootstrap_servers, KEPT, 0), (1, 1))
        assert CLIENT.watermarks(broker.bootstrap_servers, COMPACTED, 0) == (0, 1)


def test_a_directory_of_a_kafka_that_crashed_opens_in_ours(theirs: Path, seen: Seen) -> None:
    (theirs / ".kafka_cleanshutdown").unlink()
    log = theirs / f"{TOPIC}-1" / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + b"half a batch")
    with BrokerProcess(theirs, settings=SETTINGS) as broker:
        assert_all_is_there(broker, seen)
        assert "was not closed cleanly" in broker.output


def test_the_node_and_the_cluster_must_be_the_directorys(theirs: Path) -> None:
    meta = read_meta_properties(RealFileSystem(), str(theirs / "meta.properties"))
    assert meta is not None

    def refused(**given: object) -> str:
        config = BrokerConfig.parse({key.replace("_", "."): value for key, value in given.items()})
        with pytest.raises(DataDirectoryError) as caught:
            Broker.open(config, str(theirs), Platform())
        return str(caught.value)

    assert f"{theirs}/meta.properties: belongs to node 1, not 5; set node.id=1, or" in refused(node_id=5)
    assert f"belongs to cluster {meta.cluster_id}, not other" in refused(cluster_id="other")
    settings = {**SETTINGS, "node.id": 1, "cluster.id": meta.cluster_id}
    with BrokerProcess(theirs, settings=settings) as broker:
        assert broker.topics()


def test_kafka_continues_in_its_directory_after_ours(stopped: ApacheKafka, seen: Seen) -> None:
    kafka, directory = stopped, stopped.log_directory
    with BrokerProcess(directory, settings=SETTINGS) as broker:
        assert_all_is_there(broker, seen)
        assert_the_new_group_continues(broker, seen)
        broker.create_topic("unknown-to-kafka")
        CLIENT.produce(broker.bootstrap_servers, "unknown-to-kafka", [Record(None, b"x")])
    kafka.restart()
    servers = kafka.bootstrap_servers

    def ends() -> list[int]:
        return [CLIENT.watermarks(servers, TOPIC, number)[1] for number in range(PARTITIONS)]

    eventually(ends, [26, 23, 23], retrying=(confluent_kafka.KafkaException,))  # it does not lead yet
    assert CLIENT.committed(servers, OLD_GROUP, TOPIC, [0, 1, 2]) == {0: 7, 1: 9, 2: 11}
    assert CLIENT.partitions(servers, "unknown-to-kafka") is None
    CLIENT.produce(servers, TOPIC, values(RECORDS + 1, 1))
    eventually(lambda: os.listdir(directory), Contains(IsStr(regex=r"unknown-to-kafka-0\..*-stray")))
    kafka.stop()
    with BrokerProcess(directory, settings=SETTINGS) as broker:
        assert CLIENT.watermarks(broker.bootstrap_servers, "unknown-to-kafka", 0) == (0, 0)
        servers = broker.bootstrap_servers
        assert [CLIENT.watermarks(servers, TOPIC, number)[1] for number in range(PARTITIONS)] == [27, 24, 24]
        assert "-stray is ignored" in broker.output
    shutil.rmtree(directory / "unknown-to-kafka-0")
    (aside,) = directory.glob("unknown-to-kafka-0.*-stray")
    aside.rename(directory / "unknown-to-kafka-0")
    with BrokerProcess(directory, settings=SETTINGS) as broker:
        assert CLIENT.watermarks(broker.bootstrap_servers, "unknown-to-kafka", 0) == (0, 1)


# --- ours, in an Apache Kafka ----------------------------------------------------------------------------------------


@pytest.fixture
def ours(tmp_path: Path) -> tuple[Path, Seen]:
    """A data directory of ours, closed in order."""
    directory = tmp_path / "our-data"
    with BrokerProcess(directory, settings=SETTINGS) as broker:
        return directory, fill(broker)


def test_kafka_4_takes_our_partitions_in_place_of_its_own(
    stopped: ApacheKafka, ours: tuple[Path, Seen], tmp_path: Path
) -> None:
    directory, seen = ours
    assert directory == tmp_path / "our-data"
    (tmp_path / "kafka-data").symlink_to(stopped.log_directory)
    subprocess.run(["sh", "-e", "-c", shell_of_page("for partition in")], cwd=tmp_path, check=True)
    stopped.restart()
    assert_all_is_there(stopped, seen)
    assert_the_new_group_continues(stopped, seen)
    stopped.stop()


def test_kafka_4_sets_a_directory_of_ours_aside(stopped: ApacheKafka, ours: tuple[Path, Seen], tmp_path: Path) -> None:
    directory, _ = ours
    for number in range(PARTITIONS):
        shutil.copytree(directory / f"{TOPIC}-{number}", tmp_path / f"other-{number}")
        shutil.move(tmp_path / f"other-{number}", stopped.log_directory)
    stopped.restart()
    assert CLIENT.partitions(stopped.bootstrap_servers, "other") is None
    eventually(lambda: len(list(stopped.log_directory.glob("other-*-stray"))), PARTITIONS)
    stopped.stop()


def wait_for_leaders(kafka: KafkaOnZooKeeper, topic: str) -> None:
    """Wait until the broker leads every partition of a topic."""

    def leaders() -> set[int]:
        with RawClient(kafka.bootstrap_servers) as client:
            (found,) = client.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 9).topics
        return {part.leader_id for part in found.partitions}

    eventually(leaders, {1}, within_s=60, retrying=(OSError,))


def register(zookeeper: EmbeddedZooKeeper, directory: Path) -> None:
    """Tell ZooKeeper of the cluster and the topics in a data directory of ours, and the directory of ZooKeeper."""
    files = RealFileSystem()
    meta = read_meta_properties(files, str(directory / "meta.properties"))
    assert meta is not None
    (directory / "meta.properties").write_text(f"version=0\nbroker.id={meta.node_id}\ncluster.id={meta.cluster_id}\n")
    nodes: dict[str, object] = {"/cluster/id": {"version": "1", "id": meta.cluster_id}}
    for topic in json.loads((directory / "topics.json").read_text())["topics"]:
        name = topic["name"]
        nodes[f"/brokers/topics/{name}"] = {
            "version": 3,
            "topic_id": ids(directory)[f"{name}-0"],
            "partitions": {str(number): part["replicas"] for number, part in enumerate(topic["partitions"])},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        nodes[f"/config/topics/{name}"] = {"version": 1, "config": topic["configs"]}
    parents = ("/cluster", "/brokers", "/brokers/topics", "/config", "/config/topics")
    commands = [f"create {path}" for path in parents]
    commands += [f"create {path} {json.dumps(node, separators=(',', ':'))}" for path, node in nodes.items()]
    shell = shell_command(zookeeper.connect_string)
    done = subprocess.run(
        shell, input="\n".join([*commands, "quit", ""]), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("Created /") == len(commands), done.stdout + done.stderr


def test_kafka_3_9_on_zookeeper_opens_our_directory(ours: tuple[Path, Seen], tmp_path: Path) -> None:
    skip_if(apache_kafka_unavailable(LAST_KAFKA_WITH_ZOOKEEPER))
    directory, seen = ours
    topic_ids = ids(directory)
    with EmbeddedZooKeeper() as zookeeper:
        register(zookeeper, directory)
        with KafkaOnZooKeeper(connect=zookeeper.connect_string, log_directory=directory) as kafka:
            wait_for_leaders(kafka, TOPIC)
            assert_all_is_there(kafka, seen)
            kafka.stop()
    assert ids(directory) == topic_ids
    with BrokerProcess(directory, settings=SETTINGS) as broker:
        servers = broker.bootstrap_servers
        assert [CLIENT.watermarks(servers, TOPIC, number)[1] for number in range(PARTITIONS)] == [26, 23, 23]
        assert CLIENT.committed(servers, OLD_GROUP, TOPIC, [0, 1, 2]) == {0: 7, 1: 9, 2: 11}
        assert_the_new_group_continues(broker, seen)


def meta_properties(directory: Path) -> dict[str, str]:
    lines = (directory / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def retention_ms(broker: Server, topic: str) -> str | None:
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=("retention.ms",))
    with RawClient(broker.bootstrap_servers) as client:
        (result,) = client.ask(DescribeConfigsRequest(resources=(resource,)), 1).results
    return result.configs[0].value


def test_kafka_3_9_opens_our_directory_on_the_same_zookeeper(zookeeper_connect: str, tmp_path: Path) -> None:
    """Without a registration by hand. And back."""
    skip_if(apache_kafka_unavailable(LAST_KAFKA_WITH_ZOOKEEPER))
    directory, settings = tmp_path / "data", {**SETTINGS, "zookeeper.connect": zookeeper_connect}
    with BrokerProcess(directory, settings=settings) as broker:
        broker.create_topic(KEPT, configs={"retention.ms": "-1"})
        seen = fill(broker)
        meta, topic_ids = meta_properties(directory), ids(directory)
    assert meta["version"] == "0"
    with KafkaOnZooKeeper(connect=zookeeper_connect, log_directory=directory) as kafka:
        wait_for_leaders(kafka, TOPIC)
        assert_all_is_there(kafka, seen)
        kafka.create_topic("later", 2, {"retention.ms": "-1"})
        kafka.stop()
    topic_ids |= {name: topic_id for name, topic_id in ids(directory).items() if name.startswith("later-")}
    assert (meta_properties(directory), ids(directory)) == (meta, topic_ids)
    with BrokerProcess(directory, settings=settings) as broker:
        servers = broker.bootstrap_servers
        assert broker.topics() == {TOPIC: PARTITIONS, KEPT: 1, "later": 2, "__consumer_offsets": 3}
        assert [CLIENT.watermarks(servers, TOPIC, number)[1] for number in range(PARTITIONS)] == [26, 23, 23]
        assert CLIENT.committed(servers, OLD_GROUP, TOPIC, [0, 1, 2]) == {0: 7, 1: 9, 2: 11}
        assert_the_new_group_continues(broker, seen)
        assert retention_ms(broker, KEPT) == "-1"
    assert (meta_properties(directory), ids(directory)) == (meta, topic_ids)


def test_a_directory_of_kafka_3_9_opens_in_ours_on_the_same_zookeeper(zookeeper_connect: str, tmp_path: Path) -> None:
    """And back."""
    skip_if(apache_kafka_unavailable(LAST_KAFKA_WITH_ZOOKEEPER))
    directory, settings = tmp_path / "data", {**SETTINGS, "zookeeper.connect": zookeeper_connect}
    with KafkaOnZooKeeper(connect=zookeeper_connect, log_directory=directory) as kafka:
        kafka.create_topic(TOPIC, PARTITIONS)
        CLIENT.produce(kafka.bootstrap_servers, TOPIC, values(0, RECORDS))
        CLIENT.commit(kafka.bootstrap_servers, OLD_GROUP, TOPIC, OFFSETS)
        kafka.stop()
        meta, topic_ids = meta_properties(directory), ids(directory)
        assert meta["version"] == "0"
        with BrokerProcess(directory, settings=settings) as broker:
            servers = broker.bootstrap_servers
            assert broker.topics() == {TOPIC: PARTITIONS, "__consumer_offsets": 3}
            assert CLIENT.committed(servers, OLD_GROUP, TOPIC, [0, 1, 2]) == {0: 7, 1: None, 2: 11}
            CLIENT.produce(servers, TOPIC, values(RECORDS, 1))
            CLIENT.commit(servers, OLD_GROUP, TOPIC, {1: 9})
            broker.create_topic("later", 2)
        new_ids = {name: topic_id for name, topic_id in ids(directory).items() if name.startswith("later-")}
        assert len(new_ids) == 2
        kafka.start()
        wait_for_leaders(kafka, "later")
        servers = kafka.bootstrap_servers
        stored = CLIENT.consume(servers, TOPIC, dict.fromkeys(range(PARTITIONS), RECORDS + 1))
        for partition in range(PARTITIONS):
            found = [record.value for record in stored if record.partition == partition]
            assert found == [b"%d" % number for number in range(RECORDS + 1)]
        assert CLIENT.committed(servers, OLD_GROUP, TOPIC, [0, 1, 2]) == {0: 7, 1: 9, 2: 11}
        CLIENT.produce(servers, TOPIC, values(RECORDS + 1, 1))
    assert (meta_properties(directory), ids(directory)) == (meta, topic_ids | new_ids)
