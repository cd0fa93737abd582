"""Broker addresses as users write them."""

import re
from typing import NamedTuple

_BRACKETED = re.compile(r"\[([^\[\]]+)\](?::(.*))?")
_MAX_PORT = 65535
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class HostPort(NamedTuple):
    """One address of a broker. ``str()`` puts brackets round an IPv6 host."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> HostPort:
    """``host:port``, ``[IPv6]:port``, either with a security protocol in front, as in ``SASL_SSL://host:port``.

    That is taken as listeners are spelled, and means nothing, as to Kafka's clients: ``security.protocol`` counts.

    Raises ValueError saying what is wrong with ``text``.
    """
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme.upper() not in SECURITY_PROTOCOLS:
        raise ValueError(f"{text!r}: only one of {', '.join(SECURITY_PROTOCOLS)} may stand before ://host:port")
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
