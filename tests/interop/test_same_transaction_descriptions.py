"""The bundled broker tells readers and administrators of transactions the same as Apache Kafka, field by field."""

from typing import Any

import pytest

from spark_kafka_native._protocol.messages import describe_producers as producing
from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.list_transactions import ListTransactionsRequest
from spark_kafka_native._protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.broker.driver import fetch_request
from tests.support.requests.conversation import Conversation
from tests.support.requests.of_topic import list_offsets
from tests.support.requests.same_responses import compare_brokers
from tests.support.requests.transaction_stories import ToldProducer, second_epoch

pytestmark = pytest.mark.interop

UNKNOWN_ID = 999_999


def _fetched(broker: Conversation, topic: str) -> object:
    response = broker.response(fetch_request(broker.topic(topic), isolation_level=1), 11)
    data = response.responses[0].partitions[0]
    aborted = [one.first_offset for one in data.aborted_transactions or ()]
    return data.last_stable_offset, data.high_watermark, aborted


@compare_brokers
def test_markers(broker: Conversation) -> None:
    broker.create("t", 2)
    t = broker.topic("t")

    def mark(version: int, note: str, *epochs: int, partitions: tuple[int, ...] = (0,), **others: Any) -> None:
        topics = (
            WritableTxnMarkerTopic(name=t, partition_indexes=partitions),
            WritableTxnMarkerTopic(name=broker.topic("none"), partition_indexes=(0,)),
        )
        fields = {"producer_id": producer.producer_id, "topics": topics, **others}
        markers = tuple(WritableTxnMarker(producer_epoch=epoch, **fields) for epoch in epochs)
        broker.ask(WriteTxnMarkersRequest(markers=markers), version, note)

    for version in (1, 2):
        producer = second_epoch(broker, f"id-{version}", 1)
        producer.write(t, "a")
        mark(version, "an older epoch", producer.epoch - 1)
        mark(version, "no producer", producer.epoch, producer_id=UNKNOWN_ID + version)
        mark(version, "several partitions", producer.epoch, partitions=(0, 1, 7))
        mark(version, "again", producer.epoch)
        producer.write(t, "b")
        mark(version, "commit", producer.epoch, transaction_result=True)
        mark(version, "a newer coordinator", producer.epoch, coordinator_epoch=3)
        mark(version, "an older coordinator", producer.epoch, coordinator_epoch=1)
        mark(version, "a newer epoch", producer.epoch + 1, coordinator_epoch=3)
        mark(version, "none")
        if version == 2:
            mark(version, "TV_2, same epoch", producer.epoch + 1, transaction_version=2, coordinator_epoch=3)
            mark(version, "TV_2, next epoch", producer.epoch + 2, transaction_version=2, coordinator_epoch=3)
        broker.look("what is there", lambda: _fetched(broker, "t"))


@compare_brokers
def test_descriptions(broker: Conversation) -> None:
    broker.create("t", 2)
    t = broker.topic("t")
    for level in (1, 2):
        producer = ToldProducer(broker, f"id-{level}", level=level)

        def look(note: str, producer: ToldProducer = producer) -> None:
            ids = (producer.transactional_id, "no-such-id", "")
            broker.ask(DescribeTransactionsRequest(transactional_ids=ids), 0, note)
            wanted = producing.TopicRequest(name=t, partition_indexes=(0, 1, 7))
            none = producing.TopicRequest(name=broker.topic("none"), partition_indexes=(0,))
            broker.ask(producing.DescribeProducersRequest(topics=(wanted, none)), 0, note)
            for version in range(3):
                request = ListTransactionsRequest(producer_id_filters=(producer.producer_id,))
                broker.ask(request, version, note)

        look("before")
        producer.begin()
        look("empty")
        for commit in (True, False):
            producer.write(t, "a", "b", partition=1)
            look("open")
            response = producer.end(commit=commit)
            producer.settle()
            look("over")
            if level == 2:
                producer.take(response.producer_id, response.producer_epoch)
            else:
                producer.take(*producer.identity)
        producer.begin()
        look("new epoch")


@compare_brokers
def test_lists(broker: Conversation) -> None:
    broker.create("t")
    idle, busy = ToldProducer(broker, "idle"), ToldProducer(broker, "busy")
    for producer in (idle, busy):
        producer.begin()
    busy.write(broker.topic("t"), "a")
    ids = (idle.producer_id, busy.producer_id)
    filters: dict[str, dict[str, Any]] = {
        "all": {},
        "one state": {"state_filters": ("Ongoing",)},
        "states": {"state_filters": ("Ongoing", "Empty")},
        "case": {"state_filters": ("ongoing",)},
        "known and unknown": {"state_filters": ("Ongoing", "Nonsense")},
        "unknown": {"state_filters": ("Nonsense", "")},
        "dead": {"state_filters": ("Dead", "PrepareEpochFence")},
        "one": {"producer_id_filters": (busy.producer_id,)},
        "no producer id": {"producer_id_filters": (-1,)},
    }
    young: dict[str, dict[str, Any]] = {f"for {ms} ms": {"duration_filter": ms} for ms in (-5, 0, 600_000)}
    patterns = ("", ".*busy", f"{broker.topic('')}(busy|idle)", "busy", "(", "*", "[a", "(?P<x>.*)y", "a{2,1}")
    named: dict[str, dict[str, Any]] = {
        f"named {pattern.replace(broker.topic(''), '')}": {"transactional_id_pattern": pattern} for pattern in patterns
    }
    for version in range(3):
        wanted = filters | (young if version >= 1 else {}) | (named if version >= 2 else {})
        for what, fields in wanted.items():
            broker.ask(ListTransactionsRequest(**({"producer_id_filters": ids} | fields)), version, what)
    busy.end(commit=False)
    busy.settle()


@compare_brokers
def test_reading(broker: Conversation) -> None:
    broker.create("t")
    t = broker.topic("t")
    one, two = ToldProducer(broker, "one"), ToldProducer(broker, "two", level=1)
    for producer in (one, two):
        producer.begin()

    def look(note: str) -> None:
        for isolation in (0, 1):
            for version in range(4, 13):
                response = broker.response(fetch_request(t, isolation_level=isolation), version)
                data = response.responses[0].partitions[0]
                aborted = data.aborted_transactions
                said = (
                    data.last_stable_offset,
                    data.high_watermark,
                    aborted if aborted is None else sorted(entry.first_offset for entry in aborted),
                    len(bytes(data.records or b"")),  # type: ignore[arg-type]  # as a client gets them
                )
                broker.remember(f"Fetch v{version} {isolation} {note}", repr(said))
            for version in range(2, 12):
                for at in (-1, -2, -3 if version >= 7 else 0, 0):
                    request = list_offsets(t, at, isolation_level=isolation)
                    found = broker.response(request, version).topics[0].partitions[0]
                    place = (found.error_code, found.offset, found.timestamp >= 0, found.leader_epoch)
                    broker.remember(f"ListOffsets v{version} {isolation} {at} {note}", repr(place))

    look("nothing")
    one.write(t, "a", "b")
    two.write(t, "c")
    look("two open")
    two.abort()
    two.settle()
    look("one open")
    one.abort()
    one.settle()
    look("both aborted")
    one.write(t, "d")
    one.commit()
    one.settle()
    look("one committed")
