"""Message formats v0 and v1 before judges that are not ours: Kafka's DumpLogSegments, and clients of then and now."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.opening import open_log
from broker_embedded._platform.platform import Platform
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._records.compression import compress
from spark_kafka_native._records.legacy import CODECS
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import Client, Record
from tests.support.clients.kafka_python import KafkaPythonClient
from tests.support.clients.native import OurClient
from tests.support.records.log_batches import batch
from tests.support.records.message_sets import entry, message_set, shapes
from tests.support.report import skip_if
from tests.support.requests.raw_client import RawClient
from tests.support.servers.apache_kafka import apache_kafka_unavailable, dump_log, run_tool

pytestmark = pytest.mark.interop

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("kafka", reason="kafka-python is not installed")

RELEASES = {0: "0.9.0", 1: "0.10.2", 2: "3.0"}
SMALL = {"segment.bytes": "6000", "index.interval.bytes": "300"}


# --- on the disk -----------------------------------------------------------------------------------------------------


def write_log(directory: Path, magic: int | None) -> int:
    """A log in one format, or with ``magic=None`` in all of them; how many records are in it."""
    skip_if(apache_kafka_unavailable())
    directory.mkdir(parents=True)
    log = open_log(directory, LogConfig.parse(SMALL), Platform())
    now_ms = int(time.time() * 1000)
    for turn in range(3):
        for wanted in (0, 1, 2) if magic is None else (magic,):
            log.reconfigure(LogConfig.parse({**SMALL, "message.format.version": RELEASES[wanted]}))
            for codec in CODECS:
                values = [b"%096d" % index for index in range(20)]
                times = [now_ms + 1000 * turn + (index * 7) % 20 for index in range(20)]
                keys = [b"k%d" % index for index in range(20)]
                for sent in (0, 1):
                    records = message_set(*values, keys=keys, magic=sent, timestamps=times, compression=codec)
                    log.append(records, leader_epoch=0)
                log.append(batch(*values, timestamps=times, compression=codec), leader_epoch=0)
                # As some producers leave a wrapper: its time 0, and its offset too.
                inner = bytes(message_set(*values, timestamps=times))
                wrapper = entry(offset=0, attributes=1, timestamp=0, key=None, value=compress(CODECS[1], inner))
                log.append(bytearray(wrapper), leader_epoch=0)
    end = log.log_end_offset
    log.close()
    return end


@pytest.mark.parametrize("magic", [0, 1, None])
def test_kafkas_own_tool_finds_nothing_wrong(tmp_path: Path, magic: int | None) -> None:
    directory = tmp_path / "t-0"
    end = write_log(directory, magic)
    assert len(list(directory.glob("*.log"))) > 3

    def dump(suffix: str, *options: str) -> str:
        return dump_log(sorted(directory.glob(f"*{suffix}")), *options)

    output = dump(".log", "--deep-iteration", "--print-data-log")
    offsets = [int(number) for number in re.findall(r"^\| offset: (\d+) .*payload: \d{96}$", output, re.MULTILINE)]
    assert offsets == list(range(end))
    found = re.findall(r"^.*magic: (\d) compresscodec: (\w+) crc: \d+ isvalid: (\w+)", output, re.MULTILINE)
    assert {valid for _, _, valid in found} == {"true"}
    expected = {magic} if magic is not None else {0, 1, 2}
    assert {int(number) for number, _, _ in found} == expected
    assert set(Counter(codec for _, codec, _ in found)) == {codec.label for codec in CODECS}
    for suffix, options in ((".index", ["--index-sanity-check"]), (".index", []), (".timeindex", [])):
        output = dump(suffix, *options)
        for complaint in ("Mismatches", "mismatch", "Non-", "out of order", "Found", "Exception"):
            assert complaint not in output, output


# --- clients ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["0.9", "0.10.2", "2.8"])
def old_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerProcess, str]]:
    """A broker that passes for an old release of Kafka, and which."""
    with BrokerProcess(tmp_path_factory.mktemp("old"), settings={"as.version": request.param}) as broker:
        yield broker, request.param


@pytest.mark.parametrize("release", [(0, 9), (0, 10)])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_a_client_of_then_on_a_broker_of_then(
    old_broker: tuple[BrokerProcess, str], release: tuple[int, int], codec: str
) -> None:
    broker, of_release = old_broker
    if of_release == "0.9" and release > (0, 9):
        pytest.skip("that broker is older than the client")
    client = KafkaPythonClient(release)
    topic = f"t-{release[1]}-{codec}"
    records = [Record(b"k%d" % index, b"%050d" % index) for index in range(300)]
    places = client.produce(broker.bootstrap_servers, topic, records, compression=codec)
    assert [offset for _, offset in places] == list(range(300))
    stored = client.consume(broker.bootstrap_servers, topic, {0: 300})
    assert [(record.offset, record.key, record.value) for record in stored] == [
        (index, record.key, record.value) for index, record in enumerate(records)
    ]


TOPICS = [(magic, codec) for magic in RELEASES for codec in CODECS]
VALUES = [b"%d" % index for index in range(50)]


def topic_of(magic: int, codec: CompressionType) -> str:
    return f"format-{magic}-{codec.label}"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of 2.8 whose topics have their records in each format and codec: VALUES as v0 and as v1, in each."""
    directory = tmp_path_factory.mktemp("filled")
    with BrokerProcess(directory, settings={"as.version": "2.8"}) as broker, RawClient(broker.bootstrap_servers) as raw:
        for magic, codec in TOPICS:
            topic = topic_of(magic, codec)
            broker.create_topic(topic, configs={"message.format.version": RELEASES[magic]})
            for sent in (0, 1):
                now_ms = int(time.time() * 1000)
                records = message_set(*VALUES, magic=sent, compression=codec, timestamps=now_ms)
                data = PartitionProduceData(index=0, records=records)
                topics = (TopicProduceData(name=topic, partition_data=(data,)),)
                response = raw.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 2)
                assert response.responses[0].partition_responses[0].error_code == 0
        yield broker


