import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_kafka_native._client.admin.topics import delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._client.transactions.describe_transactions import (
    TransactionState,
    describe_transactions,
    list_transactions,
)
from spark_kafka_native._spark.exactly_once.batch import TaskMessage
from spark_kafka_native._spark.exactly_once.commit import commit
from spark_kafka_native._spark.exactly_once.decision import Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.effects import AbortOpen, Steps
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.plan import plan
from spark_kafka_native._spark.exactly_once.task import task
from spark_kafka_native._spark.exactly_once.timing import timing_of
from spark_kafka_native._spark.sink.effects import carry_out
from tests.support.clients.native import config_of
from tests.support.clients.native_transactions import valued
from tests.support.clients.topics import Topics
from tests.support.exactly_once.driver import Killed, killed_after_decision
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.tools import Tool
from tests.support.waiting import eventually

TIMING = timing_of(60_000, 5_000)
QUERY = Owner(OwnerKind.QUERY, "c0ffee")


class Query:
    """A query of one task, without Spark."""

    def __init__(self, servers: str, topic: str, prefix: str) -> None:
        self.cluster = Cluster(config_of(servers))
        self.names = Names(prefix=prefix)
        self.topic = topic

    def write(self, batch_id: int, owner: Owner = QUERY) -> TaskMessage:
        planned = carry_out(self.cluster, plan(self.names, TIMING))
        rows = pa.RecordBatch.from_pydict({"value": pa.array([b"batch %d" % batch_id], pa.binary())})

        def send(producer: Producer) -> None:
            producer.send(self.topic, rows)

        return carry_out(self.cluster, task(planned, owner, batch_id, 0, TIMING, has_rows=True), send=send)

    def commit(self, message: TaskMessage, *, killed: bool = False) -> None:
        steps = commit(self.names, [message], TIMING)
        carry_out(self.cluster, killed_after_decision(steps) if killed else steps)


@pytest.fixture
def query(any_broker: AnyBroker, new_topic: TopicMaker) -> Iterator[Query]:
    topic = new_topic()
    made = Query(any_broker.bootstrap_servers, topic, f"query-of-{topic}")
    with made.cluster:
        yield made


@pytest.fixture
def committed(any_broker: AnyBroker) -> Iterator[Topics]:
    with Topics(any_broker.bootstrap_servers, "read_committed") as topics:
        yield topics


@pytest.mark.feature("sink.exactlyOnceRepair")
def test_recover_commits_the_decided_batch_and_aborts_others(on_broker: Tool, committed: Topics, query: Query) -> None:
    prefix, topic = query.names.prefix, query.topic

    def command(*arguments: str) -> list[str]:
        response = on_broker("exactly-once", *arguments)
        assert (response.status, response.err) == (0, "")
        return response.lines

    query.commit(query.write(0))
    decided = query.write(1)
    with pytest.raises(Killed):
        query.commit(decided, killed=True)
    eventually(lambda: committed.values(topic), [b"batch 0"])
    assert f"{prefix} (1 open transaction)" in command("list")
    assert command("status", prefix)[1:3] == [
        "last batch: 1 of streaming query c0ffee, decided, with 1 transaction to commit",
        "open transactions: 1",
    ]
    (status,) = command("status", prefix, "--json")
    assert decided.handle is not None
    assert json.loads(status) == {
        "prefix": prefix,
        "decisionsTopic": f"{prefix}.decisions",
        "lastBatch": {"batchId": 1, "owner": "streaming query c0ffee", "committed": False, "transactions": 1},
        "openTransactions": [decided.handle.transactional_id],
    }
    listed = [json.loads(line) for line in command("list", "--json")]
    assert {"prefix": prefix, "openTransactions": 1} in listed
    assert command("recover", prefix) == ["last batch: 1 of streaming query c0ffee, all of it committed"]
    eventually(lambda: committed.values(topic), [b"batch 0", b"batch 1"])
    written = query.write(2)  # and then its driver is never seen again
    assert written.handle is not None
    assert command("status", prefix)[2:] == ["open transactions: 1", f"  {written.handle.transactional_id}"]
    assert "writes the rows that it reads again twice" in command("release", prefix)[1]
    eventually(lambda: command("status", prefix)[2], "open transactions: 0")
    assert command("status", prefix)[1:] == [
        "last batch: none; any query may begin with this prefix",
        "open transactions: 0",
    ]
    assert committed.values(topic) == [b"batch 0", b"batch 1"]
    command("remove", prefix)
    eventually(lambda: f"{prefix} (0 open transactions)" in command("list"), False)


