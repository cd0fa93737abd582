import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.errors import BatchTooLarge, CorruptRecords
from spark_kafka_native._protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from spark_kafka_native._protocol.schema import Response
from spark_kafka_native._records.compression import CompressionType
from tests.support.records.message_sets import message_set
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import BATCHES, LAST, ROWS, T0, OneRange, offsets_of, read, read_until_error
from tests.support.scripted.partitions import FakePartition
from tests.support.scripted.steps import Pass, Respond

pytestmark = pytest.mark.usefixtures("each_kernel")


def damage(partition: FakePartition, number: int, at: int = 70) -> bytes:
    sound = partition.batches[number]
    partition.batches[number] = sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :]
    return sound


PAYLOAD, CRC, MAGIC, LENGTH, COUNT = 70, 17, 16, 8, 58


@pytest.mark.parametrize("at", [PAYLOAD, CRC, MAGIC, LENGTH, COUNT])
@pytest.mark.parametrize("number", [0, 1, 4, BATCHES - 1])
def test_a_corrupt_batch_ends_the_read_right_before_it(
    brokers: ScriptedCluster, cluster: Cluster, number: int, at: int
) -> None:
    damage(brokers.partition("t"), number, at)
    found: list[int] = []
    with OneRange(cluster, T0, 0, LAST) as fetcher, pytest.raises(CorruptRecords) as caught:
        read_until_error(fetcher, found)
    assert (caught.value.partition, caught.value.offset) == (T0, number * ROWS)
    assert f"t-0: records at offset {number * ROWS} are corrupt: " in str(caught.value)
    assert found == list(range(number * ROWS))
    asked = [request.topics[0].partitions[0].fetch_offset for request in brokers.requests(FetchRequest)]
    in_larger_responses = at == LENGTH  # a batch with a large length is first fetched with that size
    assert asked.count(number * ROWS) == 2 + in_larger_responses, "once more, and no more"


@pytest.mark.parametrize("number", [0, 4])
def test_bytes_damaged_in_a_response_are_fetched_once_more(
    brokers: ScriptedCluster, cluster: Cluster, number: int
) -> None:
    partition = brokers.partition("t")
    sound = damage(partition, number)

    def repair(request: FetchRequest) -> Response:
        partition.batches[number] = sound
        records = partition.read(request.topics[0].partitions[0].fetch_offset, 2_000)
        part = PartitionData(partition_index=0, records=records)
        return FetchResponse(
            responses=(FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=(part,)),)
        )

    until_bad = 1 if number == 0 else 2
    brokers.script(FetchRequest, *[Pass()] * until_bad, Respond(repair))
    assert read(cluster, 0, LAST) == list(range(LAST))


def test_without_check_crcs_damaged_values_are_returned(brokers: ScriptedCluster) -> None:
    damage(brokers.partition("t"), 0, at=75)
    with Cluster(brokers.config(check_crcs="false")) as cluster, OneRange(cluster, T0, 0, ROWS) as fetcher:
        assert offsets_of(list(fetcher)) == list(range(ROWS))


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_read_among_record_batches(
    brokers: ScriptedCluster, cluster: Cluster, magic: int, codec: CompressionType
) -> None:
    partition = brokers.partition("t")
    for index in (0, 1, 7):
        first = index * ROWS
        values = [b"%d" % (first + row) for row in range(ROWS)]
        partition.batches[index] = bytes(message_set(*values, magic=magic, compression=codec, first_offset=first))
    with OneRange(cluster, T0, 30, LAST) as fetcher:
        assert offsets_of(list(fetcher)) == list(range(30, LAST))


def test_a_damaged_message_is_named_and_what_is_before_it_read(brokers: ScriptedCluster, cluster: Cluster) -> None:
    partition = brokers.partition("t")
    damaged = message_set(*[b"%d" % (ROWS + row) for row in range(ROWS)], first_offset=ROWS)
    damaged[len(damaged) // 2 + 20] ^= 1
    partition.batches[1] = bytes(damaged)
    found: list[int] = []
    with OneRange(cluster, T0, 0, LAST) as fetcher, pytest.raises(CorruptRecords, match="at offset 75 ") as caught:
        read_until_error(fetcher, found)
    assert "CRC-32 of the message" in str(caught.value)
    assert found == list(range(75))


@pytest.mark.parametrize(
    ("magic", "codec"),
    [
        (magic, codec)
        for magic in (0, 1, 2)
        for codec in CompressionType
        # zstd needs record batches (KIP-110).
        if codec is not CompressionType.NONE and (magic == 2 or codec is not CompressionType.ZSTD)
    ],
)
def test_a_batch_above_the_cap_ends_the_read_right_before_it(
    brokers: ScriptedCluster, cluster: Cluster, magic: int, codec: CompressionType
) -> None:
    values = [b"x" * 20_000 for _ in range(ROWS)]
    if magic == 2:
        large = batch_of(values, compression=codec)
        large[:8] = (3 * ROWS).to_bytes(8, "big")
    else:
        large = message_set(*values, magic=magic, compression=codec, first_offset=3 * ROWS)
    brokers.partition("t").batches[3] = bytes(large)
    found: list[int] = []
    with (
        OneRange(cluster, T0, 0, LAST, max_decompressed_bytes=999_999) as fetcher,
        pytest.raises(BatchTooLarge, match=r"t-0: the record batch at offset 1\d\d decompresses to more than 999999"),
    ):
        read_until_error(fetcher, found)
    assert found == list(range(3 * ROWS))
    with OneRange(cluster, T0, 0, LAST) as fetcher:
        assert offsets_of(list(fetcher)) == list(range(LAST))
