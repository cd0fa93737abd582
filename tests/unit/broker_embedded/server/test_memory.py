"""The budget for large requests: who comes too late is called when there is room; and buffers that are lent."""

from broker_embedded.server.memory import BUFFER_BYTES, Buffers, RequestMemory


def test_without_a_limit_everybody_gets_in() -> None:
    memory = RequestMemory(-1)
    assert all(memory.reserve(10**9, lambda: None) for _ in range(10))


def test_the_last_one_in_may_exceed_the_limit_and_the_next_waits() -> None:
    memory = RequestMemory(100)
    called: list[str] = []
    assert memory.reserve(60, lambda: called.append("a"))
    assert memory.reserve(60, lambda: called.append("b"))
    assert not memory.reserve(1, lambda: called.append("c"))
    assert called == []
    memory.release(60)
    assert called == ["c"]
    assert memory.reserve(1, lambda: called.append("d"))


def test_who_is_called_may_have_to_wait_again() -> None:
    memory = RequestMemory(10)
    let_in: list[str] = []

    def ask(name: str) -> None:
        if memory.reserve(20, lambda: ask(name)):
            let_in.append(name)

    for name in "abc":
        ask(name)
    assert let_in == ["a"]
    memory.release(20)
    assert let_in == ["a", "b"]
    memory.release(20)
    assert let_in == ["a", "b", "c"]


def test_it_is_short_while_somebody_waits() -> None:
    memory = RequestMemory(100)
    memory.reserve(100, lambda: None)
    assert (memory.used, memory.is_short) == (100, False)
    assert not memory.reserve(5, lambda: None)
    assert memory.is_short
    memory.release(100)
    assert (memory.used, memory.is_short) == (0, False)


# --- buffers ----------------------------------------------------------------------------------------------------------


def test_a_buffer_that_is_given_back_is_lent_again() -> None:
    buffers = Buffers()
    first, second = buffers.take(), buffers.take()
    assert first is not second
    assert len(first) == BUFFER_BYTES
    buffers.give_back(first)
    assert buffers.take() is first
    assert buffers.take() is not first


def test_buffers_of_another_size_are_dropped() -> None:
    buffers = Buffers()
    large = bytearray(BUFFER_BYTES + 1)
    buffers.give_back(large)
    assert buffers.take() is not large


def test_no_more_are_kept_than_are_of_use() -> None:
    buffers = Buffers()
    for taken in [buffers.take() for _ in range(1000)]:
        buffers.give_back(taken)
    assert len(buffers._free) == 64
