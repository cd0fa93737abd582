import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.cluster.shared import close_shared_clusters
from spark_kafka_native._jobs.batch_reload.bounds import check_unchanged
from spark_kafka_native._jobs.batch_reload.errors import ReloadError
from spark_kafka_native._jobs.batch_reload.formats import file_format
from spark_kafka_native._jobs.batch_reload.plan import Plan, Wanted, make_plan
from spark_kafka_native._jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native._jobs.batch_reload.writing import WriteJob
from spark_kafka_native._jobs.points import cluster_state
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native._spark.source.layout import layout_of
from tests.support.clients.topics import Topics
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import fill
from tests.support.spark.user_schemas import user_schema

T0 = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def _clusters_of_their_own() -> Iterator[None]:
    yield
    close_shared_clusters()


@pytest.fixture
def topics() -> Iterator[Topics]:
    with EmbeddedBroker() as broker, Topics(broker.bootstrap_servers) as made:
        made.create(name="t")
        made.write("t", [f"{n}" for n in range(20)])
        yield made


class Load:
    def __init__(self, servers: str, target: Path) -> None:
        named = {"kafka.bootstrap.servers": servers, "kafka.retry.backoff.ms": "1", "subscribe": "t"}
        options = parse_source_options(named, Query.BATCH)
        self._source = ClusterOffsets(options.client)
        self._target = target
        self._job = WriteJob(
            location=StorageLocation(url=str(target)),
            load_id="l",
            source=options,
            layout=layout_of(user_schema(offset='"long"', value='"string"')),
            format=file_format("json", None),
        )
        self._source.topics(["t"])
        self.plan: Plan = make_plan(None, cluster_state(self._source, [T0]), Wanted(points={}, ends={}))

    def task(self) -> list[str]:
        close_shared_clusters()
        (piece,) = self.plan.pieces
        written = self._job.run(piece)
        lines = (self._target / written.path).read_text().splitlines()
        return [json.loads(line)["value"] for line in lines]

    def check(self) -> None:
        check_unchanged(self._source, self.plan)


@pytest.mark.feature("reload.exactlyOnce")
def test_a_task_that_runs_again_reads_what_it_read_at_first(topics: Topics, tmp_path: Path) -> None:
    load = Load(topics.bootstrap_servers, tmp_path)
    found = load.task()
    assert found == [f"{n}" for n in range(20)]
    topics.write("t", ["later"])
    assert load.task() == found
    load.check()


@pytest.mark.feature("reload.exactlyOnce")
@pytest.mark.parametrize("records", [5, 20, 30])
def test_a_topic_made_again_after_the_plan_is_not_read(topics: Topics, tmp_path: Path, records: int) -> None:
    load = Load(topics.bootstrap_servers, tmp_path)
    topics.delete("t")
    topics.create(name="t")
    topics.write("t", [f"other {n}" for n in range(records)])
    for step in (load.task, load.check):
        with pytest.raises(ReloadError, match=r"topic t was .* again while the load ran,.* run it again"):
            step()


def test_a_topic_deleted_after_its_tasks_is_not_published(topics: Topics, tmp_path: Path) -> None:
    load = Load(topics.bootstrap_servers, tmp_path)
    load.task()
    topics.delete("t")
    with pytest.raises(ReloadError, match="topic t was deleted while the load ran"):
        load.check()


@pytest.mark.parametrize("as_version", ["2.3", "2.7"])
@pytest.mark.parametrize("records", [None, 5])
def test_without_topic_ids_a_deleted_or_shorter_topic_is_not_published(
    tmp_path: Path, as_version: str, records: int | None
) -> None:
    """Brokers before 2.8 have no topic ids. The driver's metadata of the plan is still fresh by its age."""
    with EmbeddedBroker(settings={"as.version": as_version}) as broker, Topics(broker.bootstrap_servers) as topics:
        broker.create_topic("t")
        topics.write("t", [f"{n}" for n in range(20)])
        load = Load(broker.bootstrap_servers, tmp_path)
        load.check()
        topics.delete("t")
        if records is not None:
            broker.create_topic("t")
            topics.write("t", [f"other {n}" for n in range(records)])
        with pytest.raises(ReloadError, match=r"(topic t was deleted|the log of t-0 was truncated at offset 5) while"):
            load.check()


def test_without_topic_ids_an_earlier_leader_epoch_is_another_topic(tmp_path: Path) -> None:
    with ScriptedCluster(topics={"t": 1}, topic_ids=False) as brokers:
        partition = brokers.partition("t", 0)
        partition.leader_epoch = 3
        fill(partition)
        load = Load(brokers.bootstrap_servers, tmp_path)
        load.check()
        partition.leader_epoch = 0
        with pytest.raises(ReloadError, match="topic t was deleted and created again while the load ran"):
            load.check()


@pytest.mark.feature("reload.exactlyOnce", "client.leaderEpochs")
@pytest.mark.parametrize("topic_ids", [True, False])
@pytest.mark.parametrize("cut_at", [0, 300, 950])
def test_a_log_truncated_after_the_plan_is_not_read(tmp_path: Path, cut_at: int, topic_ids: bool) -> None:
    """A leader that lacked some of the records took over, and other records stand there now."""
    with ScriptedCluster(topics={"t": 1}, topic_ids=topic_ids) as brokers:
        partition = brokers.partition("t", 0)
        fill(partition)
        load = Load(brokers.bootstrap_servers, tmp_path)
        load.check()
        partition.truncate(cut_at)
        partition.leader_epoch += 1
        fill(partition, batches=20)
        assert partition.log_end >= load.plan.partitions[0].until_offset
        for step in (load.check, load.task):  # a task forgets the metadata that the plan has left in memory
            with pytest.raises(ReloadError, match=r"the log of t-0 was truncated.* while the load ran"):
                step()
