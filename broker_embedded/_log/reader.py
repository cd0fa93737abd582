"""Reading a log: batches by offset, and offsets by time. No lock is taken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from broker_embedded._log.index import CorruptIndex
from broker_embedded._log.local_log import LocalLog
from broker_embedded._log.retention import Retention
from broker_embedded._log.timestamp_lookup import Lookup
from broker_embedded._log.view import FirstBatch, LogSlice, LogView, bytes_of
from broker_embedded._platform.cancellation import NEVER_CANCELLED, Cancellation
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._records.batch import UnreadableBatch

T = TypeVar("T")

_ATTEMPTS: Final = 3
"""Attempts of a read, because retention may remove a segment while it is read."""


class LogReader:
    """Reads the view of a ``LocalLog`` from the log start offset on. May be used in any thread, during changes too.

    Errors of the disk are raised as KafkaError KAFKA_STORAGE_ERROR, bytes that are not a batch as CORRUPT_MESSAGE.
    """

    def __init__(self, local: LocalLog, retention: Retention) -> None:
        self._local = local
        self._retention = retention

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        first_batch: FirstBatch = FirstBatch.WHOLE,
        upper_bound_offset: int | None = None,
        with_aborted: bool = False,
    ) -> LogSlice:
        """Batches from the one that contains ``offset`` on, as regions of files.

        No batch ends after ``upper_bound_offset``, by default the high watermark. At most ``max_bytes``, except for
        the first batch, see ``first_batch``; the last batch may be incomplete. An ``offset`` between the bound and the
        end of the log gives no batch. ``with_aborted`` adds the aborted transactions with records in these batches, for
        consumers with read_committed. They are looked up in the same view, because compaction drops them with their
        records.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """

        def slice_of(view: LogView) -> LogSlice:
            self.check_range(offset, view)
            until = view.end_offset if upper_bound_offset is None else min(upper_bound_offset, view.end_offset)
            found = view.slice(offset, until_offset=until, max_bytes=max_bytes, first_batch=first_batch)
            if not with_aborted:
                return found
            return replace(found, aborted=tuple(view.aborted_transactions(offset, until, found.regions)))

        return self._reading(slice_of)

    def read_bytes(self, offset: int, *, max_bytes: int) -> bytes:
        """The bytes that ``read`` finds up to the high watermark. Blocks. Raises KafkaError as ``read``."""

        def bytes_in(view: LogView) -> bytes:
            self.check_range(offset, view)
            found = view.slice(offset, until_offset=view.end_offset, max_bytes=max_bytes, first_batch=FirstBatch.WHOLE)
            return bytes_of(found.regions)

        return self._reading(bytes_in)

    def look_up(
        self, timestamp: int | None, from_offset: int = 0, cancellation: Cancellation = NEVER_CANCELLED
    ) -> Lookup:
        """The first record with that timestamp or a later one; with None, with the largest timestamp (KIP-734).

        None if there is no such record. `ContinueAt` after one batch was decompressed and did not contain it: call
        again from that offset on.

        Raises KafkaError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE. WorkCancelled.
        """

        def found_in(view: LogView) -> Lookup:
            if timestamp is None:
                return view.largest(from_offset, cancellation)
            start = max(from_offset, self._retention.log_start_offset)
            return view.first_at_or_after(timestamp, start, cancellation)

        return self._reading(found_in)

    def offsets_before(self, timestamp: int | None) -> list[int]:
        """Base offsets of the segments last written at or before a time, None for now, and the end; latest first.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        is_now = timestamp is None or timestamp >= self._local.platform.clock.now_ms()

        def offsets_of(view: LogView) -> list[int]:
            begins = view.offsets_before(None if is_now else timestamp, self._retention.log_start_offset)
            return [view.end_offset, *begins] if is_now and view.active.size else begins

        return self._reading(offsets_of)

    def check_range(self, offset: int, view: LogView) -> None:
        """Raise KafkaError OFFSET_OUT_OF_RANGE unless ``offset`` is in the log or at its end."""
        start = self._retention.log_start_offset
        if not start <= offset <= view.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self._local}: offset {offset} is not between {start} and {view.end_offset}",
            )

    def _reading(self, use: Callable[[LogView], T]) -> T:
        """The result of ``use`` for the present view. It is called again if retention removed a segment meanwhile."""
        local, attempt = self._local, 1
        while True:
            local.check_online()
            try:
                return use(local.view)
            except FileNotFoundError as error:
                if attempt == _ATTEMPTS:
                    local.fail("cannot read", error)
                attempt += 1
            except (OSError, UnreadableBatch, CorruptIndex) as error:
                local.fail("cannot read", error)
