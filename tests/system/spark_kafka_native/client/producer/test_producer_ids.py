import contextlib
import itertools
import os
import random
import socket
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.errors import ProduceError
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import BatchHeader
from tests.support.records.record_batches import rows
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import OneRange
from tests.support.scripted.fixtures import client_of_brokers
from tests.support.scripted.steps import Drop, HalfFrame, Pass, Refuse, Step

PARTITIONS = 4
FATAL = Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


cluster = client_of_brokers(request_timeout_ms=30_000, linger_ms=0)


def begin(cluster: Cluster) -> Producer:
    return Producer(cluster, reuse_producer_id=True)


def write(cluster: Cluster, *values: str, partition: int = 0, topic: str = "t") -> None:
    """One task: a producer of its own, a batch for each value."""
    with begin(cluster) as producer:
        for value in values:
            producer.send(topic, rows([value.encode()], partition=[partition]))
            producer.flush()


def stored(brokers: ScriptedCluster, partition: int = 0) -> list[str]:
    return [value.decode() for value in brokers.partition("t", partition).values() if value is not None]


def identities(brokers: ScriptedCluster, partition: int = 0) -> list[tuple[int, int, int]]:
    """Producer id, epoch and first sequence number of each batch; ids count from 0."""
    headers: list[BatchHeader] = brokers.partition("t", partition).headers()
    return [(header.producer_id - 1001, header.producer_epoch, header.base_sequence) for header in headers]


def new_ids(brokers: ScriptedCluster) -> int:
    return len(brokers.requests(InitProducerIdRequest))


