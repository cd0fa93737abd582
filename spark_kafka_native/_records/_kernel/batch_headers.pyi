"""The headers of the batches of a buffer, as a table of numbers."""

from spark_kafka_native._records._kernel.memory import Buffer

class BatchHeaders:
    """The headers of the first ``count`` whole batches of a buffer, which take its bytes up to ``end``."""

    count: int
    end: int

    def __init__(self, buffer: Buffer) -> None: ...
    @property
    def numbers(self) -> bytes: ...
    def next_offset(self, position: int, offset: int, epoch: int) -> tuple[int, int, int]: ...
