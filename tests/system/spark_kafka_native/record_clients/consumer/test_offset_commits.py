"""The commits of streams' positions with a storage in memory: their order, interrupts, tries, and what is missed."""

import itertools
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.groups.membership import MemberIdentity
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer import commits
from spark_kafka_native._record_clients.consumer.commits import OffsetCommits
from spark_kafka_native._record_clients.consumer.group_config import ConsumerConfig
from spark_kafka_native._record_clients.consumer.stream_partitions import StreamPartitions
from spark_kafka_native._record_clients.consumer.streams import MessageStream
from spark_kafka_native._record_clients.deserializers import default_decoder
from spark_kafka_native.clients import CommitFailed
from tests.support.clients.consuming import SHORT_PAUSES
from tests.support.clients.scripted_member import ALL, brokers_of_a_group, member_options
from tests.support.interrupts import interrupted_everywhere
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import client_of_brokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LONG_MS = 30_000

brokers = brokers_of_a_group()
cluster = client_of_brokers(**SHORT_PAUSES)


class Storage:
    """An `OffsetStorage` in memory. ``before`` is called with each commit, and may raise."""

    def __init__(self) -> None:
        self.commits: list[dict[TopicPartition, int]] = []
        self.errors: dict[TopicPartition, KafkaError] = {}
        self.before: Callable[[], object] = lambda: None

    def fetch(self, partitions: Collection[TopicPartition], *, timeout_ms: float) -> dict[TopicPartition, int]:
        raise NotImplementedError

    def commit(
        self, offsets: Mapping[TopicPartition, int], identity: MemberIdentity, *, timeout_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        assert identity == MemberIdentity()
        assert timeout_ms > 0
        self.before()
        self.commits.append({part: offset for part, offset in offsets.items() if part not in self.errors})
        return self.errors


class Committing:
    """A stream whose records have all been returned, and its commits."""

    def __init__(self, cluster: Cluster, options: dict[str, object]) -> None:
        self.storage = Storage()
        self.stream = StreamPartitions(cluster, timeout_ms=LONG_MS, reset=lambda _: 0, wake=lambda: None)
        self.stream.assign({T0: 0, T1: 0})
        records = MessageStream(self.stream, default_decoder, default_decoder)
        *_, self.last = itertools.islice(records, len(ALL))
        config = ConsumerConfig.parse(options)
        self.commits = OffsetCommits(cluster, config, [self.stream], self.storage, MemberIdentity)


@pytest.fixture
def committing(brokers: ScriptedCluster, cluster: Cluster) -> Iterator[Committing]:
    made = Committing(cluster, member_options(brokers))
    yield made
    made.stream.close()


def test_an_interrupted_commit_does_not_keep_later_ones_from_being_sent(committing: Committing) -> None:
    done = T1 if committing.last.partition == 0 else T0
    for place in interrupted_everywhere(lambda: committing.commits.commit(timeout_ms=LONG_MS), commits):
        committing.commits.forget(done)
        before = len(committing.storage.commits)
        later = threading.Thread(target=lambda: committing.commits.commit(timeout_ms=LONG_MS), daemon=True)
        later.start()
        later.join(LONG_MS / 1000)
        assert [each[done] for each in committing.storage.commits[before:]] == [3], place
        committing.commits.forget(done)


def test_an_automatic_commit_beside_another_commit_is_left_out_without_a_warning(
    committing: Committing, caplog: pytest.LogCaptureFixture
) -> None:
    begun, end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert end.wait(LONG_MS / 1000)

    committing.storage.before = hold
    committing.commits.begin()
    first = threading.Thread(target=lambda: committing.commits.commit(timeout_ms=LONG_MS))
    first.start()
    assert begun.wait(LONG_MS / 1000)
    with caplog.at_level(logging.WARNING):
        committing.commits.commit_if_due(1e12, timeout_ms=LONG_MS)
    end.set()
    first.join()
    assert (len(committing.storage.commits), caplog.messages) == (1, [])


def test_a_commit_that_is_tried_again_leaves_out_what_was_removed_meanwhile(committing: Committing) -> None:
    removed = T1 if committing.last.partition == 0 else T0

    def lose_and_refuse() -> None:
        committing.storage.before = lambda: None
        committing.commits.remove([removed])
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the broker is slow")

    committing.storage.before = lose_and_refuse
    with pytest.raises(CommitFailed, match=f"the offsets of {removed} were not committed"):
        committing.commits.commit(timeout_ms=LONG_MS)
    (stored,) = committing.storage.commits
    assert stored.keys() == {T0, T1} - {removed}


def test_an_error_of_one_partition_does_not_make_the_offsets_of_others_missed(committing: Committing) -> None:
    committing.storage.errors = {T1: KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "group g, t-1")}
    with pytest.raises(KafkaError, match="group g, t-1"):
        committing.commits.commit(timeout_ms=LONG_MS)
    committing.commits.remove([T0])
    committing.commits.remove([T1])
    with pytest.raises(CommitFailed, match="the offsets of t-1 were not committed"):
        committing.commits.commit(timeout_ms=LONG_MS)
    committing.commits.commit(timeout_ms=LONG_MS)
