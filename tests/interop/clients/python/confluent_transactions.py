"""Transactions of confluent-kafka, for its agent."""

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.interop.clients.python.line_agent import Json
from tests.support.clients.confluent_transactions import transactional_producer

TIMEOUT_S = 20.0


def transact(servers: str, transactional_id: str, topic: str, transactions: list[Json]) -> None:
    """Write transactions one after the other."""
    producer = transactional_producer(servers, transactional_id)
    for transaction in transactions:
        producer.begin_transaction()
        for record in transaction["records"]:
            producer.produce(topic, record["value"], record["key"], partition=record["partition"])
        assert producer.flush(TIMEOUT_S) == 0
        if transaction["commit"]:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)


def fence(servers: str, transactional_id: str, topic: str) -> None:
    """A producer writes, another takes its id, and the first wants to commit: which is refused."""
    first = transactional_producer(servers, transactional_id)
    first.begin_transaction()
    first.produce(topic, "fenced", partition=0)
    assert first.flush(TIMEOUT_S) == 0
    transactional_producer(servers, transactional_id)
    first.commit_transaction(TIMEOUT_S)


def copy(servers: str, transactional_id: str, group: str, source: str, topic: str, count: int) -> None:
    """Write what a group reads in capitals, with its positions. The first attempt is aborted."""
    producer = transactional_producer(servers, transactional_id)
    config = {"bootstrap.servers": servers, "group.id": group, "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([source])
    abort = True
    while count > 0:
        messages: list[Any] = [message for message in consumer.consume(500, 0.2) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(topic, message.value().upper(), message.key(), partition=message.partition())
        positions = {message.partition(): message.offset() + 1 for message in messages}
        offsets = [TopicPartition(source, partition, offset) for partition, offset in positions.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
        if abort:
            abort = False
            assert producer.flush(TIMEOUT_S) == 0
            producer.abort_transaction(TIMEOUT_S)
            for message in reversed(messages):  # the first of each partition comes last
                consumer.seek(TopicPartition(source, message.partition(), message.offset()))
        else:
            producer.commit_transaction(TIMEOUT_S)
            count -= len(messages)
    consumer.close()
