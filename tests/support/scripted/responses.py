"""How a scripted broker answers when no fault is scripted: one function per API."""

import time
from collections.abc import Callable
from typing import Any

from broker_embedded._testing.refusals import refusal
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsRequest
from spark_kafka_native._protocol.messages.create_topics import CreateTopicsRequest
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.messages.describe_producers import DescribeProducersRequest
from spark_kafka_native._protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchRequest
from spark_kafka_native._protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._protocol.wire import ZERO_UUID
from tests.support.scripted.groups import group_response
from tests.support.scripted.partitions import FakePartition, FakeState, Refusal
from tests.support.scripted.transactions import init_transactional, transactional_response

_READ_COMMITTED = 1


def respond(request: Request[Any], version: int, state: FakeState, broker: int, ports: dict[int, int]) -> Response:
    """The response of ``broker``; the state changes as the request asks."""
    with state.lock:
        state.ports = ports
        response = (
            transactional_response(request, version, state, broker)
            or group_response(request, version, state, broker)
            or _RESPONSES[type(request)](request, state, broker)
        )
        return refusal(request, version, response) if isinstance(response, ErrorCode) else response


def _metadata(request: MetadataRequest, state: FakeState, _broker: int) -> Response:
    names = list(state.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
    for name in names:
        if name not in state.topics and request.allow_auto_topic_creation and state.auto_create:
            state.create(name, state.auto_create)
    brokers = (metadata.MetadataResponseBroker(node_id=node, **_at(port)) for node, port in state.ports.items())
    return metadata.MetadataResponse(
        brokers=tuple(brokers),
        cluster_id=state.cluster_id,
        controller_id=state.controller,
        topics=tuple(_topic(name, state) for name in names),
    )


def _at(port: int) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": port}


def _topic(name: str, state: FakeState) -> metadata.MetadataResponseTopic:
    topic = state.topics.get(name)
    if topic is None:
        return metadata.MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
    partitions = tuple(metadata.MetadataResponsePartition(**_part(*each)) for each in topic.partitions.items())
    return metadata.MetadataResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions)


def _part(number: int, part: FakePartition) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE if part.leader > 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": number,
        "leader_id": part.leader,
        "replica_nodes": part.replicas or ((part.leader,) if part.leader > 0 else ()),
        "leader_epoch": part.leader_epoch,
    }


def _produce(request: ProduceRequest, state: FakeState, broker: int) -> Response:
    def append(topic: produce.TopicProduceData, data: produce.PartitionProduceData) -> produce.PartitionProduceResponse:
        log_start = -1
        try:
            name = state.name_of(topic.name, topic.topic_id)
            partition = state.led(broker, name, data.index)
            log_start = partition.log_start
            if request.transactional_id is not None:
                code = state.transactions.wrote(request.transactional_id, TopicPartition(name, data.index))
                if code is not ErrorCode.NONE:
                    raise Refusal(code)
            offset = partition.append(data.records)
        except Refusal as refused:
            return produce.PartitionProduceResponse(
                index=data.index, error_code=refused.code, base_offset=-1, log_start_offset=log_start
            )
        return produce.PartitionProduceResponse(index=data.index, base_offset=offset, log_start_offset=0)

    responses = []
    for topic in request.topic_data:
        parts = tuple(append(topic, data) for data in topic.partition_data)
        responses.append(
            produce.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts)
        )
    state.lock.notify_all()
    return produce.ProduceResponse(responses=tuple(responses))


def _fetch(request: FetchRequest, state: FakeState, broker: int) -> Response:
    ends = time.monotonic() + request.max_wait_ms / 1000
    while True:
        parts: list[tuple[fetch.FetchTopic, fetch.PartitionData]] = []
        used = 0
        for topic in request.topics:
            for wanted in topic.partitions:
                parts.append((topic, _read(topic, wanted, request, state, broker, used)))
                used += len(parts[-1][1].records or b"")
        if any(part.records or part.error_code for _, part in parts) or time.monotonic() >= ends:
            break
        state.lock.wait(ends - time.monotonic())
    return fetch.FetchResponse(
        responses=tuple(
            fetch.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=(part,))
            for topic, part in parts
        )
    )


def _read(
    topic: fetch.FetchTopic, part: fetch.FetchPartition, request: FetchRequest, state: FakeState, broker: int, used: int
) -> fetch.PartitionData:
    """A partition's part of the response, which has ``used`` bytes of others' already."""
    try:
        name = state.name_of(topic.topic, topic.topic_id)
        reader = request.replica_id
        partition = state.led(broker, name, part.partition, part.current_leader_epoch, replica_id=reader)
        if part.last_fetched_epoch >= 0:
            epoch, end = partition.end_of_epoch(part.last_fetched_epoch) or _out_of_range()
            if epoch < part.last_fetched_epoch or end < part.fetch_offset:
                diverging = fetch.EpochEndOffset(epoch=epoch, end_offset=end)
                return fetch.PartitionData(partition_index=part.partition, diverging_epoch=diverging, records=b"")
        room = min(part.partition_max_bytes, max(request.max_bytes - used, 0))
        records = partition.read(part.fetch_offset, room)
        if used and len(records) > room:
            records = b""
    except Refusal as refused:
        return fetch.PartitionData(partition_index=part.partition, error_code=refused.code, high_watermark=-1)
    committed_only = request.isolation_level == _READ_COMMITTED
    if part.fetch_offset >= (partition.stable_end if committed_only else partition.visible_end):
        records = b""
    return fetch.PartitionData(
        partition_index=part.partition,
        high_watermark=partition.visible_end,
        last_stable_offset=partition.stable_end,
        log_start_offset=partition.log_start,
        aborted_transactions=tuple(partition.aborted) if committed_only else None,
        records=records,
    )


