"""Rows of the status page about groups, with their lag, and transactions."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from broker_embedded._broker import Broker
from broker_embedded._groups.classic.group import ClassicGroup
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.group import Group
from broker_embedded._groups.records import OffsetCommitValue
from broker_embedded._server.status.query import Json, Query, Row, not_found, page_of
from spark_kafka_native._protocol.consumer_protocol import MalformedEmbedded, read_assignment
from spark_kafka_native._protocol.topic import TopicPartition

_MAX_MEMBERS: Final = 200
_MAX_ASSIGNED: Final = 200
"""Upper bound of the partitions shown of one member or transaction."""


def list_groups(broker: Broker, query: Query) -> Json:
    """Groups by id. ``lag`` is the total of the partitions whose lag is known, ``unknown_lags`` how many are not."""
    groups = broker.groups.all

    def row_of(group_id: str) -> tuple[Row, int]:
        group = groups[group_id]
        lags = [_lag(broker, partition, value) for partition, value in _committed(broker, group_id)]
        known = [lag for lag in lags if lag is not None]
        row = _group_row(group) | {
            "committed_partitions": len(lags),
            "lag": sum(known) if known else None,
            "unknown_lags": len(lags) - len(known),
        }
        return row, len(lags)

    return page_of(groups, query, row_of)


def describe_group(broker: Broker, query: Query) -> Json:
    """One group, its members, and its committed offsets from number ``from`` on."""
    group_id = query.text("id")
    first, limit = query.number_or("from", 0), query.limit()
    query.finish()
    group = broker.groups.get(group_id)
    if group is None:
        raise not_found(f"there is no group {group_id!r}")
    committed = sorted(_committed(broker, group_id), key=lambda item: item[0])
    rows = [_offset_row(broker, *item) for item in committed[first : first + limit]]
    last = first + len(rows)
    return _group_row(group) | {
        "member_rows": list(islice(_member_rows(broker, group), _MAX_MEMBERS)),
        "committed_partitions": len(committed),
        "rows": rows,
        "next": last if last < len(committed) else None,
    }


def _group_row(group: Group) -> Row:
    return {
        "group_id": group.group_id,
        "type": group.group_type,
        "state": group.state_name,
        "protocol_type": group.protocol_type,
        "members": len(group.members) if isinstance(group, ClassicGroup | ConsumerGroup) else 0,
    }


def _committed(broker: Broker, group_id: str) -> Iterator[tuple[TopicPartition, OffsetCommitValue]]:
    """The committed offsets of a group, without those of deleted topics."""
    for partition, value in broker.groups.offsets.all_committed(group_id).items():
        if value.is_of(broker.image.topic_id(partition.topic)):
            yield partition, value


def _high_watermark(broker: Broker, partition: TopicPartition) -> int | None:
    """None for a partition that does not exist or has no log here."""
    log = broker.logs.get(partition)
    return None if log is None or log.offline is not None else log.high_watermark


def _lag(broker: Broker, partition: TopicPartition, value: OffsetCommitValue) -> int | None:
    """None if there is no high watermark, or it is less than the committed offset."""
    end = _high_watermark(broker, partition)
    return None if end is None or value.offset > end else end - value.offset


def _offset_row(broker: Broker, partition: TopicPartition, value: OffsetCommitValue) -> Row:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed_offset": value.offset,
        "high_watermark": _high_watermark(broker, partition),
        "lag": _lag(broker, partition, value),
        "committed_ms": value.commit_timestamp,
        "metadata": value.metadata,
    }


def _member_rows(broker: Broker, group: Group) -> Iterator[Row]:
    if isinstance(group, ClassicGroup):
        for member in group.members.values():
            yield {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "partitions": _assigned(member.assignment),
            }
    elif isinstance(group, ConsumerGroup):
        names = broker.image.names
        for each in group.members.values():
            held = islice(each.held, _MAX_ASSIGNED)
            yield {
                "member_id": each.member_id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "client_host": each.client_host,
                "partitions": sorted(f"{names.get(topic_id, topic_id)}-{index}" for topic_id, index in held),
            }


def _assigned(assignment: bytes) -> Sequence[str]:
    """The partitions in a classic member's assignment; none if it is not of the consumer protocol."""
    try:
        topics = read_assignment(assignment).assigned_partitions if assignment else ()
    except MalformedEmbedded:
        return ()
    names = (f"{topic.topic}-{index}" for topic in topics for index in topic.partitions)
    return sorted(islice(names, _MAX_ASSIGNED))


def list_transactions(broker: Broker, query: Query) -> Json:
    """Transactional ids with their producer and the partitions of their transaction."""
    transactions = broker.transactions.all

    def row_of(transactional_id: str) -> tuple[Row, int]:
        known = transactions[transactional_id]
        row = {
            "transactional_id": known.transactional_id,
            "state": known.state.label,
            "producer_id": known.producer_id,
            "producer_epoch": known.producer_epoch,
            "timeout_ms": known.timeout_ms,
            "started_ms": known.started_ms,
            "updated_ms": known.updated_ms,
            "partitions": [str(partition) for partition in sorted(known.partitions)[:_MAX_ASSIGNED]],
            "partition_count": len(known.partitions),
        }
        return row, len(known.partitions)

    return page_of(transactions, query, row_of)
