from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from broker_embedded.tools import main
from spark_kafka_native._client.admin.configs import Resource, ResourceType, describe_configs
from spark_kafka_native._client.admin.topics import create_partitions
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.groups.topic_filters import Blacklist, Whitelist
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._mirror.config import MirrorConfig
from spark_kafka_native._mirror.mirror import Mirror
from spark_kafka_native.clients import ProducerRecord, SimpleConsumer
from tests.support.tools import calling
from tests.system.spark_kafka_native.mirror.conftest import SETTINGS, Clusters, await_copies, read, send

each_guarantee = pytest.mark.parametrize("exactly_once", [False, True], ids=["at least once", "exactly once"])


@each_guarantee
def test_records_are_copied_as_they_are(clusters: Clusters, exactly_once: bool) -> None:
    records = [
        ProducerRecord(clusters.topic, value, key, partition, 1_700_000_000_000 + number, headers)
        for number, (value, key, partition, headers) in enumerate(
            [
                (b"v", b"k", 0, [("a", b"1"), ("a", None)]),
                (None, b"k", 1, ()),
                (b"", None, 1, [("", b"")]),
                (b"\xff" * 5000, b"\x00", 0, ()),
            ]
        )
    ]
    send(clusters.source, records)
    prefix = f"copy-{exactly_once}-"
    copies = prefix + clusters.topic
    with Mirror(clusters.config(prefix=prefix, exactly_once=exactly_once, streams=2)) as mirror:
        await_copies(mirror, lambda: [len(clusters.copied(copies, partition)) for partition in (0, 1)], [2, 2])
    for partition in (0, 1):
        expected = [each[2:] for each in read(clusters.source, clusters.topic, partition)]
        assert [each[2:] for each in read(clusters.target, copies, partition)] == expected


@pytest.fixture
def west(clusters: Clusters) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=SETTINGS, topics={clusters.topic: 1}) as running:
        yield running


def test_several_sources_become_one_cluster(clusters: Clusters, west: EmbeddedBroker) -> None:
    clusters.write(range(10))
    send(west, [ProducerRecord(clusters.topic, b"west")])
    other = Clusters(west, clusters.target, clusters.topic)
    sources = (clusters.config(prefix="east.").sources[0], other.config(prefix="west.").sources[0])
    config = clusters.config()
    with Mirror(MirrorConfig(sources=sources, target=config.target, topics=config.topics)) as mirror:
        await_copies(mirror, lambda: len(clusters.copied(f"east.{clusters.topic}")), 10)
        await_copies(mirror, lambda: len(clusters.copied(f"west.{clusters.topic}")), 1)
        assert mirror.metrics.records == 11


def test_topics_are_chosen_by_their_names_and_found_while_the_mirror_runs(clusters: Clusters) -> None:
    names = [f"{clusters.topic}-{name}" for name in ("orders", "visits", "later")]
    for name in names[:2]:
        clusters.source.create_topic(name)
        send(clusters.source, [ProducerRecord(name, b"v")])
    source = {"metadata.max.age.ms": "100"}
    chosen = clusters.config(Whitelist(f"{clusters.topic}-.*s,{clusters.topic}-later"), prefix="in.", source=source)
    with Mirror(chosen) as mirror:
        await_copies(mirror, lambda: [clusters.copied(f"in.{name}") for name in names[:2]], [[b"v"], [b"v"]])
        clusters.source.create_topic(names[2])
        send(clusters.source, [ProducerRecord(names[2], b"v")])
        await_copies(mirror, lambda: clusters.copied(f"in.{names[2]}"), [b"v"])
    everything_else = Blacklist(f"topic-.*orders|(?!{clusters.topic}).*")
    clusters.group_id += "-2"
    with Mirror(clusters.config(everything_else, prefix="out.")) as mirror:
        await_copies(mirror, lambda: [clusters.copied(f"out.{name}") for name in names], [[], [b"v"], [b"v"]])
    assert not [name for name in clusters.target.topics() if name.startswith(("in.__", "out.__"))]


def test_partitions_that_are_added_while_the_mirror_runs_are_copied(clusters: Clusters) -> None:
    clusters.write(range(1))
    with Mirror(clusters.config(source={"metadata.max.age.ms": "100"})) as mirror:
        await_copies(mirror, clusters.copied, [b"0"])
        assert clusters.target.topics()[clusters.topic] == 2
        with Cluster(ClientConfig.parse({"bootstrap.servers": clusters.source.bootstrap_servers})) as cluster:
            create_partitions(cluster, {clusters.topic: 4})
        send(clusters.source, [ProducerRecord(clusters.topic, b"new", partition=3)])
        await_copies(mirror, lambda: clusters.copied(partition=3), [b"new"])
    assert clusters.target.topics()[clusters.topic] == 4


