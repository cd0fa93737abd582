"""librdkafka's mock cluster: several foreign brokers in this process, with faults on demand.

It lives in the shared library inside the confluent-kafka wheel and has no Python binding, hence ctypes. It keeps at
most 5 MiB or 100,000 messages per partition, stores batches as they come, checks producer sequences, and serves no
admin requests (topics are made here or on first use).
"""

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int16, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple, Self

DISCONNECT = -195
"""For `push_errors`: not a Kafka error code; the broker closes the connection on receiving the request."""

_RD_KAFKA_PRODUCER = 0

_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (c_void_p, []),
    "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "rd_kafka_destroy": (None, [c_void_p]),
    "rd_kafka_err2name": (c_char_p, [c_int]),
    "rd_kafka_mock_cluster_new": (c_void_p, [c_void_p, c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [c_void_p]),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, [c_void_p]),
    "rd_kafka_mock_topic_create": (c_int, [c_void_p, c_char_p, c_int, c_int]),
    "rd_kafka_mock_topic_set_error": (None, [c_void_p, c_char_p, c_int]),
    "rd_kafka_mock_partition_set_leader": (c_int, [c_void_p, c_char_p, c_int32, c_int32]),
    "rd_kafka_mock_partition_delete_records": (c_int, [c_void_p, c_char_p, c_int32, c_int64]),
    "rd_kafka_mock_push_request_errors_array": (None, [c_void_p, c_int16, c_size_t, POINTER(c_int)]),
    "rd_kafka_mock_broker_set_down": (c_int, [c_void_p, c_int32]),
    "rd_kafka_mock_broker_set_up": (c_int, [c_void_p, c_int32]),
    "rd_kafka_mock_broker_set_rtt": (c_int, [c_void_p, c_int32, c_int]),
    "rd_kafka_mock_start_request_tracking": (None, [c_void_p]),
    "rd_kafka_mock_stop_request_tracking": (None, [c_void_p]),
    "rd_kafka_mock_clear_requests": (None, [c_void_p]),
    "rd_kafka_mock_get_requests": (POINTER(c_void_p), [c_void_p, POINTER(c_size_t)]),
    "rd_kafka_mock_request_destroy_array": (None, [POINTER(c_void_p), c_size_t]),
    "rd_kafka_mock_request_id": (c_int32, [c_void_p]),
    "rd_kafka_mock_request_api_key": (c_int16, [c_void_p]),
}


class MockClusterError(Exception):
    """librdkafka refused a call; the message is its name for the reason."""


class TrackedRequest(NamedTuple):
    """One request that a mock broker received."""

    broker_id: int
    api_key: int


@functools.cache
def mock_cluster_unavailable() -> str | None:
    """Why the mock cluster cannot be had here (the reason to skip a test), or None when it can."""
    try:
        _library()
    except (ImportError, OSError, AttributeError) as error:
        return f"librdkafka's mock cluster is not available: {error}"
    return None


