"""One decision about an id after the other."""

import asyncio

import pytest

from broker_embedded.coordinator.turns import Turns


def test_one_after_the_other_as_they_came_and_others_beside_them() -> None:
    async def story() -> list[str]:
        turns, told = Turns(), []

        async def take(name: str, who: str) -> None:
            async with turns.of(name):
                told.append(f"{who} begins")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                told.append(f"{who} ends")

        await asyncio.gather(take("a", "first"), take("a", "second"), take("b", "other"))
        assert "a" not in turns
        return told

    told = asyncio.run(story())
    lines = [line for line in told if "other" not in line]
    assert lines == ["first begins", "first ends", "second begins", "second ends"]
    assert told.index("other begins") < told.index("first ends")


def test_a_name_is_in_turns_while_somebody_has_or_wants_it() -> None:
    async def story() -> None:
        turns = Turns()
        async with turns.of("a"):
            assert "a" in turns
            assert "b" not in turns
        assert "a" not in turns

    asyncio.run(story())


def test_the_turn_passes_on_when_its_holder_fails_or_who_waits_leaves() -> None:
    async def story() -> None:
        turns = Turns()
        with pytest.raises(ValueError, match="of its own"):
            await fail(turns)
        await take(turns)
        assert "a" not in turns

    async def fail(turns: Turns) -> None:
        async with turns.of("a"):
            waiting = asyncio.create_task(take(turns))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            raise ValueError("of its own")

    async def take(turns: Turns) -> None:
        async with turns.of("a"):
            pass

    asyncio.run(story())
