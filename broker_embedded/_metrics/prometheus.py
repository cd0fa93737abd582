"""Metrics in Prometheus' text format, 0.0.4.

Names follow the usual translation of Apache Kafka's MBeans, so that dashboards for Kafka work. Times are histograms in
seconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from broker_embedded._metrics.snapshot import ApiMetrics, BrokerMetrics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_Labels: TypeAlias = Mapping[str, object]
_Samples: TypeAlias = Iterable[tuple[_Labels, float]]
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def text_of(metrics: BrokerMetrics) -> str:
    """The metrics as text."""
    return "\n".join([*_requests(metrics), *_topics(metrics), *_logs(metrics), *_server(metrics), ""])


def _requests(metrics: BrokerMetrics) -> Iterator[str]:
    apis, prefix = metrics.apis, "kafka_network_requestmetrics_"
    versions = [
        ({"request": name, "version": n}, count) for name, api in apis.items() for n, count in api.versions.items()
    ]
    errors = [
        ({"request": name, "error": code}, count) for name, api in apis.items() for code, count in api.errors.items()
    ]
    yield from _family(f"{prefix}requests_total", "counter", "Requests, by API and version.", versions)
    yield from _family(f"{prefix}errors_total", "counter", "Error codes in responses.", errors)
    for what, help_, values in (
        ("requestbytes_total", "Bytes of requests.", {name: api.bytes_in for name, api in apis.items()}),
        ("responsebytes_total", "Bytes of responses.", {name: api.bytes_out for name, api in apis.items()}),
    ):
        yield from _family(f"{prefix}{what}", "counter", help_, (({"request": name}, n) for name, n in values.items()))
    yield from _times(f"{prefix}totaltime_seconds", apis)


def _times(name: str, apis: Mapping[str, ApiMetrics]) -> Iterator[str]:
    yield from _head(name, "histogram", "Time from a request to its response, waiting included.")
    for request, api in apis.items():
        for bound, count in api.time_buckets:
            yield _sample(f"{name}_bucket", {"request": request, "le": bound}, count)
        yield _sample(f"{name}_bucket", {"request": request, "le": "+Inf"}, api.requests)
        yield _sample(f"{name}_sum", {"request": request}, api.time_total_s)
        yield _sample(f"{name}_count", {"request": request}, api.requests)


def _topics(metrics: BrokerMetrics) -> Iterator[str]:
    for what, help_, values in (
        ("bytesin", "Bytes of records written.", {name: topic.bytes_in for name, topic in metrics.topics.items()}),
        ("bytesout", "Bytes of records read.", {name: topic.bytes_out for name, topic in metrics.topics.items()}),
        ("messagesin", "Records written.", {name: topic.messages_in for name, topic in metrics.topics.items()}),
    ):
        name = f"kafka_server_brokertopicmetrics_{what}_total"
        yield from _family(name, "counter", help_, (({"topic": topic}, value) for topic, value in values.items()))


def _logs(metrics: BrokerMetrics) -> Iterator[str]:
    logs = [
        ({"topic": name, "partition": index}, log)
        for name, topic in metrics.topics.items()
        for index, log in topic.partitions.items()
    ]
    for what, help_, values in (
        ("size", "Bytes of a partition's segments.", [log.size_bytes for _, log in logs]),
        ("numlogsegments", "Segments of a partition.", [log.segments for _, log in logs]),
        ("logstartoffset", "Where a partition's log starts.", [log.log_start_offset for _, log in logs]),
        ("logendoffset", "Where a partition's log ends.", [log.log_end_offset for _, log in logs]),
        ("numopentransactions", "Ongoing transactions in a partition.", [log.open_transactions for _, log in logs]),
    ):
        samples = zip((labels for labels, _ in logs), values, strict=True)
        yield from _family(f"kafka_log_log_{what}", "gauge", help_, samples)
    yield from _family(
        "kafka_cluster_partition_laststableoffsetlag",
        "gauge",
        "Offsets that readers of committed records have to wait for.",
        ((labels, log.last_stable_offset_lag) for labels, log in logs),
    )
    name = "kafka_server_replicamanager_partitioncount"
    yield from _family(name, "gauge", "Partitions.", [({}, len(logs))])


def _server(metrics: BrokerMetrics) -> Iterator[str]:
    connections, sessions = metrics.connections, metrics.fetch_sessions
    prefix, cache = "kafka_server_socketservermetrics_connection", "kafka_server_fetchsessioncache_"
    plain: list[tuple[str, str, str, float]] = [
        (f"{prefix}_count", "gauge", "Connections open.", connections.open),
        (f"{prefix}_creation_total", "counter", "Connections let in.", connections.opened),
        (f"{cache}numincrementalfetchsessions", "gauge", "Fetch sessions.", sessions.sessions),
        (f"{cache}numincrementalfetchpartitionscached", "gauge", "Their partitions.", sessions.partitions),
        (f"{cache}incrementalfetchsessionevictions_total", "counter", "Sessions that made room.", sessions.evictions),
        (
            "kafka_server_replicamanager_offlinereplicacount",
            "gauge",
            "Partitions whose log is offline until the next start, because the disk failed.",
            metrics.offline_logs,
        ),
        ("kafka_server_delayedoperationpurgatory_purgatorysize", "gauge", "Requests in a long poll.", metrics.waiting),
    ]
    for name, kind, help_, value in plain:
        yield from _family(name, kind, help_, [({}, value)])
    yield from _family(
        f"{prefix}_refused_total",
        "counter",
        "Connections turned away, by the limit that was reached.",
        (({"limit": limit}, count) for limit, count in connections.refused.items()),
    )
    yield from _family(
        "kafka_coordinator_group_groupcount",
        "gauge",
        "Groups, by type and state.",
        (({"type": kind, "state": state}, count) for (kind, state), count in metrics.groups.items()),
    )
    yield from _family(
        "kafka_coordinator_transaction_transactionalidcount",
        "gauge",
        "Transactional ids, by state.",
        (({"state": state}, count) for state, count in metrics.transactions.items()),
    )


def _family(name: str, kind: str, help_: str, samples: _Samples) -> Iterator[str]:
    yield from _head(name, kind, help_)
    for labels, value in samples:
        yield _sample(name, labels, value)


def _head(name: str, kind: str, help_: str) -> Iterator[str]:
    yield f"# HELP {name} {help_}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: _Labels, value: float) -> str:
    inner = ",".join(f'{key}="{str(label).translate(_ESCAPES)}"' for key, label in labels.items())
    return f"{name}{{{inner}}} {value}" if inner else f"{name} {value}"
