"""A lock per key: one decision about an id after the other."""

import asyncio

import pytest

from broker_embedded.coordinator.key_locks import KeyLocks


def test_holders_of_one_key_follow_each_other_in_order_beside_those_of_other_keys() -> None:
    async def story() -> list[str]:
        locks, told = KeyLocks(), []

        async def take(name: str, who: str) -> None:
            async with locks.hold(name):
                told.append(f"{who} begins")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                told.append(f"{who} ends")

        await asyncio.gather(take("a", "first"), take("a", "second"), take("b", "other"))
        assert "a" not in locks
        return told

    told = asyncio.run(story())
    lines = [line for line in told if "other" not in line]
    assert lines == ["first begins", "first ends", "second begins", "second ends"]
    assert told.index("other begins") < told.index("first ends")


def test_a_key_is_in_locks_while_a_task_holds_or_awaits_its_lock() -> None:
    async def story() -> None:
        locks = KeyLocks()
        async with locks.hold("a"):
            assert "a" in locks
            assert "b" not in locks
        assert "a" not in locks

    asyncio.run(story())


def test_the_lock_is_released_when_its_holder_fails_or_a_waiting_task_is_cancelled() -> None:
    async def story() -> None:
        locks = KeyLocks()
        with pytest.raises(ValueError, match="of its own"):
            await fail(locks)
        await take(locks)
        assert "a" not in locks

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

    asyncio.run(story())
