"""The addresses of ZooKeeper servers, as in Kafka's setting ``zookeeper.connect``."""

import re
from dataclasses import dataclass
from typing import Final, Self

from spark_kafka_native._net.address import HostPort, parse_addresses

_HAS_PORT: Final = re.compile(r".*\]:[^:\]]*|[^:\[]*:.*", re.DOTALL)
"""An address with a port, or one that `parse_addresses` refuses."""
_NEXT_SERVER: Final = re.compile(r",[^,/]+:\d+")
_FORBIDDEN: Final = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]")
"""Characters that ZooKeeper refuses in paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectString:
    """The servers, and the path below which the nodes are: ``""``, or ``/a/b``. ``str()`` is the text for users."""

    servers: tuple[HostPort, ...]
    chroot: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """``HOST[:PORT][,HOST[:PORT]...][/CHROOT]``; the port is 2181 by default. Raises ValueError."""
        if "://" in text:
            raise ValueError(f"{text!r} has a scheme; expected HOST:PORT[,HOST:PORT...][/CHROOT]")
        hosts, slash, path = text.strip().partition("/")
        parts = (part.strip() for part in hosts.split(",") if part.strip())
        servers = parse_addresses(",".join(part if _HAS_PORT.fullmatch(part) else f"{part}:2181" for part in parts))
        chroot = slash + path
        problem = _path_problem(chroot) if path else None
        if problem:
            raise ValueError(f"the chroot {chroot!r} {problem}")
        return cls(servers=servers, chroot=chroot if path else "")

    @property
    def hosts(self) -> str:
        """The servers without the chroot."""
        return ",".join(map(str, self.servers))

    def __str__(self) -> str:
        return self.hosts + self.chroot


def _path_problem(path: str) -> str | None:
    """Why a path is not a chroot, or None."""
    if _NEXT_SERVER.search(path):
        return "is not after the last server; it is written once, as in HOST:PORT,HOST:PORT/CHROOT"
    names = path[1:].split("/")
    if "" in names:
        return "has an empty name in it; names are separated by single slashes, and no slash is at the end"
    if {".", ".."} & set(names):
        return "has the name . or .. in it"
    found = _FORBIDDEN.search(path)
    return f"has the character {found[0]!r}, which ZooKeeper does not allow" if found else None
