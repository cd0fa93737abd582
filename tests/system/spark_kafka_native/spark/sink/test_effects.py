from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.transactions.scope import TransactionScope
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_topics import CreateTopicsRequest
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.exactly_once import effects
from spark_kafka_native._spark.sink.effects import carry_out
from tests.support.refusals import refused
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fixtures import brokers_of_each_level, client_of_brokers
from tests.support.scripted.steps import Drop, Refuse

ENTRIES = (effects.DecisionRecord(b"handles-0", b"{}"), effects.DecisionRecord(b"decision", b"{}"))


brokers = brokers_of_each_level(brokers=1, topics={"t": 2, "p.decisions": 1})


cluster = client_of_brokers(default_api_timeout_ms=20_000)


def one(effect: effects.Effect) -> effects.Steps[Any]:
    return (yield effect)


def answered(cluster: Cluster, effect: effects.Effect) -> Any:
    return carry_out(cluster, one(effect))


def begun(cluster: Cluster, name: str = "p.1.0.0.0.0") -> ProducerIdAndEpoch:
    producer = answered(cluster, effects.InitProducer(name, 60_000))
    assert isinstance(producer, ProducerIdAndEpoch)
    return producer


def test_lost_init_response_is_retried_unless_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(InitProducerIdRequest, Drop(applied=True))
    assert begun(cluster, "p.driver").epoch == 1, "the first request was carried out too"
    brokers.script(InitProducerIdRequest, Drop(applied=True))
    assert refused(answered, cluster, effects.InitProducer("p.1.0.0.0.0", 60_000, once=True)).retriable, (
        "so that a task takes another name"
    )
    assert len(brokers.requests(InitProducerIdRequest)) == 3
    brokers.script(InitProducerIdRequest, Refuse(ErrorCode.CONCURRENT_TRANSACTIONS))
    assert answered(cluster, effects.InitProducer("p.1.0.0.0.1", 60_000, once=True)).epoch == 0


def test_claim_of_a_fenced_producer_is_refused(cluster: Cluster) -> None:
    first = begun(cluster, "p.driver")
    second = answered(cluster, effects.InitProducer("p.driver", 60_000, claimed=first))
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)
    with pytest.raises(KafkaError, match=r"\(PRODUCER_FENCED, "):
        answered(cluster, effects.InitProducer("p.driver", 60_000, claimed=first))


def test_rows_are_written_and_left_open(brokers: ScriptedCluster, cluster: Cluster) -> None:
    producer = begun(cluster)

    def send(to: Producer) -> None:
        rows: dict[str, Any] = {
            "value": pa.array([b"a", b"b", b"c"], pa.binary()),
            "partition": pa.array([0, 1, 1], pa.int32()),
        }
        to.send("t", pa.RecordBatch.from_pydict(rows))

    written = carry_out(cluster, one(effects.WriteRows("p.1.0.0.0.0", producer)), send=send)
    assert sorted(written, key=lambda each: each.partition) == [
        effects.WrittenRange(TopicPartition("t", 0), 0, 1),
        effects.WrittenRange(TopicPartition("t", 1), 0, 2),
    ]
    (found,) = answered(cluster, effects.Describe(("p.1.0.0.0.0",)))
    assert (found.state, found.producer) == ("Ongoing", producer)
    assert answered(cluster, effects.ListOpen("p")) == ("p.1.0.0.0.0",)


