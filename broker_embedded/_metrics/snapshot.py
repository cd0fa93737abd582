"""The metrics of a broker as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker_embedded._metrics.traffic import ApiTraffic, Traffic
from spark_kafka_native._protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiMetrics:
    """The requests of one API since the start.

    ``versions`` are requests by version, ``errors`` error codes in responses by name. Times are from the request's last
    byte to the response's first, waits included. ``time_buckets`` are bounds in seconds, each with the number of
    requests up to it.
    """

    requests: int
    versions: Mapping[int, int]
    errors: Mapping[str, int]
    bytes_in: int
    bytes_out: int
    time_total_s: float
    time_p50_s: float
    time_p99_s: float
    time_p999_s: float
    time_buckets: Sequence[tuple[float, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetrics:
    """The present state of a partition's log."""

    size_bytes: int
    segments: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    open_transactions: int

    @property
    def last_stable_offset_lag(self) -> int:
        """The offsets between the last stable offset and the high watermark."""
        return self.high_watermark - self.last_stable_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetrics:
    """One topic: record batches in and out since the start, and its partitions by number."""

    bytes_in: int
    messages_in: int
    bytes_out: int
    partitions: Mapping[int, PartitionMetrics]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionMetrics:
    """Connections: open now, accepted since the start, and refused since the start, by limit."""

    open: int
    opened: int
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSessionMetrics:
    """Fetch sessions (KIP-227): open now, their partitions, and evictions since the start."""

    sessions: int
    partitions: int
    evictions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetrics:
    """All metrics at one time.

    ``groups`` counts groups by type and state, ``transactions`` transactional ids by state. ``waiting`` are delayed
    requests, ``offline_logs`` partitions whose log is offline until the next start.
    """

    apis: Mapping[str, ApiMetrics]
    topics: Mapping[str, TopicMetrics]
    connections: ConnectionMetrics
    fetch_sessions: FetchSessionMetrics
    groups: Mapping[tuple[str, str], int]
    transactions: Mapping[str, int]
    waiting: int
    offline_logs: int


def api_metrics(traffic: Traffic) -> dict[str, ApiMetrics]:
    """The metrics of each requested API, by its name."""
    return {api.name: _of_api(api) for _, api in sorted(traffic.apis.items())}


def _of_api(api: ApiTraffic) -> ApiMetrics:
    times = api.times
    return ApiMetrics(
        requests=times.count,
        versions=dict(sorted(api.versions.items())),
        errors={ErrorCode.of(code).name: count for code, count in sorted(api.errors.items())},
        bytes_in=api.bytes_in,
        bytes_out=api.bytes_out,
        time_total_s=times.total_s,
        time_p50_s=times.percentile_s(50),
        time_p99_s=times.percentile_s(99),
        time_p999_s=times.percentile_s(99.9),
        time_buckets=times.cumulative(),
    )


def topic_metrics(
    traffic: Traffic, partitions: Mapping[str, Mapping[int, PartitionMetrics]]
) -> dict[str, TopicMetrics]:
    """The metrics of each topic and its partitions."""
    found = {}
    for name in sorted(partitions):
        topic = traffic.topic(name)
        found[name] = TopicMetrics(
            bytes_in=topic.bytes_in,
            messages_in=topic.messages_in,
            bytes_out=topic.bytes_out,
            partitions=partitions[name],
        )
    return found
