"""The registration of a broker in ZooKeeper: ``/brokers/ids/N``, ``/controller``, ``/cluster/id``, and the fixed paths.

The formats are those of the release that is emulated (``as.version``), from 4.0 on those of 3.9.
"""

import asyncio
import functools
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from broker_embedded._config.addresses import WILDCARD_HOSTS
from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.releases import Release
from broker_embedded._config.settings import INT_MAX
from broker_embedded._zookeeper.topic_znodes import BROKER_TOPICS, CONFIG_CHANGES, CONFIG_TOPICS, DELETE_TOPICS
from broker_embedded._zookeeper.znodes import Watches, Znode, Znodes, ensure, run_limited
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._protocol.ids import format_id, new_id
from spark_kafka_native._zookeeper.broker_znode import (
    BROKER_IDS,
    RegisteredBroker,
    RegisteredEndpoint,
    decode_broker,
    encode_broker,
)
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from spark_kafka_native._zookeeper.json_data import InvalidZnode, decode_json, encode_json

logger = logging.getLogger(__name__)

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
_BROKER_VERSIONS: Final = {"0.8.2": 1, "0.9": 2, "0.10.0": 3, "0.10.2": 4, "2.7": 5}
"""The first release with each format of ``/brokers/ids/N``."""
_KRAFT_EPOCH_SINCE: Final = "3.4"
_PATHS: Final = {
    "0.8.2": ("/consumers", BROKER_IDS, BROKER_TOPICS, CONFIG_CHANGES, CONFIG_TOPICS, DELETE_TOPICS),
    "0.9": ("/brokers/seqid", "/config/clients", "/isr_change_notification"),
    "0.11": ("/latest_producer_id_block",),
    "1.0": ("/log_dir_event_notification",),
    "1.1": ("/config/brokers", "/config/users"),
    "2.8": ("/config/ips",),
}
"""The persistent znodes that brokers create first, by the first release that does."""
_MAX_DIGITS: Final = 10
_LONGEST_SESSION_MS: Final = 60_000
"""The longest session timeout to be expected: a server limits it to 20 ticks, of 2 or 3 s by default."""


def registered_broker(config: BrokerConfig, ports: Mapping[str, int]) -> RegisteredBroker:
    """What a broker registers. ``ports`` are the bound ports by listener. Asks the name server for a wildcard address.

    A listener on every interface without an advertised address has the name of this machine, as in Apache Kafka.
    """
    advertised, protocols = config.advertised(), config.protocols()
    endpoints = []
    for listener in config.endpoints():
        address = advertised.get(listener.name, listener)
        host = socket.getfqdn() if address.host in WILDCARD_HOSTS else address.host
        endpoints.append(
            RegisteredEndpoint(
                listener=listener.name,
                protocol=protocols[listener.name],
                address=HostPort(host, address.port or ports[listener.name]),
            )
        )
    return RegisteredBroker(broker_id=config.node_id, endpoints=tuple(endpoints), rack=config.broker_rack)


async def create_paths(znodes: Znodes, release: Release) -> None:
    """Create the fixed paths of a release. Raises ZooKeeperError."""
    for first, paths in _PATHS.items():
        if release.since(first):
            await run_limited(znodes, functools.partial(ensure, znodes), paths)


async def claim_cluster_id(znodes: Znodes, connect: ConnectString, own: str | None) -> str:
    """The cluster's id: that of ZooKeeper, or ``own`` or a new one, which becomes that of ZooKeeper.

    Raises ZooKeeperError: ``own`` is another id.
    """
    await ensure(znodes, "/cluster")
    wanted = own or format_id(new_id())
    if await znodes.create(CLUSTER_ID, encode_json({"version": "1", "id": wanted})):
        return wanted
    found = _value(CLUSTER_ID, await znodes.get(CLUSTER_ID), "id")
    if not isinstance(found, str) or not found.isprintable() or not found.strip():
        raise ZooKeeperError(f"{connect}: {CLUSTER_ID} has the id {found!r}, which is not a text")
    if own not in {None, found}:
        problem = f"{connect} has the cluster id {found}, but this broker belongs to cluster {own}"
        raise ZooKeeperError(f"{problem}; use another chroot, or another data directory")
    return found


