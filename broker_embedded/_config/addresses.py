"""Parsing and formatting of addresses, and resolving hosts."""

import ipaddress
import socket
from dataclasses import dataclass
from typing import Final, Self

from broker_embedded._config.settings import SettingError

_LARGEST_PORT: Final = 65535
WILDCARD_HOSTS: Final = {"", "0.0.0.0", "::"}  # noqa: S104  # compared with, not bound
"""Hosts that are every interface, to which clients cannot connect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A listener's name and address. An empty host is every interface; port 0 lets the system choose one."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, key: str, text: str) -> Self:
        """``PLAINTEXT://127.0.0.1:9092`` or ``PLAINTEXT://[::1]:9092``. Raises SettingError."""
        name, separator, address = text.strip().partition("://")
        if not separator or not name:
            raise SettingError(key, f"{text!r} is not NAME://HOST:PORT")
        host, port = parse_address(key, address)
        return cls(name=name, host=host, port=port)

    @property
    def address(self) -> str:
        """``host:port``, an IPv6 host in brackets."""
        return format_address(self.host, self.port)


def parse_address(key: str, text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[IPV6]:PORT`` or ``:PORT``. Raises SettingError naming ``key``."""
    host, separator, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not separator or not (port.isascii() and port.isdigit()) or (":" in host and not bracketed):
        raise SettingError(key, f"{text!r} is not HOST:PORT")
    try:
        return (host[1:-1] if bracketed else host), parse_port(key, port)
    except SettingError as error:
        raise SettingError(key, f"{text!r}: {error.problem}") from None


def parse_port(key: str, text: str) -> int:
    """A port; 0 is a free one. Raises SettingError naming ``key``."""
    if not (text.isascii() and text.isdigit()) or int(text) > _LARGEST_PORT:
        raise SettingError(key, f"{text!r} is not a port, which is a number from 0 to {_LARGEST_PORT}")
    return int(text)


def format_address(host: str, port: int) -> str:
    """``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def addresses_of(host: str) -> set[str]:
    """The resolved addresses of ``host``, which may be an address itself; none for an unknown host."""
    try:
        return {str(ipaddress.ip_address(host))}
    except ValueError:
        pass
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return set()


def is_loopback(host: str) -> bool:
    """Whether a host has addresses, and all of them are loopback addresses."""
    addresses = set() if host in WILDCARD_HOSTS else addresses_of(host)
    return bool(addresses) and all(ipaddress.ip_address(address).is_loopback for address in addresses)
