"""The records of a batch, piece by piece: of each its time, its offset and whether it has a key, and no more."""

from spark_kafka_native._records._kernel.memory import Buffer

class Scanner:
    """As `scan.Scanner`, which documents everything."""

    index: int
    timestamp: int
    offset_delta: int
    rest: int
    largest: int
    has_key: bool
    is_found: bool
    in_order: bool
    def __init__(
        self,
        count: int,
        base_time: int,
        is_stamped: bool,
        earliest: int,
        latest: int,
        needs_key: bool,
        from_delta: int,
    ) -> None: ...
    def scan(self, block: Buffer, position: int, is_last: bool) -> tuple[int, int]: ...
