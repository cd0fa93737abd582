import dataclasses

import pytest

from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from tests.support.broker.driver import BrokerDriver, batch, commit_offset, fetch_request, idempotent
from tests.support.broker.transactional_producer import DirectProducer


def test_a_broker_that_did_nothing(broker: BrokerDriver) -> None:
    metrics = broker.broker.metrics()
    assert (metrics.apis, metrics.topics, metrics.groups, metrics.transactions) == ({}, {}, {}, {})
    assert metrics.waiting == 0


def test_bytes_and_requests_are_counted(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2, segment_bytes="1000")
    for _ in range(3):
        broker.produce("t", batch(b"x" * 800, b"y"), 1)
    broker.produce("t", batch(b"x"), 7)
    broker.fetch("t", 2, 1)
    metrics = broker.broker.metrics()
    one = len(batch(b"x" * 800, b"y"))
    topic = metrics.topics["t"]
    assert (topic.bytes_in, topic.messages_in, topic.bytes_out) == (3 * one, 6, 2 * one)
    assert [log.log_end_offset for log in topic.partitions.values()] == [0, 6]
    full = topic.partitions[1]
    assert (full.size_bytes, full.segments, full.log_start_offset, full.high_watermark) == (3 * one, 3, 0, 6)
    produce, fetch = metrics.apis["Produce"], metrics.apis["Fetch"]
    assert (produce.requests, dict(produce.versions), dict(produce.errors)) == (
        4,
        {9: 4},
        {"UNKNOWN_TOPIC_OR_PARTITION": 1},
    )
    assert produce.bytes_in > 3 * one
    assert fetch.bytes_out > 2 * one
    assert 0 < produce.time_p50_s <= produce.time_p99_s <= produce.time_p999_s
    assert produce.time_total_s > 0
    assert sum(api.requests for api in metrics.apis.values()) == 6


def test_a_duplicate_is_not_counted_twice(broker: BrokerDriver) -> None:
    broker.create("t")
    for _ in range(2):
        broker.produce("t", idempotent(batch(b"x"), producer_id=5, sequence=0))
    assert broker.broker.metrics().topics["t"].messages_in == 1


def test_metrics_of_transactions(broker: BrokerDriver) -> None:
    broker.create("t")
    open_one, done = DirectProducer(broker, "a").begin(), DirectProducer(broker, "b").begin()
    DirectProducer(broker, "c").begin()
    broker.produce("t", batch(b"x"))
    open_one.write("t", "y", "z")
    done.write("t")
    metrics = broker.broker.metrics()
    assert metrics.transactions == {"Empty": 1, "Ongoing": 2}
    log = metrics.topics["t"].partitions[0]
    assert (log.open_transactions, log.last_stable_offset, log.last_stable_offset_lag) == (2, 1, 3)
    done.commit()
    metrics = broker.broker.metrics()
    assert metrics.transactions == {"CompleteCommit": 1, "Empty": 1, "Ongoing": 1}
    log = metrics.topics["t"].partitions[0]
    assert (log.open_transactions, log.last_stable_offset_lag) == (1, 4)


def test_sessions_waits_and_groups(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.ask(fetch_request("t", session_epoch=0), 11)
    task = broker.begin(fetch_request("t", max_wait_ms=1000, min_bytes=1), 11)
    broker.settle()
    commit_offset(broker, 1)
    metrics = broker.broker.metrics()
    assert dataclasses.astuple(metrics.fetch_sessions) == (1, 1, 0)
    assert metrics.waiting == 1
    assert metrics.groups == {("classic", "Empty"): 1}
    broker.advance(1000)
    broker.run(task)


def test_a_deleted_topic_has_no_metrics(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.produce("t", batch(b"x"))
    broker.ask(DeleteTopicsRequest(topic_names=("t",)), 5)
    assert broker.broker.metrics().topics == {}
    broker.create("t")
    assert broker.broker.metrics().topics["t"].messages_in == 0


def test_values_do_not_change(broker: BrokerDriver) -> None:
    broker.create("t")
    before = broker.broker.metrics()
    broker.produce("t", batch(b"x"))
    assert before.topics["t"].messages_in == 0
    assert "Produce" not in before.apis
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.waiting = 5  # type: ignore[misc]  # frozen, as is to be seen
