import functools

from broker_embedded._server.memory import BUFFER_BYTES, Buffers, RequestMemory


def test_without_a_limit_everybody_gets_in() -> None:
    memory = RequestMemory(-1)
    assert all(memory.reserve(holder, 10**9, lambda: None) for holder in range(10))


def test_the_last_one_in_may_exceed_the_limit_and_the_next_waits() -> None:
    memory = RequestMemory(100)
    called: list[str] = []
    assert memory.reserve("a", 60, lambda: called.append("a"))
    assert memory.reserve("b", 60, lambda: called.append("b"))
    assert not memory.reserve("c", 1, lambda: called.append("c"))
    assert called == []
    memory.release("b")
    assert called == ["c"]
    assert memory.reserve("d", 1, lambda: called.append("d"))


def test_the_oldest_holder_always_gets_more_so_that_one_request_can_be_completed() -> None:
    memory = RequestMemory(100)
    called: list[str] = []
    assert memory.reserve("old", 60, lambda: None)
    assert memory.reserve("young", 60, lambda: None)
    assert not memory.reserve("young", 10, lambda: called.append("young"))
    assert memory.reserve("old", 500, lambda: None)
    assert memory.used == 620
    memory.release("old")
    assert (called, memory.used) == (["young"], 60)
    assert memory.reserve("third", 60, lambda: None)
    assert memory.reserve("young", 500, lambda: None)


def test_a_called_waiter_may_have_to_wait_again() -> None:
    memory = RequestMemory(10)
    inc: list[str] = []

    def ask(name: str) -> None:
        if memory.reserve(name, 20, lambda: ask(name)):
            inc.append(name)

    for name in "abc":
        ask(name)
    assert inc == ["a"]
    memory.release("a")
    assert inc == ["a", "b"]
    memory.release("b")
    assert inc == ["a", "b", "c"]


def test_memory_is_short_while_a_request_waits() -> None:
    memory = RequestMemory(100)
    memory.reserve("a", 100, lambda: None)
    assert (memory.used, memory.is_short) == (100, False)
    assert not memory.reserve("b", 5, lambda: None)
    assert memory.is_short
    memory.release("a")
    assert (memory.used, memory.is_short) == (0, False)


def test_a_cancelled_waiter_is_not_called_and_does_not_make_memory_short() -> None:
    memory, called = RequestMemory(10), list[str]()
    memory.reserve("a", 20, lambda: None)
    for name in ("gone", "here", "here"):
        assert not memory.reserve(name, 5, functools.partial(called.append, name))
    memory.forget("gone")
    memory.forget("unknown")
    assert memory.is_short
    memory.release("a")
    assert called == ["here"], "once, although it has asked twice"
    memory.reserve("a", 20, lambda: None)
    assert not memory.reserve("gone", 5, lambda: None)
    memory.forget("gone")
    assert not memory.is_short


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


def test_at_most_64_free_buffers_are_kept() -> None:
    buffers = Buffers()
    for taken in [buffers.take() for _ in range(1000)]:
        buffers.give_back(taken)
    assert len(buffers._free) == 64