@pytest.mark.parametrize("name", ["{}/other", "{}:other.1.2.3.4.5", ".1.2.3.4.5.{}", "{}.other.01.2.3.4.5"])
def test_transactions_without_a_prefix_are_not_listed(on_broker: Tool, query: Query, name: str) -> None:
    """Ids may be of any characters; those of prefixes are names of topics."""
    assert query.write(0).handle is not None
    with TransactionalProducer(query.cluster, name.format(query.topic)) as producer:
        producer.begin()
        producer.send(query.topic, valued(["a"], None))
        producer.flush()
        listed = on_broker("exactly-once", "list")
    assert (listed.status, listed.err) == (0, "")
    assert [line for line in listed.lines if query.topic in line] == [f"{query.names.prefix} (1 open transaction)"]


@pytest.mark.feature("sink.exactlyOnceRepair")
def test_run_again_revokes_an_unreadable_decision(on_broker: Tool, query: Query) -> None:
    prefix = query.names.prefix
    query.commit(query.write(0))
    again = on_broker("exactly-once", "run-again", prefix)
    assert (again.status, "every decided batch is committed" in again.err) == (1, True)
    decided = query.write(1)
    with pytest.raises(Killed):
        query.commit(decided, killed=True)
    assert "can still be committed" in on_broker("exactly-once", "run-again", prefix).err
    assert decided.handle is not None
    carry_out(query.cluster, aborted(decided.handle.transactional_id))  # as the broker does when its time is up
    lost = on_broker("exactly-once", "recover", prefix)
    assert (lost.status, "[PYKAFKA_EXACTLY_ONCE.LOST]" in lost.err) == (1, True)
    assert "t-0 offsets" in lost.err.replace(query.topic, "t")
    assert on_broker("exactly-once", "run-again", prefix).status == 0
    query.commit(query.write(1))
    accepted = on_broker("exactly-once", "recover", "--accept-loss", prefix)
    assert accepted.lines == ["last batch: 1 of streaming query c0ffee, all of it committed"]


def aborted(transactional_id: str) -> Steps[None]:
    yield AbortOpen((transactional_id,), TIMING.transaction_timeout_ms)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("status",), "Missing argument 'PREFIX'"),
        (("list", "orders"), "Got unexpected extra argument (orders)"),
        (("release", "--accept-loss", "orders"), "No such option '--accept-loss'"),
        (("status", "a b"), "prefix 'a b' is invalid: topic name"),
        (("repair", "orders"), "No such command 'repair'"),
    ],
)
def test_bad_usage(on_broker: Tool, arguments: tuple[str, ...], says: str) -> None:
    response = on_broker("exactly-once", *arguments)
    assert (response.status, says in response.err) == (2, True), response.err


@pytest.mark.parametrize("command", ["status", "recover", "run-again", "release", "remove"])
def test_unused_prefix_is_an_error_and_creates_nothing(on_broker: Tool, query: Query, command: str) -> None:
    unused = f"unused-{query.topic}"
    with TransactionalProducer(query.cluster, f"{unused}.driver.of.another.program") as producer:
        producer.begin()
        producer.abort()
    response = on_broker("exactly-once", command, unused)
    assert (response.status, response.out) == (1, "")
    assert f"the cluster has no topic {unused}.decisions and no transactional id of prefix {unused}" in response.err
    assert f"{unused}.decisions" not in query.cluster.metadata(None).topics
    assert describe_transactions(query.cluster, [f"{unused}.driver"]) == {}


def test_remove_is_repeatable_after_the_topic_of_decisions_was_deleted(on_broker: Tool, query: Query) -> None:
    prefix, topic = query.names.prefix, query.names.decisions_topic
    query.write(0)  # its transaction stays open
    delete_topics(query.cluster, [topic])
    eventually(lambda: topic in query.cluster.metadata(None).topics, False)
    for command in ("status", "run-again"):
        response = on_broker("exactly-once", command, prefix)
        words = f"transactional ids of prefix {prefix}, but no topic {topic}"
        assert (response.status, words in response.err) == (1, True), response.err
    assert topic not in query.cluster.metadata(None).topics
    for _ in range(2):
        removed = on_broker("exactly-once", "remove", prefix)
        assert (removed.status, removed.err) == (0, "")
        eventually(lambda: topic in query.cluster.metadata(None).topics, False)
    listed = list_transactions(query.cluster, states=[TransactionState.ONGOING], prefix=f"{prefix}.")
    assert listed == []
