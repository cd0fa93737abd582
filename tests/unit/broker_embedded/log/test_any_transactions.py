import random
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_embedded._log.append.incoming import AppendConditions, AppendOrigin
from broker_embedded._log.log import Log
from spark_kafka_native._records.batch import iter_batches
from spark_kafka_native._records.control import ControlType, decode_control
from tests.support.broker.compaction_driver import DIRECTORY, CompactionDriver, Row
from tests.support.broker.log_driver import slice_bytes
from tests.support.records import reference
from tests.support.records.record_batches import marker

KEYS = st.sampled_from("abcd")
VALUES = st.none() | st.sampled_from("12")
PRODUCERS = st.integers(1, 3)


@dataclass
class Producer:
    """What a producer knows of itself."""

    epoch: int = 0
    sequence: int = 0
    rows: list[Row] = field(default_factory=list)
    """Of its open transaction."""


def committed_rows(log: Log, offset: int, max_bytes: int) -> list[Row]:
    """What a consumer of committed records gets from an offset on, some bytes at a time."""
    found: list[Row] = []
    while offset < log.last_stable_offset:
        read = log.reader.read(
            offset, max_bytes=max_bytes, upper_bound_offset=log.last_stable_offset, with_aborted=True
        )
        raw = slice_bytes(read)
        aborted = sorted(read.aborted, key=lambda each: -each.first_offset)
        skipped: set[int] = set()
        position, reached = 0, offset
        for position, header in iter_batches(raw):
            while aborted and aborted[-1].first_offset <= header.last_offset:
                skipped.add(aborted.pop().producer_id)
            if header.is_control:
                control = decode_control(raw, position, header)
                if control is not None and control.type is ControlType.ABORT:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                batch = reference.read_batch(raw[position : position + header.size_in_bytes])
                found += [
                    (record.offset, _text(record.key), _text(record.value))
                    for record in batch.records
                    if record.offset >= offset
                ]
            reached = header.next_offset
        if reached == offset:
            break  # compaction has left nothing up to the end
        offset = reached
    return found


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


