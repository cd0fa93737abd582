"""The end of a rate-limited micro-batch. Pure and deterministic: a replayed batch has the same plan."""

import heapq
from collections.abc import Mapping

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import OffsetMap


def limit_offsets(start: Mapping[TopicPartition, int], available: OffsetMap, max_offsets: int) -> OffsetMap:
    """The end of a batch that reads at most ``max_offsets`` offsets between ``start`` and ``available``.

    ``start`` has every partition of ``available``. If there are no more offsets than that, the result is ``available``.
    Otherwise the batch has exactly ``max_offsets``: each partition's share is in proportion to its lag, and at least
    one. With more partitions than offsets, partitions alternate: the first one depends on ``start``, whose sum grows by
    ``max_offsets`` in each batch, so that every partition is read without stored state. A partition whose end is below
    its start is passed on for the planner to report.
    """
    waiting = {tp: available[tp] - start[tp] for tp in sorted(available) if available[tp] > start[tp]}
    if sum(waiting.values()) <= max_offsets:
        return dict(available)
    if len(waiting) > max_offsets:
        partitions, first = list(waiting), sum(start.values())
        shares = {partitions[(first + index) % len(partitions)]: 1 for index in range(max_offsets)}
    else:
        shares = _apportion(waiting, max_offsets)
    return {tp: start[tp] + shares.get(tp, 0) if tp in waiting else end for tp, end in available.items()}


def delay_batch(
    start: Mapping[TopicPartition, int], available: OffsetMap, min_offsets: int, *, waited_ms: float, max_delay_ms: int
) -> bool:
    """Whether a micro-batch from ``start`` should wait until ``min_offsets`` offsets can be read.

    ``start`` has every partition of ``available``. ``waited_ms`` is the time since the last batch: infinite for the
    first batch, which never waits. A batch with a deleted partition, or with an end below its start, does not wait,
    because the planner reports it.
    """
    if waited_ms >= max_delay_ms or start.keys() - available.keys():
        return False
    sizes = [end - start[tp] for tp, end in available.items()]
    return min(sizes, default=0) >= 0 and sum(sizes) < min_offsets


def _apportion(waiting: OffsetMap, max_offsets: int) -> OffsetMap:
    """Shares of ``max_offsets`` in proportion to ``waiting``; each at least 1 and at most its lag; exact in sum."""
    total = sum(waiting.values())
    shares = {tp: max(max_offsets * size // total, 1) for tp, size in waiting.items()}
    over = sum(shares.values()) - max_offsets
    if over > 0:
        _take_back(shares, over)
    elif over < 0:
        remainders = sorted(waiting, key=lambda tp: (-(max_offsets * waiting[tp] % total), tp))
        rounded_down = [tp for tp in remainders if max_offsets * waiting[tp] >= total]
        for tp in rounded_down[:-over]:
            shares[tp] += 1
    return shares


def _take_back(shares: OffsetMap, over: int) -> None:
    """Subtract ``over`` single offsets, each from the largest share."""
    largest = [(-share, tp) for tp, share in shares.items()]
    heapq.heapify(largest)
    for _ in range(over):
        share, tp = largest[0]
        shares[tp] = -share - 1
        heapq.heapreplace(largest, (share + 1, tp))
