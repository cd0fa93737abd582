"""Broker addresses as users write them."""

import re
from typing import NamedTuple

_BRACKETED = re.compile(r"\[([^\[\]]+)\](?::(.*))?")
_LISTENER = re.compile(r"[0-9a-zA-Z\-%._]*")
_MAX_PORT = 65535


class HostPort(NamedTuple):
    """One address of a broker. ``str()`` puts brackets round an IPv6 host."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> HostPort:
    """``host:port``, ``[IPv6]:port``, either after the name of a listener, as in ``SASL_SSL://host:port``.

    The name has no effect, as in Kafka's clients: ``security.protocol`` decides.

    Raises ValueError saying what is wrong with ``text``.
    """
    if ";" in text:
        raise ValueError(f"{text!r}: addresses are separated by commas")
    listener, _, rest = text.strip().rpartition("://")
    if not _LISTENER.fullmatch(listener):
        raise ValueError(f"{text!r}: {listener!r} is not the name of a listener")
    bracketed = _BRACKETED.fullmatch(rest)
    if bracketed:
        host, port = bracketed.group(1), bracketed.group(2)
    else:
        host, separator, port = rest.rpartition(":")
        if not separator:
            host, port = rest, None
        elif ":" in host:
            raise ValueError(f"{text!r}: an IPv6 address needs brackets, as in [::1]:9092")
    if not host or re.search(r"[\s/\[\]]", host):
        raise ValueError(f"{text!r} has no host name; expected host:port")
    if not port:
        raise ValueError(f"{text!r} has no port; expected host:port, as in {host}:9092")
    if not re.fullmatch(r"[0-9]+", port) or not 0 < int(port) <= _MAX_PORT:
        raise ValueError(f"{text!r}: {port!r} is not a port; expected a number from 1 to {_MAX_PORT}")
    return HostPort(host, int(port))


def parse_addresses(text: str) -> tuple[HostPort, ...]:
    """A comma-separated list of addresses in the order given, repeated ones once, empty ones left out.

    Raises ValueError: one of them is malformed, or there is none.
    """
    found = dict.fromkeys(parse_address(part) for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("names no server; expected host:port[,host:port...]")
    return tuple(found)
