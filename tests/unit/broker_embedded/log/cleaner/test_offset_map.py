import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._config.log_config import SLOT_BYTES, keys_fit
from broker_embedded._log.cleaner.log_cleaner import Throttler
from broker_embedded._log.cleaner.offset_map import OffsetMap


def test_the_last_offset_of_a_key_counts() -> None:
    offsets = OffsetMap(10)
    assert offsets.put_all([(b"a", 1), (b"b", 2), (b"a", 3), (b"", 4)]) is None
    assert [offsets.get(key) for key in (b"a", b"b", b"", b"c")] == [3, 2, 4, -1]
    assert len(offsets) == 3


@given(st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 2**63 - 1)), max_size=300), st.floats(0, 1))
def test_the_offset_map_behaves_like_a_dict(records: list[tuple[bytes, int]], load_factor: float) -> None:
    offsets, expected = OffsetMap(max(1, len({key for key, _ in records})), load_factor), dict(records)
    # The last one may meet a full map though its key is in it, as in Apache Kafka.
    left = offsets.put_all(records)
    if left is None:
        assert {key: offsets.get(key) for key in expected} == expected
    assert offsets.get(b"no such key") == -1


def test_a_full_map_has_the_last_offset_it_covers() -> None:
    offsets = OffsetMap(2)
    assert offsets.put_all([(b"a", 5), (b"b", 6), (b"c", 7), (b"d", 8)]) == 6
    assert len(offsets) == offsets.capacity == 2
    assert (offsets.get(b"b"), offsets.get(b"c")) == (6, -1)
    assert offsets.put_all([(b"a", 9)]) == -1
    assert offsets.put_all([]) is None


def test_all_keys_of_a_map_filled_to_the_brim_are_found() -> None:
    offsets = OffsetMap(1000, load_factor=1.0)
    keys = [b"%d" % number for number in range(1000)]
    assert offsets.put_all(zip(keys, range(1000), strict=True)) is None
    assert [offsets.get(key) for key in keys] == list(range(1000))
    assert offsets.get(b"1000") == -1


@pytest.mark.parametrize(("size", "factor", "keys"), [(240, 1.0, 10), (240, 0.9, 9), (23, 1.0, 0), (10**9, 0.0, 0)])
def test_memory_is_24_bytes_a_key(size: int, factor: float, keys: int) -> None:
    assert keys_fit(size, factor) == keys
    assert OffsetMap(keys, factor)._slots * SLOT_BYTES <= max(size, 24 * 101) + 24


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []
        self.throttle = Throttler(lambda: self.now, self.wait)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_the_throttle_waits_for_the_bytes_spent() -> None:
    time = Time()
    for _ in range(10):
        time.throttle.spend(500, 1000.0)
    assert time.now == pytest.approx(105.0)
    assert time.waits == [pytest.approx(0.5)] * 10


def test_time_that_passes_otherwise_counts_but_is_not_saved_up() -> None:
    time = Time()
    time.throttle.spend(500, 1000.0)
    time.now += 60
    time.throttle.spend(500, 1000.0)
    assert time.waits == [pytest.approx(0.5)] * 2


def test_small_debts_are_paid_together() -> None:
    time = Time()
    for _ in range(100):
        time.throttle.spend(1, 10_000.0)
    assert len(time.waits) == pytest.approx(10, abs=1)
    assert time.now == pytest.approx(100.01, abs=0.001)


@pytest.mark.parametrize("rate", [float("inf"), 1.7e308])
def test_without_a_limit_there_is_no_wait(rate: float) -> None:
    time = Time()
    time.throttle.spend(10**12, rate)
    assert time.waits == []
