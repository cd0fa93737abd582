"""The address of a control port: a loopback address, unless remote access is allowed explicitly."""

import ipaddress
import socket
from dataclasses import dataclass
from typing import Final, Self

from broker_embedded._config.addresses import parse_address
from broker_embedded._config.settings import SettingError

LOOPBACK: Final = "127.0.0.1:0"
LISTENER_OPTION: Final = "--control-listener"
"""The option of ``python -m broker_embedded``, which can allow remote access."""
_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104  # compared with, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlAddress:
    """The address. Port 0 is a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, key: str, text: str, *, allow_remote: bool = False) -> Self:
        """``HOST:PORT``. Raises SettingError naming ``key``: malformed, or reachable from other machines."""
        host, port = parse_address(key, text)
        if not allow_remote and not _is_loopback(key, host):
            problem = f"other machines can reach {text!r} and could stop the broker; listen on {LOOPBACK}"
            allowed = ", or allow it with --control-from-anywhere" if key == LISTENER_OPTION else ""
            raise SettingError(key, problem + allowed)
        return cls(host=host, port=port)


def _is_loopback(key: str, host: str) -> bool:
    """Whether all addresses of a host are loopback addresses. Raises SettingError: the host has no address."""
    try:
        found = {item[4][0] for item in socket.getaddrinfo(host, None)} if host else {_EVERYWHERE}
    except (OSError, UnicodeError):
        raise SettingError(key, f"the host name {host!r} has no address") from None
    return all(ipaddress.ip_address(address).is_loopback for address in map(str, found))
