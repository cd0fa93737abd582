"""A task: one offset range, or several that are read together -> batches for Spark."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from spark_kafka_native.client.cluster.cluster import shared_cluster
from spark_kafka_native.client.consumer.gathering import gathered
from spark_kafka_native.client.consumer.joint_fetcher import JointFetcher, PartitionRange, Place
from spark_kafka_native.client.errors import TopicRecreated
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.errors import TaskError, listed
from spark_kafka_native.spark.options.parsing import SourceOptions
from spark_kafka_native.spark.planning.data_loss import accept_or_raise, deleted_partitions, recreated
from spark_kafka_native.spark.planning.packing import Task
from spark_kafka_native.spark.planning.ranges import OffsetRange
from spark_kafka_native.spark.source.range_reader import TARGET_ROWS, bind_ranges, failed, read_range
from spark_kafka_native.spark.source.schema import Layout
from spark_kafka_native.spark.source.shaper import RowShaper
from spark_kafka_native.spark.workers import task_begins


def read_task(options: SourceOptions, layout: Layout, task: Task | None) -> Iterator[pa.RecordBatch]:
    """The records of a task, those of each partition in order, as batches of ``layout.arrow_schema``; none for None.

    Spark runs one task of a batch query that has no partitions, and gives it None. Raises as ``read_range``.
    """
    task_begins()
    if not task:
        return
    if len(task) == 1:
        yield from read_range(options, layout, task[0])
        return
    yield from gathered(_read_together(options, layout, task), TARGET_ROWS)


def _read_together(options: SourceOptions, layout: Layout, task: Task) -> Iterator[pa.RecordBatch]:
    """All ranges at once as far as that goes well, and what is left of them one by one."""
    bound: dict[TopicPartition, OffsetRange] = {}
    try:
        bound = bind_ranges(options, task)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise _all_failed(task, error) from error
    wanted = [_wanted(piece) for piece in bound.values() if piece.size > 0]
    shapers = {each.partition: RowShaper(layout=layout, partition=each.partition) for each in wanted}
    joint = JointFetcher(
        shared_cluster(options.client),
        wanted,
        columns=layout.record_fields,
        timeout_ms=options.poll_timeout_ms,
        max_decompressed_bytes=options.max_decompressed_batch_bytes,
        target_rows=TARGET_ROWS,
    )
    try:
        with joint:
            for tp, records in joint:
                yield shapers[tp].shape(records)
    except TopicRecreated:
        left = joint.left  # and reported by a reader of its own
        for piece in wanted:
            end = left[piece.partition].position if piece.partition in left else piece.until_offset
            if piece.partition in joint.recreated and end > piece.from_offset:
                loss = recreated(piece.partition, piece.from_offset, end)
                accept_or_raise(loss, fail=options.fail_on_data_loss)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or options.fail_on_data_loss:
            raise _all_failed(task, error) from error
        accept_or_raise(deleted_partitions(bound), fail=False)
    yield from _one_by_one(options, layout, task, bound, joint.left)


def _one_by_one(
    options: SourceOptions,
    layout: Layout,
    task: Task,
    bound: Mapping[TopicPartition, OffsetRange],
    left: Mapping[TopicPartition, Place],
) -> Iterator[pa.RecordBatch]:
    """What was not read together. A range of which nothing was read is bound again: the topic may be another one."""
    for piece in task:
        tp = piece.topic_partition
        begun = left.get(tp)
        if begun is not None and begun.position > bound[tp].from_offset:
            yield from read_range(options, layout, bound[tp], begun=begun)
        elif begun is not None or tp not in bound:
            yield from read_range(options, layout, piece)


def _wanted(piece: OffsetRange) -> PartitionRange:
    return PartitionRange(
        partition=piece.topic_partition,
        from_offset=piece.from_offset,
        until_offset=piece.until_offset,
        leader=piece.leader,
    )


def _all_failed(task: Task, error: KafkaError) -> TaskError:
    return failed(listed(str(piece) for piece in task), error)