class AnyTransactions(RuleBasedStateMachine):
    """Three transactional producers and one that is not, on a log that is compacted or deleted from."""

    @initialize(compacts=st.booleans(), bumps_epochs=st.booleans(), segment_bytes=st.integers(200, 900))
    def begin(self, compacts: bool, bumps_epochs: bool, segment_bytes: int) -> None:
        policy = "compact" if compacts else "delete"
        self.driver = CompactionDriver(
            {
                "cleanup.policy": policy,
                "segment.bytes": segment_bytes,
                "delete.retention.ms": 1000,
                "file.delete.delay.ms": 100,
            }
        )
        self.compacts, self.bumps_epochs = compacts, bumps_epochs
        self.producers = {number: Producer() for number in (1, 2, 3)}
        self.good: list[Row] = []
        self.bad: set[Row] = set()

    # --- writing -----------------------------------------------------------------------------------------------------

    @rule(key=KEYS, value=VALUES)
    def put(self, key: str, value: str | None) -> None:
        result = self.driver.put(**{key: value})
        self.good.append((result.base_offset, key, value))

    @rule(number=PRODUCERS, keys=st.lists(KEYS, min_size=1, max_size=3), value=VALUES)
    def send(self, number: int, keys: list[str], value: str | None) -> None:
        producer, log = self.producers[number], self.driver.log
        records = tuple(
            reference.Record(key.encode(), None if value is None else value.encode(), offset=index)
            for index, key in enumerate(keys)
        )
        batch = reference.Batch(
            records=records,
            producer_id=number,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            transactional=True,
        )
        conditions = AppendConditions(verified=not producer.rows, bumps_epochs=self.bumps_epochs)
        assert log.producers.is_in_transaction(number, producer.epoch) == bool(producer.rows)
        first = log.append(bytearray(reference.write_batch(batch)), leader_epoch=0, conditions=conditions).base_offset
        producer.sequence += len(keys)
        producer.rows += [(first + index, key, value) for index, key in enumerate(keys)]

    @rule(number=PRODUCERS, abort=st.booleans(), times=st.integers(1, 2))
    def end(self, number: int, abort: bool, times: int) -> None:
        """The second time as after a crash of the coordinator."""
        producer = self.producers[number]
        if self.bumps_epochs:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        for _ in range(times):
            where = {"producer_epoch": producer.epoch, "timestamp_ms": self.driver.clock.now_ms()}
            end = marker(ControlType.ABORT if abort else ControlType.COMMIT, number, **where)
            conditions = AppendConditions(origin=AppendOrigin.COORDINATOR, bumps_epochs=self.bumps_epochs)
            self.driver.log.append(end, leader_epoch=0, conditions=conditions)
        if abort:
            self.bad |= set(producer.rows)
        else:
            self.good += producer.rows
        producer.rows = []

    # --- what happens to logs ----------------------------------------------------------------------------------------

    @rule()
    def roll(self) -> None:
        self.driver.roll()

    @rule(ms=st.sampled_from([1, 600, 5000]))
    def wait(self, ms: int) -> None:
        self.driver.clock.advance(ms)
        now_ms = self.driver.clock.now_ms()
        self.driver.manager.delete_old_segments()
        self.driver.manager.remove_files(now_ms)
        self.driver.manager.expire_producers(now_ms)

    @precondition(lambda self: self.compacts)
    @rule(ending=st.sets(PRODUCERS))
    def clean(self, ending: set[int]) -> None:
        """Twice, so that tombstones and markers go whose time is over."""
        for number in ending:
            self.end(number, abort=number == 1, times=1)
        for _ in range(2):
            self.driver.clean()
            self.driver.clock.advance(1500)
            self.driver.put(d="x")
            self.good.append((self.driver.log.log_end_offset - 1, "d", "x"))
            self.driver.roll()

    @precondition(lambda self: self.compacts)
    @rule(step=st.integers(0, 60), seed=st.none() | st.integers(0, 9))
    def crash_while_compacting(self, step: int, seed: int | None) -> None:
        self.driver.crash_while_cleaning(step, None if seed is None else random.Random(seed))

    @precondition(lambda self: not self.compacts)
    @rule(part=st.sampled_from([0.1, 0.5, 1.0]))
    def delete_records(self, part: float) -> None:
        log = self.driver.log
        log.retention.delete_records(log.log_start_offset + int(part * (log.log_end_offset - log.log_start_offset)))
        log.retention.delete_old_segments()
        self.driver.manager.checkpoint_log_start_offsets()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.driver.restart(clean=clean)

    @precondition(lambda self: self.compacts)
    @rule()
    def restart_from_the_log_alone(self) -> None:
        for name in self.driver.files():
            if name.endswith(".snapshot"):
                self.driver.disk.remove(f"{DIRECTORY}/{name}")
        self.driver.restart(clean=False)

    # --- what must be true -------------------------------------------------------------------------------------------

    @invariant()
    def the_stable_part_ends_before_what_is_open(self) -> None:
        log = self.driver.log
        start, end, stable = log.log_start_offset, log.log_end_offset, log.last_stable_offset
        firsts = [producer.rows[0][0] for producer in self.producers.values() if producer.rows]
        left = [row[0] for producer in self.producers.values() for row in producer.rows if row[0] >= start]
        assert max(start, min([*firsts, end])) <= stable <= min([*left, end])

    @invariant()
    def readers_see_what_is_committed(self) -> None:
        log = self.driver.log
        start, stable = log.log_start_offset, log.last_stable_offset
        due = sorted(row for row in self.good if start <= row[0] < stable)
        middle = (start + stable) // 2
        for max_bytes in (1, 150, 1 << 20):
            found = committed_rows(log, start, max_bytes)
            assert not self.bad & set(found), "an aborted record is visible"
            if self.compacts:
                last = {row[1]: row for row in due}
                assert set(found) <= set(due)
                assert {row for row in last.values() if row[2] is not None} <= set(found)
            else:
                assert found == due
            assert committed_rows(log, middle, max_bytes) == [row for row in found if row[0] >= middle]


TestAnyTransactions = AnyTransactions.TestCase
TestAnyTransactions.settings = settings(max_examples=20, stateful_step_count=25)
