import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker_embedded._config.log_config import CleanerConfig
from tests.support.broker.compaction_driver import PARTITION, CompactionDriver, Row

KEYS = st.sampled_from("abcde")


class AnyCompaction(RuleBasedStateMachine):
    """Whatever happens, what is left are the last records of the keys, at their offsets, and all that is dirty."""

    @initialize(segment_bytes=st.integers(120, 600), buffer_bytes=st.sampled_from([0, 512 * 1024]))
    def begin(self, segment_bytes: int, buffer_bytes: int) -> None:
        self.driver = CompactionDriver(
            {"segment.bytes": segment_bytes, "delete.retention.ms": 1000, "file.delete.delay.ms": 100},
            CleanerConfig(io_buffer_size=buffer_bytes, dedupe_buffer_size=24 * 4, io_buffer_load_factor=1.0),
        )
        self.sequence = 0

    @rule(
        records=st.lists(st.tuples(KEYS, st.none() | st.sampled_from("12")), min_size=1, max_size=4),
        codec=st.sampled_from((0, 1, 3, 4)),
    )
    def write(self, records: list[tuple[str, str | None]], codec: int) -> None:
        self.driver.write(*records, codec=codec)

    @rule(key=KEYS)
    def send(self, key: str) -> None:
        self.driver.send(7, self.sequence, **{key: "sent"})
        self.sequence += 1

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

    @rule()
    def clean(self) -> None:
        self.driver.clean()
        until = self.driver.manager.cleaned_offsets.get(PARTITION) or 0
        keys = [key for offset, key, _ in self.driver.rows() if offset < until]
        assert len(keys) == len(set(keys)), "a key is left twice in what was compacted"

    @rule(step=st.integers(0, 60), seed=st.none() | st.integers(0, 9))
    def crash_while_compacting(self, step: int, seed: int | None) -> None:
        self.driver.crash_while_cleaning(step, None if seed is None else random.Random(seed))

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.driver.restart(clean=clean)

    @invariant()
    def what_is_left_is_right(self) -> None:
        driver = self.driver
        found, written = driver.rows(), {row[0]: row for row in driver.written}
        assert found == sorted(found)
        assert all(written[row[0]] == row for row in found)
        last: dict[str | None, Row] = {row[1]: row for row in driver.written}
        for row in set(driver.written) - set(found):
            assert row[0] < driver.log.local.view.active.base_offset, f"{row} was not to be compacted"
            assert last[row[1]] != row or row[2] is None, f"{row} is the last of its key"
        driver.check_segments()


AnyCompaction.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestAnyCompaction = AnyCompaction.TestCase
