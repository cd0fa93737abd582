import asyncio

import pytest

from broker_embedded._coordinator.key_locks import KeyLocks


async def test_locks_of_one_key_are_held_in_order_beside_those_of_other_keys() -> None:
    locks, events = KeyLocks(), list[str]()

    async def take(name: str, holder: str) -> None:
        async with locks.hold(name):
            assert name in locks
            events.append(f"{holder} begins")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            events.append(f"{holder} ends")

    await asyncio.gather(take("a", "first"), take("a", "second"), take("b", "other"))
    assert "a" not in locks
    lines = [line for line in events if "other" not in line]
    assert lines == ["first begins", "first ends", "second begins", "second ends"]
    assert events.index("other begins") < events.index("first ends")


async def test_the_lock_is_released_when_its_holder_fails_or_a_waiting_task_is_cancelled() -> None:

    async def fail(locks: KeyLocks) -> None:
        async with locks.hold("a"):
            waiting = asyncio.create_task(take(locks))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            raise ValueError("of its own")

    async def take(locks: KeyLocks) -> None:
        async with locks.hold("a"):
            pass

    locks = KeyLocks()
    with pytest.raises(ValueError, match="of its own"):
        await fail(locks)
    await take(locks)
    assert "a" not in locks
