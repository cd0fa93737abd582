"""The session of a member with ZooKeeper, which ends its registration and its claims when it ends."""

import math

from spark_kafka_native._client.groups.membership import ZooKeeperMembershipConfig
from spark_kafka_native._client.groups.waits import MemberWaits
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError
from spark_kafka_native._zookeeper.znode_client import SessionState, ZnodeClient


class MemberSession:
    """At most one session at a time. ``znodes`` is for any thread, all else for that of the member."""

    def __init__(self, config: ZooKeeperMembershipConfig, waits: MemberWaits) -> None:
        """Does not connect yet."""
        self._config = config
        self._waits = waits
        self._znodes: ZnodeClient | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a session. Its connection may be lost."""
        return self._znodes is not None

    @property
    def znodes(self) -> ZnodeClient:
        """The znodes. Raises ConnectionLost: there is no session."""
        znodes = self._znodes
        if znodes is None:
            raise ConnectionLost(f"ZooKeeper {self._config.connect}: there is no session")
        return znodes

    @property
    def is_connected(self) -> bool:
        """Whether requests can be sent."""
        return self._znodes is not None and self._znodes.state is SessionState.CONNECTED

    @property
    def ends_at(self) -> float:
        """When the session ends, in seconds of ``time.monotonic``, unless the connection is opened before."""
        match self.znodes.state:
            case SessionState.CONNECTED:
                return math.inf
            case SessionState.SUSPENDED:
                return self.znodes.suspended_at + self.znodes.session_timeout_ms / 1000
            case SessionState.LOST:
                return 0.0

    def open(self) -> None:
        """Blocks for the connection timeout at most. Raises ZooKeeperError, also if there is no chroot; Interrupted."""
        try:
            self._znodes = ZnodeClient.open(
                self._config.connect,
                session_timeout_ms=self._config.session_timeout_ms,
                connection_timeout_ms=self._config.connection_timeout_ms,
                wake=self._waits.wake,
                is_cancelled=lambda: self._waits.is_stopping,
            )
            self._znodes.check_chroot()
        except ZooKeeperError:
            self.close()
            raise
        finally:
            self._waits.check()

    def close(self) -> None:
        """End the session. Blocks for some seconds at most."""
        znodes, self._znodes = self._znodes, None
        if znodes is not None:
            znodes.close()
