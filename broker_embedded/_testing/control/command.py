"""A broker with a control port on the command line: ``python -m broker_embedded --control-listener 127.0.0.1:8123``.

The port stays open after the broker was stopped or killed through it, so that it can be started again.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

from broker_embedded._config.config import BrokerConfig
from broker_embedded._platform.clocks import MovableClock, ShiftedClock
from broker_embedded._server.run import lines_at_start
from broker_embedded._testing.clocks import parse_clock
from broker_embedded._testing.control.address import LISTENER_OPTION, ControlAddress
from broker_embedded._testing.control.commands import Control
from broker_embedded._testing.control.port import ControlPort
from broker_embedded._testing.restartable import RestartableBroker

CONTROLLED: Final = "controlled at "
"""The prefix of the line with the URL of the control port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """The options of the control port."""

    address: ControlAddress
    clock: MovableClock

    @classmethod
    def parse(cls, listener: str, *, allow_remote: bool = False, clock: str | None = None) -> Self:
        """Raises SettingError naming the invalid option."""
        address = ControlAddress.parse(LISTENER_OPTION, listener, allow_remote=allow_remote)
        return cls(address=address, clock=ShiftedClock() if clock is None else parse_clock("--clock", clock))


@asynccontextmanager
async def controlled_broker(
    settings: Mapping[str, object],
    data_dir: str,
    options: ControlOptions,
    *,
    on_failed: Callable[[], None] = lambda: None,
) -> AsyncIterator[list[str]]:
    """A running broker and its control port; the lines with their addresses. Raises as ``start_broker``."""
    listeners = {"listeners": BrokerConfig.parse(settings).listeners}
    broker = RestartableBroker({**settings, **listeners}, data_dir, clock=options.clock, on_failed=on_failed)
    port = ControlPort(Control(broker), options.address)
    async with AsyncExitStack() as stack:
        await broker.start()
        stack.push_async_callback(broker.stop)
        port.open()
        stack.push_async_callback(port.close)
        yield [*lines_at_start(broker.server), f"{CONTROLLED}{port.url}"]