@functools.cache
def _library() -> ctypes.CDLL:
    """The librdkafka that confluent_kafka itself runs on, with the prototypes of what is used here."""
    import confluent_kafka

    package = Path(confluent_kafka.__file__).parent
    candidates = [*package.parent.glob("confluent_kafka.libs/librdkafka*"), *package.glob(".dylibs/librdkafka*")]
    if not candidates:
        raise OSError(f"no librdkafka beside {package}: confluent-kafka is not installed from a wheel")
    library = ctypes.CDLL(str(candidates[0]))
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class MockCluster:
    """`brokers` mock brokers, numbered from 1, on loopback ports; a context manager that ends them.

    All calls may be made from any one thread. Topics that were not created appear on first use with 4 partitions.
    """

    def __init__(self, brokers: int = 3) -> None:
        self._rd = _library()
        self._handle: int | None = None
        self._cluster: int | None = None
        self.broker_ids = tuple(range(1, brokers + 1))
        text = ctypes.create_string_buffer(512)
        conf = self._rd.rd_kafka_conf_new()
        # The handle only lends its thread to the cluster; keep it from logging the faults that tests ask for.
        self._rd.rd_kafka_conf_set(conf, b"log_level", b"0", text, len(text))
        self._handle = self._rd.rd_kafka_new(_RD_KAFKA_PRODUCER, conf, text, len(text))
        if not self._handle:
            raise MockClusterError(text.value.decode())
        self._cluster = self._rd.rd_kafka_mock_cluster_new(self._handle, brokers)
        if not self._cluster:
            self.close()
            raise MockClusterError("the mock cluster did not start")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the brokers and their threads; connections of clients are cut. May be called again."""
        cluster, self._cluster = self._cluster, None
        handle, self._handle = self._handle, None
        if cluster:
            self._rd.rd_kafka_mock_cluster_destroy(cluster)
        if handle:
            self._rd.rd_kafka_destroy(handle)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, comma separated."""
        return str(self._rd.rd_kafka_mock_cluster_bootstraps(self._open()).decode())

    def create_topic(self, name: str, partitions: int = 1, replication: int = 1) -> None:
        """Make a topic whose partitions' leaders are spread over the brokers."""
        self._check(self._rd.rd_kafka_mock_topic_create(self._open(), name.encode(), partitions, replication))

    def set_topic_error(self, name: str, code: int) -> None:
        """Let Metadata response with this error for the topic; 0 ends it."""
        self._rd.rd_kafka_mock_topic_set_error(self._open(), name.encode(), code)

    def set_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Move a partition's leadership, with its records and a new leader epoch.

        A partition without a leader is not on offer: asked to produce to one, librdkafka 2.16's mock ends the process.
        """
        self._check(self._rd.rd_kafka_mock_partition_set_leader(self._open(), topic.encode(), partition, broker_id))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Raise the partition's log start offset."""
        self._check(
            self._rd.rd_kafka_mock_partition_delete_records(self._open(), topic.encode(), partition, before_offset)
        )

    def push_errors(self, api_key: int, codes: Sequence[int]) -> None:
        """Answer the next `len(codes)` requests of an API, on any broker, with these error codes, in this order.

        0 lets a request through; DISCONNECT closes its connection. A Produce so answered appends nothing.
        """
        array = (c_int * len(codes))(*codes)
        self._rd.rd_kafka_mock_push_request_errors_array(self._open(), api_key, len(codes), array)

    def broker_down(self, broker_id: int) -> None:
        """Close a broker's connections and accept no new ones. Its partitions keep it as leader."""
        self._check(self._rd.rd_kafka_mock_broker_set_down(self._open(), broker_id))

    def broker_up(self, broker_id: int) -> None:
        """Let a broker accept connections again, on the port it had."""
        self._check(self._rd.rd_kafka_mock_broker_set_up(self._open(), broker_id))

    def set_rtt(self, rtt_ms: int, broker_id: int | None = None) -> None:
        """Delay all responses of one broker, or of all."""
        for target in self.broker_ids if broker_id is None else (broker_id,):
            self._check(self._rd.rd_kafka_mock_broker_set_rtt(self._open(), target, rtt_ms))

    def track_requests(self) -> None:
        """Remember received requests from now on."""
        self._rd.rd_kafka_mock_start_request_tracking(self._open())
        self._rd.rd_kafka_mock_clear_requests(self._open())

    def requests(self) -> tuple[TrackedRequest, ...]:
        """What was received since `track_requests`, in order."""
        count = c_size_t()
        array = self._rd.rd_kafka_mock_get_requests(self._open(), byref(count))
        try:
            return tuple(
                TrackedRequest(
                    self._rd.rd_kafka_mock_request_id(array[index]),
                    self._rd.rd_kafka_mock_request_api_key(array[index]),
                )
                for index in range(count.value)
            )
        finally:
            if count.value:
                self._rd.rd_kafka_mock_request_destroy_array(array, count)

    def _open(self) -> int:
        if self._cluster is None:
            raise MockClusterError("the mock cluster is closed")
        return self._cluster

    def _check(self, error: int) -> None:
        if error:
            raise MockClusterError(self._rd.rd_kafka_err2name(error).decode())