def test_offsets_of_rows_without_base_offset_are_those_of_the_partition(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = begun(cluster)
    monkeypatch.setattr(TransactionScope, "record_written", lambda *_: None)

    def send(to: Producer) -> None:
        to.send("t", pa.RecordBatch.from_pydict({"value": [b"a"], "partition": pa.array([1], pa.int32())}))

    (written,) = carry_out(cluster, one(effects.WriteRows("p.1.0.0.0.0", producer)), send=send)
    assert written == effects.WrittenRange(TopicPartition("t", 1), 0, 1)


def test_all_errors_of_send_are_thrown_into_the_steps(cluster: Cluster) -> None:
    seen: list[Exception] = []

    def steps(producer: ProducerIdAndEpoch) -> effects.Steps[str]:
        try:
            yield effects.WriteRows("p.1.0.0.0.0", producer)
        except Exception as error:  # the steps get every error
            seen.append(error)
        return "continued"

    def send(_: Producer) -> None:
        raise ZeroDivisionError

    assert carry_out(cluster, steps(begun(cluster)), send=send) == "continued"
    assert [type(error) for error in seen] == [ZeroDivisionError]


def test_decisions_are_appended_and_read(brokers: ScriptedCluster, cluster: Cluster) -> None:
    driver = begun(cluster, "p.driver")

    def steps() -> effects.Steps[tuple[Any, ...]]:
        yield effects.Append("p.decisions", "p.driver", driver, ENTRIES)
        (after,) = yield effects.EndTransactions((effects.End("p.driver", driver),), commit=True)
        assert isinstance(after, ProducerIdAndEpoch)
        yield effects.Append("p.decisions", "p.driver", after, ENTRIES[1:])
        ended: tuple[Any, ...] = yield effects.EndTransactions((effects.End("p.driver", after),), commit=True)
        return ended

    (last,) = carry_out(cluster, steps())
    assert isinstance(last, ProducerIdAndEpoch)
    assert answered(cluster, effects.ReadDecisions("p.decisions", None)) == effects.DecisionLog(
        (*ENTRIES, ENTRIES[1]), whole=True
    )
    tail = answered(cluster, effects.ReadDecisions("p.decisions", 1))
    assert (tail.records, tail.whole) == (ENTRIES[1:], False)
    assert len(brokers.requests(ProduceRequest)) == 2


def test_large_records_of_decisions_pass_where_rows_must_be_small(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config(default_api_timeout_ms=20_000, max_request_size=2_000)) as cluster:
        driver = begun(cluster, "p.driver")
        entry = effects.DecisionRecord(b"handles-0", b"x" * 300_000)
        answered(cluster, effects.Append("p.decisions", "p.driver", driver, (entry,)))
        assert answered(cluster, effects.ReadDecisions("p.decisions", None)).records == (entry,)


def test_a_topic_of_decisions_is_made_and_has_one_partition(brokers: ScriptedCluster, cluster: Cluster) -> None:
    assert answered(cluster, effects.ReadDecisions("q.decisions", 64)) == effects.DecisionLog((), whole=True)
    assert len(cluster.metadata(["q.decisions"]).topics["q.decisions"].partitions) == 1
    with pytest.raises(KafkaError, match="topic t has 2 partitions instead of one"):
        answered(cluster, effects.ReadDecisions("t", 64))


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, None), (2, 2, None), (3, 3, "2"), (4, 3, "2")])
def test_decisions_are_kept_as_safely_as_the_cluster_can(brokers: int, replicas: int, in_sync: str | None) -> None:
    with (
        ScriptedCluster(brokers=brokers, transaction_version=2) as running,
        Cluster(running.config(default_api_timeout_ms=20_000)) as cluster,
    ):
        answered(cluster, effects.ReadDecisions("q.decisions", 64))
        (request,) = running.requests(CreateTopicsRequest)
    (topic,) = request.topics
    configs = {config.name: config.value for config in topic.configs}
    assert (topic.num_partitions, topic.replication_factor) == (1, replicas)
    assert configs == {"cleanup.policy": "compact"} | ({"min.insync.replicas": in_sync} if in_sync else {})


def test_failed_end_txn_does_not_delay_other_transactions(brokers: ScriptedCluster, cluster: Cluster) -> None:
    names = ("p.1.0.0.0.0", "p.1.0.0.1.0")
    producers = [begun(cluster, name) for name in names]
    for name, producer in zip(names, producers, strict=True):
        answered(cluster, effects.Append("p.decisions", name, producer, ENTRIES))
    fenced = ProducerIdAndEpoch(producers[0].producer_id, producers[0].epoch + 7)
    ends = (effects.End(names[0], fenced), effects.End(names[1], producers[1]))
    brokers.script(EndTxnRequest, Drop(applied=True))
    error, ended = answered(cluster, effects.EndTransactions(ends, commit=True))
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.PRODUCER_FENCED
    assert isinstance(ended, ProducerIdAndEpoch)
    (again,) = answered(cluster, effects.EndTransactions(ends[1:], commit=True))
    assert again == ended, "asking again finds it done"
    brokers.script(EndTxnRequest, Refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    errors = answered(cluster, effects.EndTransactions(ends[1:], commit=True))
    assert [error.code for error in errors] == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]


def test_open_transactions_are_aborted_and_ending_ones_are_no_error(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(
        InitProducerIdRequest,
        Refuse(ErrorCode.CONCURRENT_TRANSACTIONS),
        Refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        Drop(),
    )
    names = ("p.1.0.0.0.0", "p.1.0.0.1.0", "p.1.0.0.2.0")
    first, second, third = answered(cluster, effects.AbortOpen(names, 60_000))
    assert (first, third) == (None, None)
    assert second.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_unknown_transactional_id_is_described_as_none(brokers: ScriptedCluster, cluster: Cluster) -> None:
    begun(cluster)
    brokers.script(DescribeTransactionsRequest, Drop())
    known, unknown = answered(cluster, effects.Describe(("p.1.0.0.0.0", "unknown")))
    assert (known.state, unknown) == ("Empty", None)


def test_now_effect_is_the_current_time(cluster: Cluster) -> None:
    assert answered(cluster, effects.Now()) > 1_700_000_000_000
