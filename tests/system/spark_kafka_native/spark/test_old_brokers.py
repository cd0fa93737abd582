"""The source on brokers of all releases since 0.10.0, over topics in all message formats, without Spark."""

from collections.abc import Iterator, Mapping

import pytest

from broker_embedded._config.releases import RELEASE_NAMES, release
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.cluster.shared import close_shared_clusters
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.batch import plan_batch_query
from spark_kafka_native._spark.planning.bounds import Clock
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native._spark.planning.packing import Task
from spark_kafka_native._spark.planning.stream import StreamOffsets
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.reader import read_task
from spark_kafka_native._spark.source.schema import source_schema
from tests.support.records.message_sets import message_set
from tests.support.records.record_batches import batch_of
from tests.support.requests.raw_client import RawClient

pytestmark = pytest.mark.feature("client.oldBrokers")

RELEASES = [name for name in RELEASE_NAMES if release(name).since("0.10.0") and not release(name).since("4.0")]
OFTEN = {"0.10.0", "0.10.1", "0.11", "2.3"}
"""Releases with the most changes; the long tests have the others."""
FORMATS = {0: "0.9.0", 1: "0.10.0", 2: "0.11.0"}
CODECS = [CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4]
LAYOUT = layout_of(source_schema(include_headers=True))
START_MS = 1_700_000_000_000
EACH = 5


@pytest.fixture(params=[pytest.param(name, marks=[] if name in OFTEN else pytest.mark.interop) for name in RELEASES])
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def broker(name: str) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"as.version": name}) as running:
        yield running
    close_shared_clusters()


def write(broker: EmbeddedBroker, topic: str, records: bytes | bytearray, version: int) -> None:
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
    )
    with RawClient(broker.bootstrap_servers) as raw:
        assert raw.ask(request, version).responses[0].partition_responses[0].error_code == 0


def fill(broker: EmbeddedBroker, name: str) -> dict[str, list[bytes]]:
    """A topic for each format that the release can store, written by clients of each format; their values."""
    written: dict[str, list[bytes]] = {}
    batches_too = release(name).since("0.11")
    for magic, setting in FORMATS.items():
        if magic == 2 and not batches_too:
            continue
        topic = f"t-v{magic}"
        broker.create_topic(topic, configs={"message.format.version": setting})
        values = written.setdefault(topic, [])
        for codec in CODECS:
            for sent in (0, 1):
                new = [b"%d:%d" % (len(values), row) for row in range(EACH)]
                write(broker, topic, message_set(*new, magic=sent, compression=codec, timestamps=START_MS), 2)
                values += new
            if batches_too:
                new = [b"%d:%d" % (len(values), row) for row in range(EACH)]
                write(broker, topic, batch_of(new, compression=codec, timestamp_ms=START_MS + 1000), 3)
                values += new
    return written


def options(broker: EmbeddedBroker, query: Query, **given: str) -> SourceOptions:
    known = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.default.api.timeout.ms": "20000"}
    what = {} if "subscribe" in given else {"subscribePattern": "t-.*"}
    return parse_source_options(known | what | given, query)


def values_of(parsed: SourceOptions, tasks: list[Task]) -> Mapping[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for task in tasks:
        for batch in read_task(parsed, LAYOUT, task):
            for row in batch.to_pylist():
                found.setdefault(row["topic"], []).append(row["value"])
    return found


def read_batch(broker: EmbeddedBroker, **given: str) -> Mapping[str, list[bytes]]:
    parsed = options(broker, Query.BATCH, **given)
    return values_of(parsed, plan_batch_query(parsed, ClusterOffsets(parsed.client), Clock()))


def test_batch_and_stream(name: str, broker: EmbeddedBroker) -> None:
    written = fill(broker, name)
    assert read_batch(broker) == written
    for level in ("read_committed", "read_uncommitted"):
        some = read_batch(broker, startingOffsets="earliest", minPartitions="9", **{"kafka.isolation.level": level})
        assert some == written
        assert read_batch(broker, maxPartitions="1", **{"kafka.isolation.level": level}) == written
    within = '{"t-v1":{"0":%d}}'
    inner = read_batch(broker, subscribe="t-v1", startingOffsets=within % 7, endingOffsets=within % 33)
    assert inner == {"t-v1": written["t-v1"][7:33]}

    parsed = options(broker, Query.STREAM, startingOffsets="earliest")
    stream = StreamOffsets(parsed, ClusterOffsets(parsed.client), Clock())
    start, found = stream.initial(), {topic: list[bytes]() for topic in written}
    while (end := stream.latest(start, 25)) != start:
        for topic, values in values_of(parsed, stream.plan(start, end)).items():
            found[topic] += values
        start = end
    assert found == written


def test_starting_at_a_time(name: str, broker: EmbeddedBroker) -> None:
    fill(broker, name)
    asked = {"startingTimestamp": str(START_MS + 500), "startingOffsetsByTimestampStrategy": "latest"}
    if not release(name).since("0.10.1"):
        with pytest.raises(KafkaError, match=r"t-v1-0: looking up timestamp \d+ needs ListOffsets v1"):
            read_batch(broker, subscribe="t-v1", **asked)
        return
    found = read_batch(broker, subscribe="t-v1", **asked)
    if release(name).since("0.11"):
        assert found["t-v1"][0] == b"%d:0" % (2 * EACH), "the first that was written with the later time"
    else:
        assert found == {}
