"""Our ``kafka-dump-log`` prints what Apache Kafka's prints, of the files of both brokers and of damaged ones."""

import random
import re
import shutil
import struct
from collections.abc import Iterator
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess
from broker_embedded.tools import main
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.delete_groups import DeleteGroupsRequest
from tests.interop.test_exchanged_consumer_groups import GROUPS as CONSUMER_GROUPS
from tests.interop.test_exchanged_consumer_groups import fill as fill_consumer_groups
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import Record
from tests.support.programs.kafka_tools import KafkaTools
from tests.support.requests.classic_group import RawMember, stabilize, wait_for_coordinator
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transactions import LEVELS, RawProducer
from tests.support.servers.both_brokers import running_broker
from tests.support.servers.brokers import AnyBroker
from tests.support.spark.hard_topics import HardTopics

pytestmark = [pytest.mark.interop, pytest.mark.timeout(500)]

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "200",
    "offsets.topic.num.partitions": "3",
}
CLASSIC_GROUPS = ("classic", "odd", "connect", "deleted", "simple")
SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
FIRST_GAP = re.compile(r"  -1 is followed by ")
"""Kafka 4.3 reports the first record of every segment that does not begin at offset 0."""


@pytest.fixture(scope="module", params=["bundled", "apache"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """The files of partitions of every kind, of a broker that has ended."""
    with running_broker(request.param, tmp_path_factory.mktemp("data"), SETTINGS) as broker:
        small = {"bundled": "segment.bytes", "apache": "internal.segment.bytes"}[request.param]
        write(HardTopics(broker, segment_setting=small), broker)
        broker.stop()
        yield files_of(broker.log_directory)


def write(topics: HardTopics, broker: AnyBroker) -> None:
    topics.write()
    topics.close()
    broker.create_topic("shared", 6)
    with RawClient(broker.bootstrap_servers) as client:
        for group in (*CONSUMER_GROUPS, *CLASSIC_GROUPS):
            wait_for_coordinator(client, group)
    fill_consumer_groups(broker)
    fill_classic_groups(broker.bootstrap_servers)
    for level in LEVELS:
        with RawProducer(broker.bootstrap_servers, f"id-{level}", level=level) as producer:
            producer.begin()
            producer.write(topics.plain, "a", "b")
            producer.send_offsets("simple", {(topics.plain, 0): 5})
            producer.commit()
            producer.write(topics.plain, "c")


def fill_classic_groups(servers: str) -> None:
    """A stable group, one whose members say what no consumer says, one of another protocol type, and a deleted one."""
    static, other = (RawMember(servers, "classic", topics=("shared", "plain"), instance_id=name) for name in "ij")
    with static, other:
        stabilize(static, other)
        assert static.commit("shared", 11) is ErrorCode.NONE
    for group, protocol_type, metadata in (("odd", "consumer", b"\0"), ("connect", "connect", b"http://worker")):
        with RawMember(servers, group, instance_id="w") as worker:
            worker.protocol_type, worker.protocols = protocol_type, {"compatible": metadata}
            stabilize(worker)
    with RawMember(servers, "deleted", topics=("shared",)) as leaves:
        stabilize(leaves)
        assert leaves.commit("shared", 12) is ErrorCode.NONE
        leaves.leave()
        assert leaves.client.ask(DeleteGroupsRequest(groups_names=("deleted",)), 2).results[0].error_code == 0


def files_of(data: Path) -> list[Path]:
    """Without KRaft's log: its control records have types that are not read here."""
    return sorted(path for path in data.glob("*-[0-9]*/*") if path.suffix in SUFFIXES and "__cluster" not in str(path))


def same(
    tools: KafkaTools,
    capfd: pytest.CaptureFixture[str],
    *arguments: str,
    status: int = 0,
    our_status: int | None = None,
    errors: bool = True,
) -> list[str]:
    """The lines that both tools print."""
    capfd.readouterr()
    assert main(["kafka-dump-log", *arguments]) == (status if our_status is None else our_status)
    ours = capfd.readouterr()
    theirs = tools.run("kafka-dump-log", *arguments)
    assert theirs.status == status, theirs.errors
    diff = unified_diff(theirs.output.splitlines(), ours.out.splitlines(), "Apache Kafka", "ours", n=1, lineterm="")
    assert "\n".join(diff) == ""
    if errors:
        assert ours.err.splitlines() == sensible(theirs.errors)
    return ours.out.splitlines()


def sensible(errors: str) -> list[str]:
    """What Kafka's tool complains of, without the first gap of a segment and its heading if that is all."""
    lines = [line for line in errors.splitlines() if not FIRST_GAP.match(line) and " WARN " not in line]
    return [
        line
        for line, after in pairwise([*lines, ""])
        if not line.startswith("Non-consecutive") or after.startswith("  ")
    ]


def named(files: list[Path]) -> tuple[str, str]:
    return "--files", ",".join(map(str, files))


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--deep-iteration",),
        ("--print-data-log",),
        ("--deep-iteration", "--skip-record-metadata"),
        ("--print-data-log", "--skip-record-metadata"),
        ("--value-decoder-class",),
        ("--print-data-log", "--max-bytes", "700"),
        ("--index-sanity-check",),
        ("--verify-index-only",),
    ],
)
def test_every_file_is_dumped_as_by_kafka(
    files: list[Path], tools: KafkaTools, capfd: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    lines = same(tools, capfd, *named(files), *options, errors=False)
    assert {path.suffix for path in files} == SUFFIXES
    if "--deep-iteration" in options:
        return
    said = "\n".join(lines)
    assert "OptionalLong[" in said
    assert "lastStableOffset: " in said


@pytest.mark.parametrize("metadata", [(), ("--skip-record-metadata",)])
@pytest.mark.parametrize(
    ("topic", "option", "types"),
    [
        ("__consumer_offsets", "--offsets-decoder", {1, 2, 3, 5, 6, 7, 8, 16}),
        ("__transaction_state", "--transaction-log-decoder", {0}),
    ],
)
def test_coordinator_records_are_dumped_as_by_kafka(
    files: list[Path],
    tools: KafkaTools,
    capfd: pytest.CaptureFixture[str],
    topic: str,
    option: str,
    types: set[int],
    metadata: tuple[str, ...],
) -> None:
    chosen = [path for path in files if path.parent.name.startswith(topic) and path.suffix == ".log"]
    lines = same(tools, capfd, *named(chosen), option, *metadata, errors=False)
    assert {int(found) for found in re.findall(r'key: \{"type":"(\d+)"', "\n".join(lines))} == types


@pytest.fixture(scope="module")
def bundled_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A partition in each message format, with every codec of it and an index entry for each batch."""
    data = tmp_path_factory.mktemp("formats")
    codecs = ("none", "gzip", "snappy", "lz4")
    with BrokerProcess(data, settings={"as.version": "2.8"}) as broker:
        for version in ("0.9.0", "0.10.2", "2.8"):
            broker.create_topic(f"v{version}", 1, {"message.format.version": version, "index.interval.bytes": "1"})
            for codec in codecs:
                records = [Record(f"key {number}".encode(), b"value " * number) for number in range(5)]
                ConfluentClient().produce(
                    broker.bootstrap_servers, f"v{version}", records, compression=codec, idempotent=False
                )
    return files_of(data)


def test_old_message_formats(bundled_files: list[Path], tools: KafkaTools, capfd: pytest.CaptureFixture[str]) -> None:
    for options in ((), ("--deep-iteration",), ("--print-data-log",), ("--print-data-log", "--skip-record-metadata")):
        lines = same(tools, capfd, *named(bundled_files), *options)
        magics = set(re.findall(r"magic: (\d)", "\n".join(lines)))
        assert magics == {"0", "1", "2"}


@pytest.fixture
def partition(bundled_files: list[Path], tmp_path: Path) -> Path:
    """A copy of the directory of the topic with record batches, without its name."""
    (source,) = {path.parent for path in bundled_files if path.parent.name == "v2.8-0"}
    return Path(shutil.copytree(source, tmp_path / "v2.8-0")) / f"{0:020d}"


def patched(path: Path, position: int, replacement: bytes) -> Path:
    raw = bytearray(path.read_bytes())
    raw[position : position + len(replacement)] = replacement
    path.write_bytes(raw)
    return path


def test_damaged_indexes(partition: Path, tools: KafkaTools, capfd: pytest.CaptureFixture[str]) -> None:
    index, times = partition.with_suffix(".index"), partition.with_suffix(".timeindex")
    offsets = index.read_bytes()
    assert len(offsets) >= 16
    index.write_bytes(offsets + bytes(24))
    times.write_bytes(times.read_bytes() + bytes(24))
    assert len(same(tools, capfd, *named([index, times]))) > 4
    patched(index, 3, b"\x03")
    patched(index, 8, offsets[:4])
    assert same(tools, capfd, *named([index]), "--verify-index-only") == [f"Dumping {index}"]
    entries = list(struct.iter_unpack(">qi", times.read_bytes()))
    wrong = ((entries[0][0], 4), (entries[0][0], 9), (5, 10_000), (6, 7))
    times.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in wrong))
    index.write_bytes(offsets)
    assert len(same(tools, capfd, *named([times]))) == 5
    index.write_bytes(b"")
    same(tools, capfd, *named([times, index]))


def test_damaged_segments(partition: Path, tools: KafkaTools, capfd: pytest.CaptureFixture[str]) -> None:
    log = partition.with_suffix(".log")
    raw = log.read_bytes()
    log.write_bytes(raw[:-3])
    assert same(tools, capfd, *named([log]), "--print-data-log", errors=False)[-1].startswith("Found ")
    patched(log, 17, b"\0\0\0\0")
    assert same(tools, capfd, *named([log]), our_status=1, errors=False)[2].endswith("isvalid: false")
    snapshot = partition.with_suffix(".snapshot")
    snapshot.write_bytes(b"\0\1\0\0\0\0\0\0\0\0")
    assert same(tools, capfd, *named([snapshot]), errors=False) == [f"Dumping {snapshot}"]
    short = patched(partition.with_suffix(".index"), 4, b"\x7f\0\0\0")
    same(tools, capfd, *named([short]), status=1, errors=False)


def test_gaps_of_compaction(files: list[Path], tools: KafkaTools, capfd: pytest.CaptureFixture[str]) -> None:
    for path in files:
        if path.parent.name.startswith("compacted") and path.suffix == ".log":
            same(tools, capfd, *named([path]), "--deep-iteration")


def test_bytes_that_are_not_utf8(tmp_path: Path, tools: KafkaTools, capfd: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(1)
    odd = [b"\xed\xa0\x80", b"a\xed\xbf", b"\xf0\x9f\x98", b"\xc0\x80", *(chance.randbytes(40) for _ in range(500))]
    values = [value.replace(b"\n", b"").replace(b"\r", b"") for value in odd]
    with BrokerProcess(tmp_path) as broker:
        broker.create_topic("odd")
        records = [Record(None, value) for value in values]
        ConfluentClient().produce(broker.bootstrap_servers, "odd", records)
    log = tmp_path / "odd-0" / f"{0:020d}.log"
    same(tools, capfd, *named([log]), "--print-data-log", "--skip-record-metadata")


def test_number_decoders_print_as_kafkas(tmp_path: Path, tools: KafkaTools, capfd: pytest.CaptureFixture[str]) -> None:
    records = [Record((-number).to_bytes(4, signed=True), (number << 40).to_bytes(9)) for number in range(3)]
    with BrokerProcess(tmp_path) as broker:
        broker.create_topic("numbers")
        ConfluentClient().produce(broker.bootstrap_servers, "numbers", records)
    chosen = named([tmp_path / "numbers-0" / f"{0:020d}.log"])
    decoder = "org.apache.kafka.tools.api.{}Decoder".format
    options = ("--key-decoder-class", decoder("Integer"), "--value-decoder-class", decoder("Long"))
    assert same(tools, capfd, *chosen, *options)[-1].endswith(" key: -2 payload: 8589934592")
