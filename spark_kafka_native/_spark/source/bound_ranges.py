"""The ranges of ``bindOffsets=load``, which the data source looks up when it is made."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_kafka_native._spark.planning.ranges import OffsetRange

_BIND_OFFSETS: Final = "bindoffsets"


class BoundRanges:
    """The bound ranges of a DataFrame. Pickled to the processes that plan, but not to the tasks.

    Spark pickles the source and its reader again into every task. 10,000 ranges take a megabyte, and a task has its
    ranges in its partition. So copies made after ``begin_planning`` have no ranges.
    """

    def __init__(self, ranges: "tuple[OffsetRange, ...]") -> None:
        self._ranges: tuple[OffsetRange, ...] | None = ranges
        self._is_planning = False

    def begin_planning(self) -> None:
        """Omit the ranges from later copies, which are for tasks."""
        self._is_planning = True

    @property
    def ranges(self) -> "tuple[OffsetRange, ...]":
        """All ranges. Raises RuntimeError in a task."""
        if self._ranges is None:
            raise RuntimeError("the ranges of bindOffsets=load are not available in a task")
        return self._ranges

    def __getstate__(self) -> dict[str, object]:
        """Without the ranges once planning has begun."""
        return {"_ranges": None if self._is_planning else self._ranges, "_is_planning": self._is_planning}


def bound_at_load(given: Mapping[str, str]) -> BoundRanges | None:
    """The ranges that a ``load()`` with these options reads; None if it does not bind offsets.

    Invalid options are no error here, because the reader or writer that parses them next reports them.
    Raises PlanError, DataLossError, KafkaError.
    """
    if _BIND_OFFSETS not in {name.lower() for name in given}:
        return None
    from spark_kafka_native._spark.errors import OptionError
    from spark_kafka_native._spark.options.parsing import Query, parse_source_options

    try:
        options = parse_source_options(given, Query.BATCH)
    except OptionError:
        return None
    if not options.bind_at_load:
        return None
    from spark_kafka_native._spark.garbage_collection import collection_paused
    from spark_kafka_native._spark.planning.batch import bind_batch_query
    from spark_kafka_native._spark.planning.bounds import Clock
    from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets

    with collection_paused():
        return BoundRanges(bind_batch_query(options, ClusterOffsets(options.client), Clock()))
