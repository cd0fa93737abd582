import uuid
from dataclasses import replace

import pytest

from spark_kafka_native._client.producer.partition_queue import OutgoingBatch, PartitionQueue
from spark_kafka_native._client.producer.produce_request import Loaded, max_version, pair, produce_request, refusal
from spark_kafka_native._client.retry import Backoff
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from spark_kafka_native._records.arrow.encode import EncodedBatch
from tests.support.records.record_batches import batch_of

IDS = {"t": uuid.UUID(int=1), "u": uuid.UUID(int=2)}


def loaded(topic: str, partition: int, *, topic_id: uuid.UUID | None = None) -> Loaded:
    encoded = EncodedBatch(buffer=batch_of([b"v"]), records_count=1, first_row=0)
    return Loaded(
        queue=PartitionQueue(
            TopicPartition(topic, partition), idempotent=False, max_in_flight=1, backoff=Backoff(1, 1)
        ),
        batch=OutgoingBatch(encoded=encoded, expires_at=0),
        topic_id=IDS[topic] if topic_id is None else topic_id,
    )


def test_partitions_are_grouped_by_topic_and_batches_go_by_reference() -> None:
    load = [loaded("t", 0), loaded("u", 0), loaded("t", 2)]
    request = produce_request(load, acks=-1, timeout_ms=9)
    assert [
        (topic.name, topic.topic_id, [part.index for part in topic.partition_data]) for topic in request.topic_data
    ] == [("t", IDS["t"], [0, 2]), ("u", IDS["u"], [0])]
    assert request.topic_data[0].partition_data[1].records is load[2].batch.encoded.buffer
    assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, 9, None)


def test_topics_without_ids_need_a_version_with_names() -> None:
    assert max_version([uuid.UUID(int=1)]) is None
    assert max_version([uuid.UUID(int=1), ZERO_UUID]) == 12


def test_transactions_whose_partitions_were_added_before_go_in_versions_that_add_none() -> None:
    assert max_version([uuid.UUID(int=1)], adds_partitions=False) == 11
    request = produce_request([loaded("t", 0)], acks=-1, timeout_ms=9, transactional_id="sink")
    assert request.transactional_id == "sink"


@pytest.mark.parametrize("by_name", [True, False])
def test_responses_are_paired_with_batches_by_topic_name_or_id(by_name: bool) -> None:
    load = [loaded("t", 0), loaded("u", 0), loaded("t", 2)]
    response = ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=name if by_name else "",
                topic_id=ZERO_UUID if by_name else IDS[name],
                partition_responses=tuple(PartitionProduceResponse(index=i, base_offset=base + i) for i in indexes),
            )
            for name, base, indexes in (("u", 100, [0]), ("t", 200, [2, 0]))
        )
    )
    assert [part and part.base_offset for _, part in pair(load, response)] == [200, 100, 202]


def test_a_missing_response_is_none() -> None:
    assert [part for _, part in pair([loaded("t", 0)], ProduceResponse())] == [None]


def test_a_refusal_names_the_broker_s_reason_and_the_first_bad_record() -> None:
    code = ErrorCode.INVALID_RECORD
    partition = TopicPartition("t", 2)
    part = PartitionProduceResponse(error_code=code)
    assert str(refusal(partition, part)) == f"{code.message} (INVALID_RECORD, 87)"
    part = replace(part, error_message="t-2: one record has no key")
    assert str(refusal(partition, part)) == "one record has no key (INVALID_RECORD, 87)"
    bad = BatchIndexAndErrorMessage(batch_index=4)
    assert (
        str(refusal(partition, replace(part, record_errors=(bad,))))
        == "record 4 of the batch: one record has no key (INVALID_RECORD, 87)"
    )
    bad = replace(bad, batch_index_error_message="no key")
    assert (
        str(refusal(partition, replace(part, record_errors=(bad,))))
        == "record 4 of the batch: no key (INVALID_RECORD, 87)"
    )


def test_a_refusal_names_the_missing_permission() -> None:
    part = PartitionProduceResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    text = "not authorized for WRITE on this topic (TOPIC_AUTHORIZATION_FAILED, 29)"
    assert str(refusal(TopicPartition("t", 2), part)) == text
