"""The batch reader: partitions on the driver, ``read_task`` in the tasks."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_kafka_native._spark.garbage_collection import collection_paused

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from spark_kafka_native._spark.options.parsed import SourceOptions
    from spark_kafka_native._spark.planning.narrowing import Narrowing
    from spark_kafka_native._spark.planning.packing import PlainTask
    from spark_kafka_native._spark.source.bound_ranges import BoundRanges
    from spark_kafka_native._spark.source.layout import Layout

_PUSHDOWN_WORKER: Final = "data_source_pushdown_filters"
"""The Python program that plans a read with filters to push down; without filters it is another one."""


_REMEMBERED_LOADS: Final = 1000
_narrowings: "dict[str, Narrowing]" = {}
"""The first filters of each ``load()``, in this worker process, which Spark reuses."""


def batch_reader(
    options: "SourceOptions", layout: "Layout", load_id: str, bound: "BoundRanges | None" = None
) -> "PyKafkaReader":
    """A reader with ``pushFilters`` if Spark pushes filters in this process, otherwise one without.

    While ``spark.sql.python.filterPushdown.enabled`` is false, which is the default, Spark rejects a reader that
    defines ``pushFilters``. A source does not get that setting. But Spark plans with filters in another worker program,
    whose name is on the command line. If a Spark release renames it, filters are not pushed.

    The setting alone is not enough: Spark (4.3.0) uses the plan of the last filtered scan for all uses of the same
    DataFrame, also for an unfiltered action, which would then lack rows. So the user confirms with option
    ``filterPushdown`` that the DataFrame has no other use. ``load_id`` identifies the DataFrame, and ``bound`` is the
    result of ``bound_at_load`` for it.
    """
    if bound is not None:
        bound.begin_planning()
    pushes = options.filter_pushdown and any(_PUSHDOWN_WORKER in argument for argument in sys.argv)
    return PyKafkaFilteringReader(options, layout, load_id, bound) if pushes else PyKafkaReader(options, layout, bound)


class PyKafkaReader(DataSourceReader):
    """Reads topics as a batch. Pickled into every task."""

    def __init__(self, options: "SourceOptions", layout: "Layout", bound: "BoundRanges | None") -> None:
        self._options = options
        self._layout = layout
        self._bound = bound
        self._narrowing: Narrowing | None = None
        """None: everything, of which the constructor's process imports nothing."""

    def partitions(self) -> list[InputPartition]:
        """The tasks. Spark calls it once per ``load()``, or once for each scan with filters to push."""
        from spark_kafka_native._spark.planning.batch import plan_batch_query
        from spark_kafka_native._spark.planning.bounds import Clock
        from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
        from spark_kafka_native._spark.planning.narrowing import EVERYTHING
        from spark_kafka_native._spark.planning.packing import to_plain

        source = ClusterOffsets(self._options.client)
        bound = None if self._bound is None else self._bound.ranges
        with collection_paused():
            tasks = plan_batch_query(self._options, source, Clock(), self._narrowing or EVERYTHING, bound)
            return [InputPartition(to_plain(task)) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The records of one task, those of each partition in order."""
        from spark_kafka_native._spark.planning.packing import from_plain
        from spark_kafka_native._spark.source.reader import read_task

        plain: PlainTask | None = partition.value
        return read_task(self._options, self._layout, None if plain is None else from_plain(plain))


class PyKafkaFilteringReader(PyKafkaReader):
    """Reads only the offsets that the query's filters need; Spark plans it for every filtered scan."""

    def __init__(self, options: "SourceOptions", layout: "Layout", load_id: str, bound: "BoundRanges | None") -> None:
        super().__init__(options, layout, bound)
        self._load_id = load_id

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":  # noqa: N802  # Spark's name
        """Use filters on topic, partition, offset and timestamp. Spark also applies all of them.

        A DataFrame with other filters than before is read whole, because both scans may run with this plan.
        """
        from spark_kafka_native._spark.planning.narrowing import EVERYTHING
        from spark_kafka_native._spark.source.filters import narrowing_of

        narrowing = narrowing_of(filters, self._layout)
        first = _narrowings.setdefault(self._load_id, narrowing)
        if narrowing == first:
            self._narrowing = narrowing
        else:
            _narrowings[self._load_id] = EVERYTHING
        while len(_narrowings) > _REMEMBERED_LOADS:
            del _narrowings[next(iter(_narrowings))]
        return filters