def test_a_new_topic_has_the_settings_of_the_source(clusters: Clusters) -> None:
    configs = {"cleanup.policy": "compact", "min.insync.replicas": "1", "message.timestamp.type": "LogAppendTime"}
    name = f"{clusters.topic}-configured"
    clusters.source.create_topic(name, configs=configs)
    send(clusters.source, [ProducerRecord(name, b"v", key=b"k")])
    with Mirror(clusters.config(Whitelist(name))) as mirror:
        await_copies(mirror, lambda: clusters.copied(name), [b"v"])
    with Cluster(ClientConfig.parse({"bootstrap.servers": clusters.target.bootstrap_servers})) as cluster:
        entries = describe_configs(cluster, Resource(type=ResourceType.TOPIC, name=name))
    assert {key: each.value for key, each in entries.items() if each.is_set_on(ResourceType.TOPIC)} == {
        "cleanup.policy": "compact"
    }
    (at_source,), (at_target,) = read(clusters.source, name), read(clusters.target, name)
    assert (at_target.timestamp_ms, at_target.is_log_append_time) == (at_source.timestamp_ms, False)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_stay_compressed_as_they_are(
    clusters: Clusters, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    clusters.write([b"x" * 1000] * 50, compression_type=codec)
    clusters.copy(clusters.config(), 50)
    dump = calling(main, capfd, monkeypatch)

    def batches(broker: EmbeddedBroker) -> list[list[str]]:
        file = Path(broker.log_directory) / f"{clusters.topic}-0" / "00000000000000000000.log"
        shown = dump("kafka-dump-log", "--files", str(file)).lines[2:]
        words = [dict(pair.split(": ") for pair in _pairs(line)) for line in shown]
        return [[each[name] for name in ("count", "size", "compresscodec")] for each in words]

    at_source = batches(clusters.source)
    assert batches(clusters.target) == at_source
    assert {codec for _, _, codec in at_source} == {codec}


def _pairs(line: str) -> list[str]:
    words = line.split(" ")
    return [f"{name} {value}" for name, value in zip(words[::2], words[1::2], strict=False)]


@each_guarantee
def test_aborted_and_open_transactions_are_not_copied(clusters: Clusters, exactly_once: bool) -> None:
    import pyarrow as pa  # for this test alone

    rows = pa.RecordBatch.from_pydict({"value": [b"committed"], "partition": pa.array([0], pa.int32())})
    config = ClientConfig.parse({"bootstrap.servers": clusters.source.bootstrap_servers})
    with Cluster(config) as cluster:
        with TransactionalProducer(cluster, f"id-{clusters.topic}") as producer:
            for ends in ("abort", "commit", "abort"):
                producer.begin()
                producer.send(clusters.topic, rows)
                getattr(producer, ends)()
            clusters.write([b"plain"])
            producer.begin()
            producer.send(clusters.topic, rows)
            producer.flush()
            clusters.write([b"after an open one"])
            clusters.copy(clusters.config(exactly_once=exactly_once), 2)
            assert clusters.copied() == [b"committed", b"plain"]
            producer.commit()
        clusters.copy(clusters.config(exactly_once=exactly_once), 4)
    assert clusters.copied() == [b"committed", b"plain", b"committed", b"after an open one"]


@each_guarantee
def test_the_next_run_continues_where_the_last_one_ended(clusters: Clusters, exactly_once: bool) -> None:
    config = clusters.config(exactly_once=exactly_once)
    for count in (10, 20, 30):
        clusters.write(range(count - 10, count))
        clusters.copy(config, count)
    assert clusters.copied() == [b"%d" % number for number in range(30)]
    where = clusters.target if exactly_once else clusters.source
    with SimpleConsumer({"bootstrap.servers": where.bootstrap_servers}) as consumer:
        committed = {str(part): each.offset for part, each in consumer.committed_offsets(clusters.group_id).items()}
    assert committed[f"{clusters.topic}-0"] == 30


def test_offsets_remain_until_they_are_copied(clusters: Clusters) -> None:
    clusters.write(range(10))
    with Mirror(clusters.config()) as mirror:
        (source,) = mirror.sources
        ends = source.ends()
        assert {str(part): end for part, end in ends.items()} == {f"{clusters.topic}-0": 10, f"{clusters.topic}-1": 0}
        await_copies(mirror, lambda: source.remaining(ends), 0)
        clusters.source.faults.pause_fetches(clusters.topic)
        clusters.write(range(5))
        assert source.remaining(source.ends()) == 5
        assert source.remaining(ends) == 0
