"""The half of a log that readers use: offsets, batches, times. Nothing here waits for a lock."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NoReturn, TypeVar
from uuid import UUID

from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.append.producer_state import ProducerEntry
from broker_embedded.log.index import CorruptIndex
from broker_embedded.log.opening import LogParts
from broker_embedded.log.timestamp_lookup import ContinueAt, Lookup, OffsetTimestamp
from broker_embedded.log.view import FirstBatch, LogSlice, LogView, bytes_of
from broker_embedded.platform.cancellation import NEVER_CANCELLED, Cancellation
from broker_embedded.platform.platform import Platform
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.records.batch import UnreadableBatch

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ATTEMPTS: Final = 3
"""How often a read is tried because retention took the segment from under it."""


class ReadableLog:
    """What can be asked of a log. ``Log`` adds what changes it, by replacing ``_view`` and the start offset.

    Errors of the disk come as KafkaError KAFKA_STORAGE_ERROR, bytes that are no batch as CORRUPT_MESSAGE.
    """

    def __init__(self, parts: LogParts, config: LogConfig, platform: Platform) -> None:
        self.partition = parts.partition
        self.topic_id: UUID | None = parts.topic_id
        self.directory = parts.directory
        self.config = config
        self._platform = platform
        self._producers = parts.producers
        self._epochs = parts.epochs
        self._view = LogView.of(tuple(parts.loaded.segments), parts.loaded.log_end_offset)
        self._log_start_offset = parts.loaded.log_start_offset
        self._offline: str | None = None

    def __str__(self) -> str:
        return str(self.partition)

    @property
    def offline(self) -> str | None:
        """Why the log cannot be used, None if it can."""
        return self._offline

    # --- where it begins and ends ------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._view.end_offset

    @property
    def high_watermark(self) -> int:
        """Where consumers must stop: with a single replica, the end."""
        return self._view.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Where consumers that read committed records only must stop: before the oldest open transaction."""
        end = self._view.end_offset  # first: a transaction that begins meanwhile lies behind it
        first = self._producers.states.first_unstable_offset
        return end if first is None else max(self._log_start_offset, min(first, end))

    @property
    def producers(self) -> tuple[ProducerEntry, ...]:
        """Every producer that the log remembers."""
        return tuple(self._producers.states.entries)

    @property
    def open_transactions(self) -> int:
        """How many producers have a transaction open here."""
        return self._producers.states.open_transactions

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer of this epoch has a transaction open here."""
        return self._producers.states.is_in_transaction(producer_id, epoch)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all ``.log`` files."""
        return sum(segment.size for segment in self._view.segments)

    @property
    def segment_base_offsets(self) -> tuple[int, ...]:
        """Where each segment begins."""
        return self._view.bases

    @property
    def latest_leader_epoch(self) -> int | None:
        """The epoch of the last leader that appended."""
        return self._epochs.latest

    @property
    def highest_leader_epoch(self) -> int:
        """The epoch of the last leader known when the log was opened or since; it may have appended nothing."""
        return self._epochs.highest

    def leader_epoch_of(self, offset: int) -> int | None:
        """The leader epoch that an offset was written in."""
        return self._epochs.epoch_of(offset)

    def end_of_leader_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The last leader epoch up to ``epoch`` that is known, and where it ended; None for one yet to come."""
        return self._epochs.end_of(epoch, self._view.end_offset)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        first_batch: FirstBatch = FirstBatch.WHOLE,
        upper_bound_offset: int | None = None,
        with_aborted: bool = False,
    ) -> LogSlice:
        """Batches from the one that holds ``offset`` on, as regions of files.

        None that ends after ``upper_bound_offset``, by default the high watermark. At most ``max_bytes``, except for
        the first batch as ``first_batch`` says; the last one may be cut off. An ``offset`` between the bound and the
        end of the log gives nothing. ``with_aborted`` adds the aborted transactions up to the bound, which readers of
        committed records skip. The same call looks them up, because compaction drops them together with their records.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """

        def slice_of(view: LogView) -> LogSlice:
            self._check_range(offset, view)
            until = view.end_offset if upper_bound_offset is None else min(upper_bound_offset, view.end_offset)
            found = view.slice(offset, until_offset=until, max_bytes=max_bytes, first_batch=first_batch)
            return replace(found, aborted=tuple(view.aborted_transactions(offset, until))) if with_aborted else found

        return self._reading(slice_of)

    def read_bytes(self, offset: int, *, max_bytes: int) -> bytes:
        """The bytes that ``read`` finds up to the high watermark. Blocks. Raises KafkaError as ``read``."""

        def bytes_in(view: LogView) -> bytes:
            self._check_range(offset, view)
            found = view.slice(offset, until_offset=view.end_offset, max_bytes=max_bytes, first_batch=FirstBatch.WHOLE)
            return bytes_of(found.regions)

        return self._reading(bytes_in)

    def look_up(
        self, timestamp: int | None, from_offset: int = 0, cancellation: Cancellation = NEVER_CANCELLED
    ) -> Lookup:
        """The first record with that timestamp or a later one; with None, with the largest timestamp (KIP-734).

        None if there is no such record. `ContinueAt` after one batch was decompressed in vain: call again from that
        offset on.

        Raises KafkaError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE. WorkCancelled.
        """

        def found_in(view: LogView) -> Lookup:
            if timestamp is None:
                return view.largest(from_offset, cancellation)
            return view.first_at_or_after(timestamp, max(from_offset, self._log_start_offset), cancellation)

        return self._reading(found_in)

    def offset_for_timestamp(self, timestamp: int) -> OffsetTimestamp | None:
        """The first record with that timestamp or a later one, None if there is none. Raises KafkaError as above."""
        return self._look_up_to_the_end(timestamp)

    def max_timestamp_offset(self) -> OffsetTimestamp | None:
        """The first record with the largest timestamp, None if no record has one. Raises KafkaError as above."""
        return self._look_up_to_the_end(None)

    def _look_up_to_the_end(self, timestamp: int | None) -> OffsetTimestamp | None:
        found = self.look_up(timestamp)
        while isinstance(found, ContinueAt):
            found = self.look_up(timestamp, found.offset)
        return found

    def offsets_before(self, timestamp: int | None) -> list[int]:
        """Where segments begin that were last written at a time or before it, None for now, and the end; latest first.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        is_now = timestamp is None or timestamp >= self._platform.clock.now_ms()

        def offsets_of(view: LogView) -> list[int]:
            begins = view.offsets_before(None if is_now else timestamp, self._log_start_offset)
            return [view.end_offset, *begins] if is_now and view.active.size else begins

        return self._reading(offsets_of)

    def _check_range(self, offset: int, view: LogView) -> None:
        if not self._log_start_offset <= offset <= view.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: offset {offset} is not between {self._log_start_offset} and {view.end_offset}",
            )

    def _reading(self, use: Callable[[LogView], T]) -> T:
        """What ``use`` makes of the log as it is now; once more if retention was faster than it."""
        attempt = 1
        while True:
            self._check_online()
            try:
                return use(self._view)
            except FileNotFoundError as error:
                if attempt == _ATTEMPTS:
                    self._fail("cannot read", error)
                attempt += 1
            except (OSError, UnreadableBatch, CorruptIndex) as error:
                self._fail("cannot read", error)

    # --- failing -----------------------------------------------------------------------------------------------------

    def _check_online(self) -> None:
        if self._offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} is offline: {self._offline}")

    def _fail(self, what: str, error: Exception) -> NoReturn:
        logger.error("%s: %s: %s", self, what, error)
        code = ErrorCode.CORRUPT_MESSAGE if isinstance(error, UnreadableBatch) else ErrorCode.KAFKA_STORAGE_ERROR
        raise KafkaError(code, f"{self}: {what}: {error}") from error

    def _go_offline(self, what: str, error: Exception) -> NoReturn:
        self._offline = f"{what}: {error}"
        self._fail(f"{what}, and goes offline", error)
