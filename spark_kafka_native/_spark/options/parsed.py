"""The parsed options of a query. Tasks unpickle them without importing the parser."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_native._client.config import ClientConfig
    from spark_kafka_native._client.partitioning.partitioner_names import TableLocation
    from spark_kafka_native._spark.exactly_once.names import Names
    from spark_kafka_native._spark.exactly_once.timing import Timing
    from spark_kafka_native._spark.offsets import OffsetLimit
    from spark_kafka_native._spark.subscription import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The parsed options of a source; frozen and pickled to the tasks."""

    client: "ClientConfig"
    subscription: "Subscription"
    starting: "OffsetLimit"
    ending: "OffsetLimit"
    """``Latest`` in a stream."""
    bind_at_load: bool
    """Whether a batch looks up earliest and latest once, when its DataFrame is loaded, and not in the tasks."""
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    """Longest wait for ``min_offsets_per_trigger``."""
    min_partitions: int | None
    max_partitions: int | None
    """Most tasks that the ranges are assigned to; None: one task for each range."""
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    include_headers: bool
    offset_retries: int
    offset_retry_interval_ms: int
    poll_timeout_ms: int | None
    """Longest wait of a task for records; None: ``default.api.timeout.ms``."""
    max_decompressed_batch_bytes: int
    """Most decompressed bytes of one record batch."""
    group_id: str | None
    """The consumer group of ``Committed`` and ``commit_to_group``."""
    commit_to_group: bool
    """Whether a stream commits the offsets of finished micro-batches; needs ``group_id``."""
    jvm_checkpoint: str | None
    """Checkpoint directory of the JVM connector."""
    invalid_utf8: str
    """Handling of bytes that are not UTF-8 in a string column: replace, null, fail or keep."""
    filter_pushdown: bool
    """Whether pushed filters may narrow a batch read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOnce:
    """The names and the timing of a query's transactions."""

    names: "Names"
    timing: "Timing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The parsed options of a sink; frozen and pickled to the tasks."""

    client: "ClientConfig"
    topic: str | None
    """Topic of every row; None: that in the column ``topic``."""
    include_timestamp: bool
    """Whether the column ``timestamp`` is the records' timestamp."""
    partitioner: str | None
    """A name or ``module:function`` (see ``client.partitioning.partitioner_names``); None: that of ``client``."""
    lookup_table: "TableLocation | None"
    """Where the tables of the partitioner ``lookup`` are; None: another partitioner."""
    exactly_once: ExactlyOnce | None
    """None: at least once."""
