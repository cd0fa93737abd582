"""ZooKeeper's nodes in memory, with sessions that can be ended and requests that fail."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from broker_embedded._zookeeper.znodes import ANY_VERSION, OnChange, Znode
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError


@dataclass
class ZooKeeperInMemory:
    """The nodes by path, and the watches of all sessions."""

    nodes: dict[str, Znode] = field(default_factory=lambda: {"": Znode(data=b"", owner=0)})
    requests: list[str] = field(default_factory=list)
    """What was requested: the method and the path."""
    _sessions: int = 0
    _on_node: dict[str, list[OnChange]] = field(default_factory=dict)
    _on_children: dict[str, list[OnChange]] = field(default_factory=dict)
    _late: list[OnChange] | None = None

    def session(self, *, fails_after: int | None = None) -> "ZnodesInMemory":
        """A new session. Its requests fail after some that succeed."""
        self._sessions += 1
        return ZnodesInMemory(self, self._sessions, fails_after)

    def end(self, session: "ZnodesInMemory") -> None:
        """Delete the ephemeral nodes of a session."""
        for path in [path for path, node in self.nodes.items() if node.owner == session.session_id]:
            self.delete(path)

    def data(self, below: str = "") -> dict[str, str]:
        """The data of all nodes with data, by path."""
        found = {path: node.data.decode() for path, node in sorted(self.nodes.items())}
        return {path: data for path, data in found.items() if data and path.startswith(below)}

    def write(self, nodes: Mapping[str, str]) -> None:
        """Create nodes with their parents, or replace their data, as tools do."""
        for path, data in nodes.items():
            parts = path.split("/")
            for index in range(2, len(parts)):
                self.create("/".join(parts[:index]), b"", 0)
            if not self.create(path, data.encode(), 0):
                self.set(path, data.encode())

    def names(self, path: str) -> list[str]:
        """The sorted names of a node's children."""
        return sorted(each.rpartition("/")[2] for each in self.nodes if each and each.rpartition("/")[0] == path)

    def create(self, path: str, data: bytes, owner: int) -> bool:
        """Create a node; whether it did not exist."""
        parent = path.rpartition("/")[0]
        if parent not in self.nodes:
            raise ZooKeeperError(f"{path}: the node does not exist")
        if path in self.nodes:
            return False
        self.nodes[path] = Znode(data=data, owner=owner)
        self._fire(self._on_node.pop(path, []) + self._on_children.pop(parent, []))
        return True

    def set(self, path: str, data: bytes) -> None:
        """Replace the data of a node."""
        self.nodes[path] = Znode(data=data, owner=0, version=self.nodes[path].version + 1)
        self._fire(self._on_node.pop(path, []))

    def delete(self, path: str) -> None:
        """Delete a node without children."""
        assert not self.names(path)
        del self.nodes[path]
        on_children = self._on_children.pop(path, []) + self._on_children.pop(path.rpartition("/")[0], [])
        self._fire(self._on_node.pop(path, []) + on_children)

    def watch(self, path: str, on_change: OnChange | None, *, children: bool = False) -> None:
        """Call ``on_change`` at the next change of a node, or of its children."""
        if on_change is not None:
            (self._on_children if children else self._on_node).setdefault(path, []).append(on_change)

    @contextmanager
    def events_come_late(self) -> Iterator[None]:
        """Call the watches that fire in the body after it. ZooKeeper's client has an extra thread for events."""
        self._late = []
        yield
        late, self._late = self._late, None
        self._fire(late)

    def _fire(self, watches: list[OnChange]) -> None:
        if self._late is not None:
            self._late += watches
            return
        for on_change in watches:
            on_change()


class ZnodesInMemory:
    """`Znodes` of one session."""

    max_in_flight = 10
    refused = ""
    """The path that may not be read."""

    def __init__(self, zookeeper: ZooKeeperInMemory, session_id: int, fails_after: int | None) -> None:
        self._zookeeper = zookeeper
        self.session_id = session_id
        self._left = fails_after
        self._meanwhile: dict[str, Callable[[], Awaitable[object]]] = {}

    def before(self, request: str, work: Callable[[], Awaitable[object]]) -> None:
        """Await ``work`` before a request, such as ``get /brokers/topics/t``, is sent for the first time."""
        self._meanwhile[request] = work

    async def get(self, path: str, on_change: OnChange | None = None) -> Znode | None:
        """A node, None if it does not exist."""
        await self._count("get", path)
        self._zookeeper.watch(path, on_change)
        return self._zookeeper.nodes.get(path)

    async def children(self, path: str, on_change: OnChange | None = None) -> tuple[str, ...]:
        """The sorted names of a node's children; none if it does not exist."""
        await self._count("children", path)
        self._zookeeper.watch(path, on_change, children=path in self._zookeeper.nodes)
        return tuple(self._zookeeper.names(path))

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> bool:
        """Create a node whose parent exists. False: it exists, unchanged."""
        await self._count("create", path)
        return self._zookeeper.create(path, data, self.session_id if ephemeral else 0)

    async def create_all(self, nodes: Mapping[str, bytes]) -> bool:
        """Create nodes, all or none. False: one exists, a parent does not, or they are too large for one request."""
        await self._count("create_all", next(iter(nodes)))
        if sum(len(path) + len(data) for path, data in nodes.items()) > 1_000_000:
            return False
        present = self._zookeeper.nodes.keys()
        if nodes.keys() & present or {path.rpartition("/")[0] for path in nodes} - present - nodes.keys():
            return False
        for path, data in nodes.items():
            self._zookeeper.create(path, data, 0)
        return True

    async def put(self, path: str, data: bytes) -> None:
        """Create a persistent node whose parent exists, or replace its data."""
        await self._count("put", path)
        if not self._zookeeper.create(path, data, 0):
            self._zookeeper.set(path, data)

    async def replace(self, path: str, data: bytes, version: int) -> bool:
        """Replace the data of a node. False: the node has another version, or does not exist."""
        await self._count("replace", path)
        node = self._zookeeper.nodes.get(path)
        if node is None or version not in {node.version, ANY_VERSION}:
            return False
        self._zookeeper.set(path, data)
        return True

    async def delete(self, path: str) -> None:
        """Delete a node, if it exists, after everything below it."""
        for name in self._zookeeper.names(path):
            await self.delete(f"{path}/{name}")
        await self._count("delete", path)
        if path in self._zookeeper.nodes:
            self._zookeeper.delete(path)

    async def _count(self, method: str, path: str) -> None:
        if (work := self._meanwhile.pop(f"{method} {path}", None)) is not None:
            await work()
        if path and path == self.refused:
            raise ZooKeeperError(f"{path}: access is denied")
        if self._left is not None:
            if self._left == 0:
                raise ConnectionLost(f"{path}: the connection was lost")
            self._left -= 1
        self._zookeeper.requests.append(f"{method} {path}")
