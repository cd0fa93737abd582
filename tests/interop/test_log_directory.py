"""Kafka's own DumpLogSegments reads what the bundled broker keeps on disk: logs, both indexes, producer snapshots."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import CODECS, Client, Record
from tests.support.clients.native import OurClient
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import apache_kafka_unavailable, dump_log

pytestmark = pytest.mark.interop

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

TOPIC = "dumped"
RECORDS = 400
BATCH = 100


@pytest.fixture(scope="module")
def partition_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition with every codec in it, several segments long, of a broker that was stopped in order."""
    skip_if(apache_kafka_unavailable())
    data = tmp_path_factory.mktemp("dumped")
    with BrokerProcess(data, settings={"log.segment.bytes": "15000", "log.index.interval.bytes": "500"}) as broker:
        broker.create_topic(TOPIC)
        start_ms = int(time.time() * 1000) - RECORDS
        clients: list[Client] = [ConfluentClient(), OurClient()]
        for client in clients:
            for codec in CODECS:
                records = [Record(b"k%d" % i, b"%032d" % i * 3, (("h", b"1"),), start_ms + i) for i in range(RECORDS)]
                for first in range(0, RECORDS, BATCH):
                    part = records[first : first + BATCH]
                    client.produce(broker.bootstrap_servers, TOPIC, part, compression=codec)
    return data / f"{TOPIC}-0"


def _dump(directory: Path, suffix: str, *options: str) -> str:
    files = sorted(directory.glob(f"*{suffix}"))
    assert files, f"no {suffix} files in {sorted(path.name for path in directory.iterdir())}"
    return dump_log(files, *options)


def test_every_record_of_every_segment(partition_directory: Path) -> None:
    assert len(list(partition_directory.glob("*.log"))) > 3
    output = _dump(partition_directory, ".log", "--deep-iteration", "--print-data-log")
    offsets = [int(number) for number in re.findall(r"^\| offset: (\d+) .*payload: \d{96}$", output, re.MULTILINE)]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) == 2 * len(CODECS) * RECORDS
    batches = re.findall(
        r"^baseOffset: .* magic: 2 compresscodec: (\w+) crc: \d+ isvalid: (\w+)$", output, re.MULTILINE
    )
    assert {valid for _, valid in batches} == {"true"}
    counts = Counter(codec for codec, _ in batches)
    assert set(counts) == set(CODECS)
    assert "keySize: " in output
    assert "headerKeys: [h]" in output


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_agree_with_the_log(partition_directory: Path, suffix: str) -> None:
    output = _dump(partition_directory, suffix)
    assert "offset: " in output
    for complaint in ("Mismatches", "mismatch", "Non-", "out of order", "Found"):
        assert complaint not in output


def test_producers_are_in_the_last_snapshot(partition_directory: Path) -> None:
    last = max(partition_directory.glob("*.snapshot"))
    output = dump_log([last])
    found = re.findall(
        r"^producerId: (\d+) producerEpoch: 0 .*firstSequence: 0 lastSequence: 99 ", output, re.MULTILINE
    )
    assert len(set(found)) == len(found) == 2 * len(CODECS) * RECORDS // BATCH
