"""Exceptions of signal handlers in a thread that waits for a record of a stream, such as Ctrl-C in a notebook."""

import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer import completed_fetch, cursor, fetcher, sources
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients import deserializers
from spark_kafka_native._record_clients.consumer import assigned_fetches, record_rows, stream_partitions, streams
from spark_kafka_native._record_clients.consumer.stream_partitions import StreamPartitions
from spark_kafka_native._record_clients.consumer.streams import MessageStream
from spark_kafka_native._record_clients.deserializers import Deserializer, default_decoder
from tests.support.clients.consuming import SHORT_PAUSES
from tests.support.interrupts import interrupted_everywhere
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers

T0 = TopicPartition("t", 0)
OFFSETS = [0, 1, 2, 3]

brokers = scripted_brokers(topics={"t": 1})


@pytest.fixture
def cluster(brokers: ScriptedCluster) -> Iterator[Cluster]:
    """Of brokers with two batches of two records; a Fetch returns one batch."""
    for first in OFFSETS[::2]:
        brokers.partition("t", 0).append(batch_of([b"%d" % first, b"%d" % (first + 1)]))
    with Cluster(brokers.config(**SHORT_PAUSES, **{"max.partition.fetch.bytes": 1})) as made:
        yield made


class Reading:
    """A stream of partition 0 of topic ``t``, read by a loop that can be interrupted and continued."""

    def __init__(self, cluster: Cluster, deserializer: Deserializer = default_decoder) -> None:
        # Else a thread connects, whose start cannot be interrupted everywhere.
        cluster.give_back(cluster.borrow(cluster.leader(T0).node, cluster.deadline()))
        self.partitions = StreamPartitions(cluster, timeout_ms=30_000, reset=lambda _: 0, wake=lambda: None)
        self.partitions.assign({T0: 0})
        self.offsets: list[int] = []
        self._stream = MessageStream(self.partitions, deserializer, deserializer)

    def run(self) -> None:
        """Read until the last record is in process."""
        while self.offsets[-1:] != OFFSETS[-1:]:
            for record in self._stream:
                self.offsets.append(record.offset)
                break
            if self.offsets == OFFSETS[:2]:
                self._assign_again()

    def _assign_again(self) -> None:
        """As the member's thread does: an interrupt cannot come here."""
        profile = sys.getprofile()
        sys.setprofile(None)
        self.partitions.assign(self.partitions.remove([T0]))
        sys.setprofile(profile)

    def acknowledged(self) -> int:
        """The position after the records that this thread processes."""
        self.partitions.acknowledge(threading.current_thread())
        return self.partitions.positions[T0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets of interrupted calls
@pytest.mark.parametrize(
    "modules",
    [
        (stream_partitions, assigned_fetches, streams, record_rows, deserializers),
        (fetcher, sources, cursor, completed_fetch),
    ],
    ids=["stream", "fetcher"],
)
@pytest.mark.parametrize("deserializer", [default_decoder, bytes.decode], ids=["raw", "deserialized"])
def test_an_interrupted_loop_that_continues_gets_each_record_once_and_commits_no_other(
    cluster: Cluster, modules: tuple[ModuleType, ...], deserializer: Deserializer
) -> None:
    reading = Reading(cluster, deserializer)

    def run() -> None:
        reading.run()

    for place in interrupted_everywhere(run, *modules):
        assert reading.partitions.taker is None, place
        assert reading.acknowledged() == len(reading.offsets), place
        reading.run()
        assert reading.offsets == OFFSETS, place
        reading.partitions.close()
        reading = Reading(cluster, deserializer)
    reading.partitions.close()