def test_tasks_one_after_the_other_share_a_producer_id(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for number in range(10):
        write(cluster, f"a{number}", f"b{number}", partition=number % 2)
    assert new_ids(brokers) == 1
    assert identities(brokers, 0) == identities(brokers, 1) == [(0, 0, sequence) for sequence in range(10)]
    assert stored(brokers, 1) == [f"{name}{number}" for number in range(1, 10, 2) for name in "ab"]


def test_without_the_argument_every_producer_has_an_id_of_its_own(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for _ in range(3):
        with Producer(cluster) as producer:
            producer.send("t", rows([b"a"], partition=[0]))
    assert identities(brokers) == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]


def test_a_task_without_rows_uses_no_producer_id(brokers: ScriptedCluster, cluster: Cluster) -> None:
    write(cluster)
    assert new_ids(brokers) == 0
    write(cluster, "a")
    with begin(cluster):
        write(cluster, "b")
    assert new_ids(brokers) == 1


def test_producers_at_the_same_time_have_ids_of_their_own(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with begin(cluster) as one, begin(cluster) as other:
        for producer in (one, other, one, other):
            producer.send("t", rows([b"x"], partition=[0]))
            producer.flush()
    assert identities(brokers) == [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)]
    with begin(cluster) as one, begin(cluster) as other:
        for producer in (one, other):
            producer.send("t", rows([b"y"], partition=[0]))
            producer.flush()
    assert sorted(identities(brokers)[4:]) == [(0, 0, 2), (1, 0, 2)]
    assert new_ids(brokers) == 2


def test_a_failed_task_gives_no_id_back(brokers: ScriptedCluster, cluster: Cluster) -> None:
    write(cluster, "a")
    brokers.script(ProduceRequest, FATAL)
    with pytest.raises(ProduceError):
        write(cluster, "refused")
    write(cluster, "b")
    assert identities(brokers) == [(0, 0, 0), (1, 0, 0)]
    assert stored(brokers) == ["a", "b"]


def test_a_killed_task_gives_no_id_back(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Its last batch may be with the broker or not: the next task cannot know which sequence number comes next."""
    write(cluster, "a")
    with contextlib.suppress(KeyboardInterrupt), begin(cluster) as producer:
        producer.send("t", rows([b"killed"], partition=[0]))
        raise KeyboardInterrupt
    write(cluster, "b")
    assert new_ids(brokers) == 2


def test_an_aborted_or_discarded_producer_gives_no_id_back(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for end in (Producer.abort, Producer.discard):
        producer = begin(cluster)
        producer.send("t", rows([b"a"], partition=[0]))
        producer.flush()
        end(producer)
        producer.close()
    write(cluster, "b")
    assert new_ids(brokers) == 3


def test_a_lost_acknowledgement_is_retried_with_the_same_sequence(brokers: ScriptedCluster, cluster: Cluster) -> None:
    write(cluster, "a")
    brokers.script(ProduceRequest, Drop(applied=True), Drop())
    write(cluster, "b", "c")
    write(cluster, "d")
    assert stored(brokers) == ["a", "b", "c", "d"]
    assert identities(brokers) == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3)]


def test_a_topic_that_was_created_again_gets_a_new_id(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """The broker's data may have been deleted with it, and the old id given to another producer."""
    write(cluster, "a", "b")
    brokers.state.create("t", PARTITIONS)
    write(cluster, "c", "d")
    assert stored(brokers) == ["c", "d"]
    assert identities(brokers) == [(1, 0, 0), (1, 0, 1)]


def test_an_id_is_used_for_other_topics_as_long_as_one_of_its_own_is_there(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    write(cluster, "a")
    for number in range(3):
        brokers.state.create(f"new{number}", 1)
        write(cluster, "b", topic=f"new{number}")
    assert new_ids(brokers) == 1
    brokers.state.create("new2", 1)
    brokers.state.create("last", 1)
    write(cluster, "c", topic="last")
    assert new_ids(brokers) == 2, "no topic shows that the cluster is the same"


@pytest.mark.parametrize("fixed_cluster_id", [False, True])
def test_rows_are_stored_on_a_broker_that_was_replaced_by_an_empty_one(tmp_path: Path, fixed_cluster_id: bool) -> None:
    """It gives the same ids again, to another producer, which has used the sequence numbers that follow."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"} | (
        {"cluster.id": "MkU3OEVBNTcwNTJENDM2Qk"} if fixed_cluster_id else {}
    )
    config = ClientConfig.parse({"bootstrap.servers": f"127.0.0.1:{port}"})
    found: list[str] = []
    with Cluster(config) as ours, Cluster(config) as others:
        for number in range(2):
            directory = tmp_path / str(number)
            directory.mkdir()
            (directory / "producer-ids.json").write_text('{"version": 1, "next_producer_id": 0}')
            with EmbeddedBroker(directory, topics={"t": 1}, settings=settings):
                if number == 0:
                    write(ours, "a1")
                    continue
                write(others, "b1", "b2", "b3")
                write(ours, "a2")
                write(others, "b4")
                fetcher = OneRange(others, TopicPartition("t", 0), 0, 5, columns=("value",))
                for batch in fetcher:
                    found += [str(value, "ascii") for value in batch.column("value").to_pylist() if value]
    assert sorted(found) == ["a2", "b1", "b2", "b3", "b4"]


def test_a_leader_that_has_lost_records_gets_a_new_epoch_which_later_tasks_continue(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    write(cluster, "a", "b", "c")
    write(cluster, "other", partition=1)
    partition = brokers.partition("t")
    partition.truncate(1)
    partition.sequences[1001] = (0, 0)
    write(cluster, "d", "e")
    write(cluster, "f")
    write(cluster, "more", partition=1)
    assert stored(brokers) == ["a", "d", "e", "f"]
    assert identities(brokers) == [(0, 0, 0), (0, 1, 0), (0, 1, 1), (0, 1, 2)]
    assert identities(brokers, 1) == [(0, 0, 0), (0, 0, 1)]
    assert new_ids(brokers) == 1


@pytest.mark.parametrize("before_2_5", [False, True], ids=["takes any number", "refuses"])
def test_a_leader_that_has_forgotten_the_producer(
    brokers: ScriptedCluster, cluster: Cluster, *, before_2_5: bool
) -> None:
    write(cluster, "a", "b")
    partition = brokers.partition("t")
    partition.lost_producers = before_2_5
    partition.sequences.clear()
    partition.recent.clear()
    write(cluster, "c", "d")
    write(cluster, "e")
    assert stored(brokers) == ["a", "b", "c", "d", "e"]
    epoch, first = (1, 0) if before_2_5 else (0, 2)
    assert identities(brokers)[2:] == [(0, epoch, first + number) for number in range(3)]


def test_another_cluster_at_the_same_address_has_never_given_us_the_id(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    write(cluster, "a")
    brokers.state.cluster_id = "another"
    cluster.metadata(["t"])
    write(cluster, "b")
    assert identities(brokers) == [(0, 0, 0), (1, 0, 0)]
    with begin(cluster) as producer:
        producer.send("t", rows([b"c"], partition=[0]))
        producer.flush()
        brokers.state.cluster_id = "a third"
        cluster.metadata(["t"])
        producer.send("t", rows([b"c"], partition=[1]))
    assert identities(brokers, 1) == [(2, 0, 0)], "a partition that starts asks whether the id is still right"
    write(cluster, "d")
    assert new_ids(brokers) == 4, "batches with the second cluster's id were part of what the producer wrote"


def test_the_id_of_a_cluster_that_was_replaced_in_between_is_not_kept(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    with begin(cluster) as producer:
        producer.send("t", rows([b"a"], partition=[0]))
        producer.flush()
        brokers.state.cluster_id = "another"
        cluster.metadata(["t"])
    write(cluster, "b")
    assert identities(brokers) == [(0, 0, 0), (1, 0, 0)]


def test_a_closed_cluster_forgets_its_ids(brokers: ScriptedCluster, cluster: Cluster) -> None:
    write(cluster, "a")
    cluster.close()
    write(cluster, "b")
    assert new_ids(brokers) == 2


def test_transactions_neither_take_nor_leave_ids(brokers: ScriptedCluster, cluster: Cluster) -> None:
    write(cluster, "a")
    for value in (b"b", b"c"):
        with TransactionalProducer(cluster, "tx") as transactional:
            transactional.begin()
            transactional.send("t", rows([value], partition=[1]))
            transactional.commit()
    write(cluster, "d")
    assert identities(brokers) == [(0, 0, 0), (0, 0, 1)]
    assert 0 not in {producer_id for producer_id, _, _ in identities(brokers, 1)}


def test_without_idempotence_there_is_no_id(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config(enable_idempotence="false")) as cluster:
        write(cluster, "a")
        write(cluster, "b")
    assert stored(brokers) == ["a", "b"]
    assert new_ids(brokers) == 0


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_does_not_use_the_parents_id(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Neither one that waits for a task, nor one that a producer has which the child inherits and closes."""
    with begin(cluster) as waiting:
        inherited = begin(cluster)
        for producer in (inherited, waiting):
            producer.send("t", rows([b"before"], partition=[0]))
            producer.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            inherited.close()
            write(cluster, "child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    inherited.close()
    write(cluster, "parent")
    assert stored(brokers)[2:] == ["child", "parent"]
    assert identities(brokers) == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 0, 1)]


def test_tasks_that_fail_at_random_and_are_run_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Every row is there, in the order of its task's last attempt; twice are only rows of attempts that failed."""
    chance = random.Random(7)
    faults: list[Step] = [Drop(), Drop(applied=True), HalfFrame(3), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER), FATAL]
    written: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
    tried_again: set[str] = set()
    failed = 0
    for task in range(150):
        steps = [chance.choice(faults) if chance.random() < 0.2 else Pass() for _ in range(4)]
        brokers.script(ProduceRequest, *itertools.chain(*zip(steps, [Pass()] * 4, strict=True)))
        partition = chance.randrange(PARTITIONS)
        values = [f"{task}-{number}" for number in range(3)]
        written[partition] += values
        while True:
            try:
                write(cluster, *values, partition=partition)
                break
            except ProduceError:
                failed += 1
                tried_again |= set(values)
    assert failed >= 5
    assert new_ids(brokers) == failed + 1
    for partition, expected in written.items():
        found = stored(brokers, partition)
        last = [value for place, value in enumerate(found) if value not in found[place + 1 :]]
        assert last == expected
        assert {value for value in found if found.count(value) > 1} <= tried_again
