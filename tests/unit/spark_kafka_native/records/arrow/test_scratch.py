import pytest

from spark_kafka_native.records.arrow import scratch as scratch_module
from spark_kafka_native.records.arrow.scratch import scratch


@pytest.fixture(autouse=True)
def nothing_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_module, "_idle", [])


def test_byte_strings_are_appended() -> None:
    with scratch() as memory:
        assert bytes(memory.data) == b""
        assert [memory.append(content) for content in (b"abc", b"", memoryview(b"xdef")[1:])] == [0, 3, 3]
        assert bytes(memory.data) == b"abcdef"


def test_scratch_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_module, "_FIRST_BYTES", 4)
    with scratch() as memory:
        for index in range(100):
            assert memory.append(b"%03d" % index) == 3 * index
        assert bytes(memory.data) == b"".join(b"%03d" % index for index in range(100))


def test_it_is_used_again_but_not_by_two() -> None:
    with scratch() as first, scratch() as second:
        first.append(b"first")
        second.append(b"second")
        places = [first.data.obj, second.data.obj]
        assert places[0] is not places[1]
    with scratch() as third:
        assert bytes(third.data) == b""
        third.append(b"third")
        assert any(third.data.obj is place for place in places)


def test_it_comes_back_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="oops"), scratch():
        raise RuntimeError("oops")
    assert len(scratch_module._idle) == 1


def test_huge_memory_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_module, "_KEPT_BYTES", 1000)
    with scratch() as memory:
        memory.append(bytes(1001))
    assert scratch_module._idle == []
