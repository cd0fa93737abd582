"""Which record of a batch is the first of a time or later."""

from spark_kafka_native.records._kernel.memory import Buffer

def first_at_or_after(
    payload: Buffer,
    records: int,
    base_offset: int,
    base_time: int,
    is_stamped: bool,
    timestamp: int,
    from_offset: int,
) -> tuple[int, int] | tuple[()] | None: ...
