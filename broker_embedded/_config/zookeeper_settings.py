"""Settings of ZooKeeper, by the names of Apache Kafka 0.8 to 3.9."""

from dataclasses import dataclass

from broker_embedded._config.settings import SettingError, setting
from spark_kafka_native._zookeeper.connect_string import ConnectString


@dataclass(frozen=True, kw_only=True)
class ZooKeeperSettings:
    """The broker's settings of ZooKeeper."""

    zookeeper_connect: str | None = setting(
        None,
        "HOST:PORT[,HOST:PORT...][/CHROOT] of the ZooKeeper servers in which the broker registers. The chroot is the "
        "path below which its znodes are; it is created if it does not exist. Not set: no ZooKeeper.",
    )
    enable_zookeeper: bool | None = setting(
        None,
        "Whether the broker registers in ZooKeeper. Default: true if zookeeper.connect is set. From Kafka 0.7.",
    )
    zookeeper_session_timeout_ms: int = setting(
        18000,
        "Time without contact after which ZooKeeper deletes the registration of the broker. ZooKeeper limits it to "
        "2 to 20 of its ticks.",
        at_least=1,
    )
    zookeeper_connection_timeout_ms: int | None = setting(
        None,
        "How long a starting broker waits for ZooKeeper. Not set: zookeeper.session.timeout.ms.",
        at_least=1,
    )
    zookeeper_max_in_flight_requests: int = setting(
        10, "Maximum number of requests to ZooKeeper without a response.", at_least=1, at_most=1000
    )
    zookeeper_set_acl: bool = setting(
        False, "Whether the znodes have access rules.", refused="this broker does not authenticate to ZooKeeper"
    )
    zookeeper_ssl_client_enable: bool = setting(
        False, "Whether the connection to ZooKeeper has TLS.", refused="the connection to ZooKeeper has no TLS"
    )

    @property
    def connection_timeout_ms(self) -> int:
        """How long to wait for a session."""
        return self.zookeeper_connection_timeout_ms or self.zookeeper_session_timeout_ms

    def zookeeper(self) -> ConnectString | None:
        """The ZooKeeper servers to register in, or None. Raises SettingError."""
        if self.zookeeper_connect is None:
            if self.enable_zookeeper:
                raise SettingError("enable.zookeeper", "zookeeper.connect must be set, too: HOST:PORT[/CHROOT]")
            return None
        try:
            found = ConnectString.parse(self.zookeeper_connect)
        except ValueError as error:
            raise SettingError("zookeeper.connect", str(error)) from None
        return None if self.enable_zookeeper is False else found