class Registrar:
    """Registers one broker, in one session after the other."""

    def __init__(self, connect: ConnectString, broker: RegisteredBroker, config: BrokerConfig) -> None:
        self._connect = connect
        self._broker = broker
        self._release = config.release
        self._wait_ms = max(2 * config.zookeeper_session_timeout_ms, _LONGEST_SESSION_MS)
        """How long to wait until an earlier session of this broker ends, which a crash has left."""

    async def check(self, znodes: Znodes) -> None:
        """Raise ZooKeeperError: another broker is registered, or this one from another address."""
        for name in await znodes.children(BROKER_IDS):
            if name != str(self._broker.broker_id):
                problem = f"broker {name} is registered in {self._connect}, and the bundled broker does not replicate"
                raise ZooKeeperError(f"{problem}; use another chroot (zookeeper.connect)")
        async with self._time_limit(self._broker.path):
            await self._until_free(znodes, self._broker.path)

    async def register(self, watches: Watches, now_ms: int, on_change: Callable[[], None]) -> int:
        """Create the broker's znode and ``/controller``; the controller epoch.

        ``on_change`` is called once, when one of them has changed or vanished. Raises ZooKeeperError: as ``check``.
        """
        znodes = watches.znodes
        version = max(version for first, version in _BROKER_VERSIONS.items() if self._release.since(first))
        await self._claim(znodes, self._broker.path, encode_broker(self._broker, version, now_ms))
        epoch = await self._controller_epoch(znodes)
        if await znodes.get(CONTROLLER) is None:
            epoch += 1
            await znodes.put(CONTROLLER_EPOCH, str(epoch).encode())
        await self._claim(znodes, CONTROLLER, self._controller(now_ms))
        for path in (self._broker.path, CONTROLLER):
            if await watches.get(path, on_change) is None:
                raise ZooKeeperError(f"{self._connect}: {path} was deleted as soon as it was created")
        return epoch

    async def _claim(self, znodes: Znodes, path: str, data: bytes) -> None:
        """Create an ephemeral znode, or find that of this session. Raises ZooKeeperError: as ``_until_free``."""
        async with self._time_limit(path):
            while not await znodes.create(path, data, ephemeral=True):
                znode = await znodes.get(path)
                if znode is not None and znode.owner == znodes.session_id:
                    return
                await self._until_free(znodes, path)

    @asynccontextmanager
    async def _time_limit(self, path: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._wait_ms / 1000):
                yield
        except TimeoutError:
            problem = f"{self._connect}: {path} still belongs to another session after {self._wait_ms} ms"
            raise ZooKeeperError(f"{problem}; is another broker {self._broker.broker_id} running?") from None

    async def _until_free(self, znodes: Znodes, path: str) -> None:
        """Wait until an earlier session of this broker has ended. Raises ZooKeeperError: it is another broker's."""
        while True:
            changed = asyncio.Event()
            znode = await znodes.get(path, changed.set)
            if znode is None or znode.owner == znodes.session_id:
                return
            self._check_own(path, znode)
            logger.info(
                "%s in ZooKeeper belongs to an earlier session of this broker; waiting up to %d ms until that session "
                "ends",
                path,
                self._wait_ms,
            )
            await changed.wait()

    def _check_own(self, path: str, znode: Znode) -> None:
        """Raise ZooKeeperError unless the znode is of an earlier session of this broker."""
        own_id = self._broker.broker_id
        if path == CONTROLLER:
            controller = _value(path, znode, "brokerid")
            if controller != own_id:
                problem = f"broker {controller} is the controller in {self._connect}"
                raise ZooKeeperError(f"{problem}; use another chroot (zookeeper.connect)")
            return
        found = decode_broker(own_id, znode.data)
        if {end.address for end in found.endpoints} != {end.address for end in self._broker.endpoints}:
            addresses = ", ".join(str(end.address) for end in found.endpoints)
            problem = f"broker {own_id} is registered in {self._connect} already, with the address {addresses}"
            raise ZooKeeperError(f"{problem}; set another node.id, or wait until the session of that broker has ended")

    async def _controller_epoch(self, znodes: Znodes) -> int:
        """The epoch of the last controller, 0 before the first one. Raises ZooKeeperError."""
        znode = await znodes.get(CONTROLLER_EPOCH)
        if znode is None:
            return 0
        if not znode.data.isdigit() or int(znode.data[:_MAX_DIGITS]) >= INT_MAX or len(znode.data) > _MAX_DIGITS:
            problem = f"{CONTROLLER_EPOCH} is {znode.data[:100]!r}, not a number below {INT_MAX}"
            raise ZooKeeperError(f"{self._connect}: {problem}")
        return int(znode.data)

    def _controller(self, now_ms: int) -> bytes:
        """The data of ``/controller``: version 1, or 2 from 3.4 on."""
        entries = {"version": 1, "brokerid": self._broker.broker_id, "timestamp": str(now_ms)}
        if self._release.since(_KRAFT_EPOCH_SINCE):
            entries |= {"version": 2, "kraftControllerEpoch": -1}
        return encode_json(entries)


def _value(path: str, znode: Znode | None, key: str) -> Any:
    """One value of a znode with a JSON object. Raises ZooKeeperError."""
    try:
        return decode_json(b"" if znode is None else znode.data)[key]
    except (InvalidZnode, KeyError) as error:
        raise ZooKeeperError(f"{path} has no {key} in a JSON object ({error})") from None