READERS: list[Client] = [ConfluentClient(), KafkaPythonClient(), KafkaPythonClient((0, 9)), OurClient()]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@pytest.mark.parametrize(("magic", "codec"), TOPICS)
def test_every_client_reads_every_format(
    filled: BrokerProcess, reader: Client, magic: int, codec: CompressionType
) -> None:
    if codec is CompressionType.LZ4 and isinstance(reader, KafkaPythonClient) and (magic == 0 or "0.9" in reader.name):
        pytest.importorskip("xxhash", reason="kafka-python needs the package xxhash for that")
    stored = reader.consume(filled.bootstrap_servers, topic_of(magic, codec), {0: 100})
    assert [(record.offset, record.value) for record in stored] == list(enumerate(VALUES * 2))


@pytest.mark.parametrize(("magic", "codec"), [topic for topic in TOPICS if topic[0] < 2])
def test_kafkas_consumer_of_today_reads_every_format(filled: BrokerProcess, magic: int, codec: CompressionType) -> None:
    skip_if(apache_kafka_unavailable())
    output = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", filled.bootstrap_servers, "--topic", topic_of(magic, codec), "--partition", "0"),
        *("--offset", "earliest", "--max-messages", "100", "--timeout-ms", "20000"),
    )
    assert [line.encode() for line in output.splitlines()] == VALUES * 2


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("reader", [ConfluentClient(), OurClient()], ids=lambda reader: reader.name)
def test_every_client_reads_what_the_broker_has_compressed(tmp_path: Path, reader: Client, name: str) -> None:
    with BrokerProcess(tmp_path) as broker:
        broker.create_topic("t", configs={"compression.type": name})
        records = [Record(b"k%d" % index, b"%050d" % index, (("h", b"x"),)) for index in range(500)]
        assert [offset for _, offset in reader.produce(broker.bootstrap_servers, "t", records)] == list(range(500))
        stored = reader.consume(broker.bootstrap_servers, "t", {0: 500})
        assert [(record.key, record.value, record.headers) for record in stored] == [record[:3] for record in records]
    stored_in = {codec for path in (tmp_path / "t-0").glob("*.log") for _, codec, _ in shapes(path.read_bytes())}
    assert stored_in == {CompressionType.NONE if name == "uncompressed" else CompressionType[name.upper()]}
