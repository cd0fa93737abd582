"""The headers of the batches of a buffer, as a table of numbers."""

from spark_kafka_native.records._kernel.memory import Buffer

class BatchHeaders:
    """The headers of ``count`` whole batches, one behind the other from the beginning of a buffer up to ``end``."""

    count: int
    end: int

    def __init__(self, buffer: Buffer) -> None: ...
    @property
    def numbers(self) -> bytes: ...
    def reach(self, position: int, offset: int, epoch: int) -> tuple[int, int, int]: ...
