import pytest

from spark_kafka_native._records import scratch as scratch_module
from spark_kafka_native._records.scratch import Scratch, scratch


@pytest.fixture(autouse=True)
def nothing_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_module, "_idle", [])


def append(memory: Scratch, content: bytes) -> None:
    memory.reserve(len(content))[:] = content
    memory.add(len(content))


def test_large_memory_grows_by_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def allocated(size: int) -> bytearray:
        sizes.append(size)
        return bytearray(size)

    monkeypatch.setattr(scratch_module, "_DOUBLED_UNTIL", 1024)
    monkeypatch.setattr(scratch_module, "bytearray", allocated, raising=False)
    memory = Scratch(memoryview(bytearray(512)))
    for _ in range(40):
        append(memory, bytes(100))
    assert sizes == [1024, 1280, 1600, 2000, 2500, 3125, 3906, 4882]


def test_byte_strings_are_added() -> None:
    with scratch() as memory:
        assert bytes(memory.data) == b""
        for content in (b"abc", b"", b"def"):
            append(memory, content)
        assert (bytes(memory.data), memory.used) == (b"abcdef", 6)


def test_only_what_was_added_counts() -> None:
    with scratch() as memory:
        reserved = memory.reserve(100)
        assert len(reserved) == 100
        reserved[:5] = b"abcde"
        memory.add(3)
        assert bytes(memory.data) == b"abc"
        memory.reserve(2)[:] = b"DE"
        memory.add(2)
        assert bytes(memory.data) == b"abcDE"


def test_scratch_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_module, "_FIRST_BYTES", 4)
    with scratch() as memory:
        for index in range(100):
            append(memory, b"%03d" % index)
        assert bytes(memory.data) == b"".join(b"%03d" % index for index in range(100))


def test_it_is_used_again_but_not_by_two() -> None:
    with scratch() as first, scratch() as second:
        append(first, b"first")
        append(second, b"second")
        places = [first.data.obj, second.data.obj]
        assert places[0] is not places[1]
    with scratch() as third:
        assert bytes(third.data) == b""
        append(third, b"third")
        assert any(third.data.obj is place for place in places)


def test_it_comes_back_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="oops"), scratch():
        raise RuntimeError("oops")
    assert len(scratch_module._idle) == 1


def test_huge_memory_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_module, "_KEPT_BYTES", 1000)
    with scratch() as memory:
        memory.reserve(1001)
    assert scratch_module._idle == []
