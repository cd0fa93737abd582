"""The errors for bytes that hold no readable record batch."""

from typing import Self


class UnreadableBatch(Exception):
    """Bytes that should hold record batches and cannot be read; ``str()`` has every position that is known.

    ``position`` is the first byte of the batch with the error, in the buffer that was read or, once ``placed``, in
    ``file``. ``record_index`` counts from 0 within the batch.
    """

    def __init__(
        self,
        detail: str,
        *,
        position: int | None = None,
        file: str | None = None,
        base_offset: int | None = None,
        record_index: int | None = None,
    ) -> None:
        self.detail = detail
        self.position = position
        self.file = file
        self.base_offset = base_offset
        self.record_index = record_index
        super().__init__(detail)

    def __str__(self) -> str:
        places = [
            f"{name} {value}"
            for name, value in (
                ("file", self.file),
                ("position", self.position),
                ("base offset", self.base_offset),
                ("record", self.record_index),
            )
            if value is not None
        ]
        return f"{self.detail} ({', '.join(places)})" if places else self.detail

    def placed(
        self,
        *,
        start: int = 0,
        file: str | None = None,
        base_offset: int | None = None,
        record_index: int | None = None,
    ) -> Self:
        """The same error with a more exact position; ``start`` is the position of the buffer in the file.

        Known values stay as they are, but ``start`` is added to ``position``.
        """
        return type(self)(
            self.detail,
            position=start if self.position is None else self.position + start,
            file=self.file if file is None else file,
            base_offset=base_offset if self.base_offset is None else self.base_offset,
            record_index=record_index if self.record_index is None else self.record_index,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.detail, self.position, self.file, self.base_offset, self.record_index)


class CorruptBatch(UnreadableBatch):
    """Bytes that are no record batch of format v2, or one that contradicts itself."""


class OversizedBatch(CorruptBatch):
    """A batch that decompresses to more bytes than its reader accepts, or that is larger than its writer's limit."""


def check_written(size: int, max_bytes: int | None) -> None:
    """Raise OversizedBatch if a batch has at least ``size`` bytes and may not have that many."""
    if max_bytes is not None and size > max_bytes:
        raise OversizedBatch(f"the batch has at least {size} bytes, {max_bytes} are allowed")


class IncompleteBatch(CorruptBatch):
    """A batch whose end lies beyond the buffer: cut off by a Fetch's size limit, or by a crash."""


class InvalidMessageSet(CorruptBatch):
    """A message of format v0 or v1 with a correct CRC and with content that its format does not allow."""


class OldFormatBatch(UnreadableBatch):
    """A batch in message format v0 or v1 (magic 0 or 1), maybe a valid one, where only format v2 may be.

    It is no ``CorruptBatch``, because a log must not be truncated at it. ``formats`` and ``legacy`` read it.
    """


def _rebuild(
    cls: type[UnreadableBatch],
    detail: str,
    position: int | None,
    file: str | None,
    base_offset: int | None,
    record_index: int | None,
) -> UnreadableBatch:
    return cls(detail, position=position, file=file, base_offset=base_offset, record_index=record_index)
