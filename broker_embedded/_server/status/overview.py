"""Rows of the status page about the broker: its state, topics, partitions and connections."""

import heapq
from collections import Counter
from collections.abc import Mapping
from typing import Final

from broker_embedded._broker import Broker
from broker_embedded._log.log import Log
from broker_embedded._metadata.image import TopicImage
from broker_embedded._metrics.snapshot import api_metrics
from broker_embedded._replica.partitions import partition_metrics
from broker_embedded._server.connection import Connection
from broker_embedded._server.dispatch import Peer
from broker_embedded._server.status.query import MAX_ROWS, Json, Query, Row, not_found, page_of
from broker_embedded._server.status.recent_warnings import RecentWarnings
from spark_kafka_native import __version__
from spark_kafka_native._protocol.topic import TopicPartition

_MS: Final = 1000


def describe_broker(broker: Broker, addresses: list[str], warnings: RecentWarnings) -> Json:
    """The broker, counts of topics, groups, transactions, connections, requests by API, and the last warnings."""
    config, image, traffic = broker.config, broker.image, broker.traffic
    groups = Counter((group.group_type, group.state_name) for group in broker.groups.all.values())
    transactions = Counter(known.state.label for known in broker.transactions.all.values())
    return {
        "node_id": config.node_id,
        "cluster_id": image.cluster_id,
        "version": __version__,
        "as_version": config.release.name,
        "addresses": addresses,
        "data_dir": str(broker.logs.data_dir),
        "now_ms": broker.timers.now_ms(),
        "topics": len(image.topics),
        "partitions": sum(len(topic.partitions) for topic in image.topics.values()),
        "offline_logs": broker.logs.offline_count,
        "connections": {
            "open": traffic.connections,
            "opened": traffic.connections_opened,
            "refused": sum(traffic.connections_refused.values()),
        },
        "groups": [{"type": kind, "state": state, "count": n} for (kind, state), n in sorted(groups.items())],
        "transactions": [{"state": state, "count": n} for state, n in sorted(transactions.items())],
        "delayed_requests": broker.delayed.count,
        "requests": [
            {
                "api": name,
                "requests": api.requests,
                "bytes_in": api.bytes_in,
                "bytes_out": api.bytes_out,
                "p50_ms": api.time_p50_s * _MS,
                "p99_ms": api.time_p99_s * _MS,
                "errors": dict(api.errors),
            }
            for name, api in api_metrics(traffic).items()
        ],
        "warnings": [
            {"time_ms": each.time_ms, "level": each.level, "logger": each.logger, "text": each.text}
            for each in warnings.warnings
        ],
    }


def list_topics(broker: Broker, query: Query) -> Json:
    """Topics by name."""
    topics = broker.image.topics

    def row_of(name: str) -> tuple[Row, int]:
        topic = topics[name]
        return _topic_row(broker, topic), len(topic.partitions)

    return page_of(topics, query, row_of)


def _topic_row(broker: Broker, topic: TopicImage) -> Row:
    size = offsets = 0
    for index in range(len(topic.partitions)):
        log = _log(broker, topic.name, index)
        if log is not None and log.offline is None:
            size += log.local.size_in_bytes
            offsets += log.high_watermark - log.log_start_offset
    traffic = broker.traffic.topic(topic.name)
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "is_internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(part.replicas) for part in topic.partitions), default=0),
        "under_replicated": sum(len(part.isr) < len(part.replicas) for part in topic.partitions),
        "without_leader": sum(part.leader < 0 for part in topic.partitions),
        "size_bytes": size,
        "offsets": offsets,
        "messages_in": traffic.messages_in,
        "bytes_in": traffic.bytes_in,
        "bytes_out": traffic.bytes_out,
    }


def describe_topic(broker: Broker, query: Query) -> Json:
    """One topic, its settings, and its partitions from number ``from`` on."""
    name = query.text("name")
    first, limit = query.number_or("from", 0), query.limit()
    query.finish()
    topic = broker.image.topic(name)
    if topic is None:
        raise not_found(f"there is no topic {name!r}")
    last = min(first + limit, len(topic.partitions))
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "is_internal": topic.is_internal,
        "configs": dict(sorted(topic.configs.items())),
        "partitions": len(topic.partitions),
        "rows": [_partition_row(broker, topic, index) for index in range(first, last)],
        "next": last if last < len(topic.partitions) else None,
    }


def _partition_row(broker: Broker, topic: TopicImage, index: int) -> Row:
    image = topic.partitions[index]
    row: Row = {
        "partition": index,
        "leader": image.leader,
        "leader_epoch": image.leader_epoch,
        "replicas": list(image.replicas),
        "isr": list(image.isr),
    }
    log = _log(broker, topic.name, index)
    if log is None:
        return row
    if log.offline is not None:
        return row | {"offline": log.offline}
    metrics = partition_metrics(log)
    return row | {
        "log_start_offset": metrics.log_start_offset,
        "last_stable_offset": metrics.last_stable_offset,
        "high_watermark": metrics.high_watermark,
        "log_end_offset": metrics.log_end_offset,
        "size_bytes": metrics.size_bytes,
        "segments": metrics.segments,
        "open_transactions": metrics.open_transactions,
    }


def _log(broker: Broker, topic: str, index: int) -> Log | None:
    return broker.logs.get(TopicPartition(topic, index))


def list_connections(broker: Broker, connections: Mapping[Connection, Peer], query: Query) -> Json:
    """Connections by the address of the client, and their number."""
    limit = query.limit(MAX_ROWS)
    query.finish()
    now_ms = broker.timers.elapsed_ms()
    first = heapq.nsmallest(limit, connections.items(), key=lambda item: item[0].peer)
    return {"rows": [_connection_row(*item, now_ms) for item in first], "count": len(connections)}


def _connection_row(connection: Connection, peer: Peer, now_ms: int) -> Row:
    return {
        "peer": connection.peer,
        "listener": peer.listener,
        "user": peer.session.user,
        "client_id": peer.client.client_id,
        "software_name": peer.client.software_name,
        "software_version": peer.client.software_version,
        "idle_ms": max(0, now_ms - connection.last_active_ms),
    }
