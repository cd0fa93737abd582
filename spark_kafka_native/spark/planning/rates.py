"""How far one trigger reads. Pure and deterministic: a replayed batch is planned as it was the first time."""

import heapq
from collections.abc import Mapping, Sequence

from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.spark.offsets import OffsetMap


def limit_offsets(start: Mapping[TopicPartition, int], available: OffsetMap, max_offsets: int) -> OffsetMap:
    """How far to read when at most ``max_offsets`` offsets may be read between ``start`` and ``available``.

    ``start`` has every partition of ``available``. If all fits, the answer is ``available``. Otherwise exactly
    ``max_offsets`` are taken: each partition's share is in proportion to what it has waiting, and at least one. If
    there are more waiting partitions than offsets, they take turns: the turn follows from ``start``, which moves on by
    ``max_offsets`` each time, so no partition waits for ever and nothing has to be remembered. A partition whose end
    went back is passed on as it is, for the planner to report.
    """
    waiting = {tp: available[tp] - start[tp] for tp in sorted(available) if available[tp] > start[tp]}
    if sum(waiting.values()) <= max_offsets:
        return dict(available)
    if len(waiting) > max_offsets:
        shares = _take_turns(list(waiting), sum(start.values()), max_offsets)
    else:
        shares = _apportion(waiting, max_offsets)
    return {tp: start[tp] + shares.get(tp, 0) if tp in waiting else end for tp, end in available.items()}


def delay_batch(
    start: Mapping[TopicPartition, int], available: OffsetMap, min_offsets: int, *, waited_ms: float, max_delay_ms: int
) -> bool:
    """Whether a micro-batch from ``start`` should wait until ``min_offsets`` offsets can be read.

    ``start`` has every partition of ``available``. ``waited_ms`` is the time since the last batch that was not held
    back: infinite for the first, which never waits. A partition that is gone, or whose end went back, is reported by
    the planner and not kept for later.
    """
    if waited_ms >= max_delay_ms or start.keys() - available.keys():
        return False
    sizes = [end - start[tp] for tp, end in available.items()]
    return min(sizes, default=0) >= 0 and sum(sizes) < min_offsets


def _take_turns(waiting: Sequence[TopicPartition], turn: int, max_offsets: int) -> OffsetMap:
    return {waiting[(turn + i) % len(waiting)]: 1 for i in range(max_offsets)}


def _apportion(waiting: OffsetMap, max_offsets: int) -> OffsetMap:
    """Shares of ``max_offsets`` in proportion to ``waiting``; each at least 1, none above what waits, exact in sum."""
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
    """Take ``over`` single offsets back, each from the largest share of the moment."""
    largest = [(-share, tp) for tp, share in shares.items()]
    heapq.heapify(largest)
    for _ in range(over):
        share, tp = largest[0]
        shares[tp] = -share - 1
        heapq.heapreplace(largest, (share + 1, tp))
