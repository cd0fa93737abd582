"""Which broker coordinates which group or transactional id, as far as earlier requests have found out.

Pure: no request is sent here.
"""

import contextlib
from collections import OrderedDict
from enum import IntEnum
from typing import Final

from spark_kafka_native._client.cluster.metadata import Node

_MAX_COORDINATORS: Final = 4096
"""Most cached coordinators: a client with a transactional id for every task must not fill the memory."""


class CoordinatorType(IntEnum):
    """What is coordinated, with the numbers that FindCoordinator has for it."""

    GROUP = 0
    TRANSACTION = 1


class KnownCoordinators:
    """Coordinators by type and key; of very many, those that were learned last. Threads may share it."""

    def __init__(self, most: int = _MAX_COORDINATORS) -> None:
        self._most = most
        self._nodes: OrderedDict[tuple[CoordinatorType, str], Node] = OrderedDict()

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, kind: CoordinatorType, key: str) -> Node | None:
        """The coordinator, if it is known."""
        return self._nodes.get((kind, key))

    def learn(self, kind: CoordinatorType, key: str, node: Node) -> None:
        """Remember a coordinator."""
        self._nodes[kind, key] = node
        while len(self._nodes) > self._most:
            with contextlib.suppress(KeyError):  # another thread has cleared it
                self._nodes.popitem(last=False)

    def forget(self, kind: CoordinatorType, key: str, node: Node) -> None:
        """Have the next caller look it up, unless another coordinator than ``node`` has been found since."""
        if self._nodes.get((kind, key)) == node:
            self._nodes.pop((kind, key), None)

    def forget_broker(self, node_id: int) -> None:
        """Forget what a broker coordinates."""
        for key, node in list(self._nodes.items()):
            if node.node_id == node_id:
                self._nodes.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._nodes.clear()