def _out_of_range() -> tuple[int, int]:
    raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)


def _offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, state: FakeState, broker: int) -> Response:
    def look_up(
        name: str, part: offset_for_leader_epoch.OffsetForLeaderPartition
    ) -> offset_for_leader_epoch.EpochEndOffset:
        try:
            partition = state.led(broker, name, part.partition, part.current_leader_epoch)
        except Refusal as refused:
            return offset_for_leader_epoch.EpochEndOffset(partition=part.partition, error_code=refused.code)
        epoch, end = partition.end_of_epoch(part.leader_epoch) or (-1, -1)
        return offset_for_leader_epoch.EpochEndOffset(partition=part.partition, leader_epoch=epoch, end_offset=end)

    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        topics=tuple(
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=tuple(look_up(topic.topic, part) for part in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _list_offsets(request: ListOffsetsRequest, state: FakeState, broker: int) -> Response:
    def look_up(name: str, part: list_offsets.ListOffsetsPartition) -> list_offsets.ListOffsetsPartitionResponse:
        try:
            epoch, reader = part.current_leader_epoch, request.replica_id
            partition = state.led(broker, name, part.partition_index, epoch, replica_id=reader)
        except Refusal as refused:
            return list_offsets.ListOffsetsPartitionResponse(
                partition_index=part.partition_index, error_code=refused.code
            )
        offset, timestamp = -1, -1
        if part.timestamp == -2:
            offset = partition.log_start
        elif part.timestamp == -1:
            offset = partition.stable_end if request.isolation_level == _READ_COMMITTED else partition.visible_end
        else:
            for header in partition.headers():
                if header.max_timestamp >= part.timestamp:
                    offset, timestamp = header.base_offset, header.max_timestamp
                    break
        return list_offsets.ListOffsetsPartitionResponse(
            partition_index=part.partition_index, offset=offset, timestamp=timestamp
        )

    return list_offsets.ListOffsetsResponse(
        topics=tuple(
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name, partitions=tuple(look_up(topic.name, part) for part in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _init_producer_id(request: InitProducerIdRequest, state: FakeState, broker: int) -> Response | ErrorCode:
    if request.transactional_id is not None:
        if broker != state.coordinator:
            return ErrorCode.NOT_COORDINATOR
        return init_transactional(request, state)
    state.next_producer_id += 1
    return InitProducerIdResponse(producer_id=state.next_producer_id, producer_epoch=0)


def _create_topics(request: CreateTopicsRequest, state: FakeState, broker: int) -> Response:
    results = []
    for topic in request.topics:
        code = ErrorCode.NONE
        if broker != state.controller:
            code = ErrorCode.NOT_CONTROLLER
        elif topic.name in state.topics:
            code = ErrorCode.TOPIC_ALREADY_EXISTS
        elif not request.validate_only:
            state.create(topic.name, max(topic.num_partitions, 1))
        results.append(create_topics.CreatableTopicResult(name=topic.name, error_code=code, error_message=None))
    return create_topics.CreateTopicsResponse(topics=tuple(results))


def _delete_topics(request: DeleteTopicsRequest, state: FakeState, _broker: int) -> Response:
    return delete_topics.DeleteTopicsResponse(
        responses=tuple(
            delete_topics.DeletableTopicResult(
                name=name,
                error_code=ErrorCode.NONE if state.topics.pop(name, None) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for name in request.topic_names
        )
    )


def _create_partitions(request: CreatePartitionsRequest, state: FakeState, _broker: int) -> Response:
    results = []
    for topic in request.topics:
        partitions = state.topics[topic.name].partitions
        code = ErrorCode.NONE if topic.count > len(partitions) else ErrorCode.INVALID_PARTITIONS
        for number in range(len(partitions), topic.count):
            partitions[number] = type(partitions[0])(leader=number % state.brokers + 1)
        results.append(create_partitions.CreatePartitionsTopicResult(name=topic.name, error_code=code))
    return create_partitions.CreatePartitionsResponse(results=tuple(results))


def _find_coordinator(request: FindCoordinatorRequest, state: FakeState, _broker: int) -> Response:
    where = {"node_id": state.coordinator, **_at(state.ports[state.coordinator])}
    if request.coordinator_keys:
        found = (find_coordinator.Coordinator(key=key, **where) for key in request.coordinator_keys)
        return find_coordinator.FindCoordinatorResponse(coordinators=tuple(found))
    return find_coordinator.FindCoordinatorResponse(**where)


def _offset_commit(request: OffsetCommitRequest, state: FakeState, broker: int) -> Response | ErrorCode:
    if broker != state.coordinator:
        return ErrorCode.NOT_COORDINATOR
    topics = []
    for topic in request.topics:
        for part in topic.partitions:
            key = (request.group_id, TopicPartition(topic.name, part.partition_index))
            text = part.committed_metadata or ""
            state.committed[key] = (part.committed_offset, part.committed_leader_epoch, text)
        parts = tuple(
            offset_commit.OffsetCommitResponsePartition(partition_index=part.partition_index)
            for part in topic.partitions
        )
        topics.append(offset_commit.OffsetCommitResponseTopic(name=topic.name, partitions=parts))
    return offset_commit.OffsetCommitResponse(topics=tuple(topics))


def _offset_fetch(request: OffsetFetchRequest, state: FakeState, broker: int) -> Response | ErrorCode:
    if broker != state.coordinator:
        return ErrorCode.NOT_COORDINATOR
    wanted: dict[str, list[int]] = {}
    if request.topics is None:
        for group, partition in state.committed:
            if group == request.group_id:
                wanted.setdefault(partition.topic, []).append(partition.partition)
    else:
        wanted = {topic.name: list(topic.partition_indexes) for topic in request.topics}
    topics = []
    for name, numbers in wanted.items():
        parts = []
        for number in numbers:
            offset, epoch, text = state.committed.get((request.group_id, TopicPartition(name, number)), (-1, -1, ""))
            found: dict[str, Any] = {"committed_offset": offset, "committed_leader_epoch": epoch, "metadata": text}
            parts.append(offset_fetch.OffsetFetchResponsePartition(partition_index=number, **found))
        topics.append(offset_fetch.OffsetFetchResponseTopic(name=name, partitions=tuple(parts)))
    return offset_fetch.OffsetFetchResponse(topics=tuple(topics))


def _describe_producers(request: DescribeProducersRequest, state: FakeState, broker: int) -> Response:
    def described(name: str, number: int) -> describe_producers.PartitionResponse:
        try:
            partition = state.led(broker, name, number)
        except Refusal as refused:
            return describe_producers.PartitionResponse(partition_index=number, error_code=refused.code)
        producers = tuple(
            describe_producers.ProducerState(producer_id=producer_id, producer_epoch=epoch, last_sequence=last)
            for producer_id, (epoch, last) in partition.sequences.items()
        )
        return describe_producers.PartitionResponse(partition_index=number, active_producers=producers)

    return describe_producers.DescribeProducersResponse(
        topics=tuple(
            describe_producers.TopicResponse(
                name=topic.name, partitions=tuple(described(topic.name, number) for number in topic.partition_indexes)
            )
            for topic in request.topics
        )
    )


def _describe_topic_partitions(request: DescribeTopicPartitionsRequest, state: FakeState, _broker: int) -> Response:
    """The page that begins at the cursor, of the topics that are named."""
    start = request.cursor or describe_topic_partitions.Cursor()
    left = request.response_partition_limit
    topics = []
    following = None
    for name in sorted(topic.name for topic in request.topics if topic.name >= start.topic_name):
        first = start.partition_index if name == start.topic_name else 0
        if left == 0:
            following = describe_topic_partitions.Cursor(topic_name=name)
            break
        known = state.topics.get(name)
        parts = list(known.partitions.items())[first:] if known else []
        topic = describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            name=name,
            topic_id=known.topic_id if known else ZERO_UUID,
            partitions=tuple(
                describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
                    eligible_leader_replicas=(), last_known_elr=(), **_part(*each)
                )
                for each in parts[:left]
            ),
        )
        topics.append(topic)
        if len(parts) > left:
            following = describe_topic_partitions.Cursor(topic_name=name, partition_index=first + left)
            break
        left -= len(parts)
    return describe_topic_partitions.DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=following)


_RESPONSES: dict[type[Request[Any]], Callable[..., Response | ErrorCode]] = {
    DescribeProducersRequest: _describe_producers,
    DescribeTopicPartitionsRequest: _describe_topic_partitions,
    MetadataRequest: _metadata,
    ProduceRequest: _produce,
    FetchRequest: _fetch,
    ListOffsetsRequest: _list_offsets,
    OffsetForLeaderEpochRequest: _offset_for_leader_epoch,
    InitProducerIdRequest: _init_producer_id,
    CreateTopicsRequest: _create_topics,
    DeleteTopicsRequest: _delete_topics,
    CreatePartitionsRequest: _create_partitions,
    FindCoordinatorRequest: _find_coordinator,
    OffsetCommitRequest: _offset_commit,
    OffsetFetchRequest: _offset_fetch,
}
