"""The address of a control port: a loopback address, unless remote access is allowed explicitly."""

from dataclasses import dataclass
from typing import Final, Self

from broker_embedded._config.addresses import addresses_of, is_loopback, parse_address
from broker_embedded._config.settings import SettingError

LOOPBACK: Final = "127.0.0.1:0"
LISTENER_OPTION: Final = "--control-listener"
"""The option of ``python -m broker_embedded``, which can allow remote access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlAddress:
    """The address. Port 0 is a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, key: str, text: str, *, allow_remote: bool = False) -> Self:
        """``HOST:PORT``. Raises SettingError naming ``key``: malformed, or reachable from other machines."""
        host, port = parse_address(key, text)
        if not allow_remote and not is_loopback(host):
            if host and not addresses_of(host):
                raise SettingError(key, f"the host name {host!r} has no address")
            problem = f"other machines can reach {text!r} and could stop the broker; listen on {LOOPBACK}"
            allowed = ", or allow it with --control-from-anywhere" if key == LISTENER_OPTION else ""
            raise SettingError(key, problem + allowed)
        return cls(host=host, port=port)
