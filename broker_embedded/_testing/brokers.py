"""The common interface of brokers for tests, in this process or in a separate one."""

import base64
import os
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from numbers import Integral
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.listener_settings import PREFIX, SASL_PLAINTEXT
from broker_embedded._config.settings import SettingError
from broker_embedded._testing.faults import Faults
from broker_embedded._testing.recording import RecordedRequest
from broker_embedded._testing.server_process import RestartableServer
from spark_kafka_native._net.sasl.scram import HASHES, MIN_ITERATIONS, salted_password
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

_DEFAULTS: Final[Mapping[str, object]] = MappingProxyType(
    {"listeners": "PLAINTEXT://127.0.0.1:0", "group.initial.rebalance.delay.ms": 0}
)
"""Settings that suit tests better than Kafka's defaults."""

_NAME: Final = re.compile(r"[\w.+-]+")
_SALT: Final = b"of a test"


class ControlledBroker(RestartableServer):
    """A broker with a data directory, a port, a clock and topics that survive restarts. A context manager.

    Its methods may be called from any thread.
    """

    _kind = "broker"

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        """Nothing starts yet: enter the context, or call ``start``.

        ``data_dir`` None is a temporary directory, removed by ``stop``, when the object is garbage collected, or when
        the interpreter ends. ``topics`` are created at the first start, with their numbers of partitions. ``settings``
        are the broker's, by Kafka's names; without ``listeners`` it listens on a free port of 127.0.0.1, without
        ``group.initial.rebalance.delay.ms``, 3 s with Kafka, the first members of a group do not wait. ``users`` and
        their passwords add a listener SASL_PLAINTEXT, where they log in with PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
        Raises SettingError: a setting is unknown or invalid, or ``topics`` is not such a mapping.
        """
        self._settings: dict[str, object] = {**_DEFAULTS, **(settings or {})}
        if users:
            self._settings |= settings_with_users(self._settings, users)
        BrokerConfig.parse(self._settings)
        self._topics = _valid_topics(topics or {})
        """Those that are still to be created."""
        self._creating: str | None = None
        """The last one that was requested. After an interrupt it may exist."""
        super().__init__(data_dir)
        self._addresses: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the first listener, for ``bootstrap.servers`` of clients."""
        if not self._addresses:
            raise RuntimeError("the broker has not been started")
        return self._addresses[0]

    def servers_of(self, listener: str) -> str:
        """``host:port`` of a listener, by its name. Raises ValueError: the broker does not have this listener."""
        _ = self.bootstrap_servers
        names = [endpoint.name for endpoint in BrokerConfig.parse(self._settings).endpoints()]
        if listener not in names:
            raise ValueError(f"the broker does not have a listener {listener!r}; its listeners are {', '.join(names)}")
        return self._addresses[names.index(listener)]

    @property
    def log_directory(self) -> Path:
        """The data directory: in it the directories ``topic-partition`` in Apache Kafka's layout."""
        return self._data_dir

    # --- from start to stop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start unless it runs, and return when clients can connect. Later starts use the same port.

        Raises RuntimeError: another process, which has forked this one, has created the broker.
        """
        self._check_process()
        with self._changing:
            super().start()
            while self._topics:
                self._create_next()

    def _create_next(self) -> None:
        name, partitions = next(iter(self._topics.items()))
        may_exist = name == self._creating
        self._creating = name
        try:
            self.create_topic(name, partitions)
        except KafkaError as error:
            if not (may_exist and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                self._creating = None
                raise
        del self._topics[name]

    # --- topics ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic. Raises KafkaError: it cannot be created."""

    @abstractmethod
    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError: it cannot be deleted."""

    @abstractmethod
    def topics(self) -> dict[str, int]:
        """All topics, internal ones included, with their numbers of partitions."""

    # --- control -----------------------------------------------------------------------------------------------------

    @property
    def faults(self) -> Faults:
        """The faults of the broker."""
        return Faults(self._ask)

    def advance(self, ms: int = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> int:
        """Advance the broker's clock, and return when all due timers have run; the time, in ms.

        Timers run in the order of their times. Periodic tasks, such as retention, run several times during a long
        advance, and at its end. Raises ValueError: the duration is negative.
        """
        step = timedelta(milliseconds=ms, seconds=seconds, minutes=minutes, hours=hours, days=days)
        if step < timedelta():
            raise ValueError(f"advance: the duration of {step // timedelta(milliseconds=1)} ms is negative")
        return int(self._ask("POST", "/clock/advance", {"ms": step // timedelta(milliseconds=1)})["now_ms"])

    def now_ms(self) -> int:
        """The time of the broker's clock, in ms since 1970."""
        return int(self._ask("GET", "/", None)["now_ms"])

    def requests(
        self, api: str | None = None, *, client_id: str | None = None, after: int = 0
    ) -> list[RecordedRequest]:
        """Recorded requests, oldest first, optionally of one API or client, or after a number.

        Raises FieldError: the API is unknown. The last 10,000 requests are kept, or fewer if they exceed 32 MiB.
        """
        return list(self._requests(api, client_id, after))

    def request_counts(self) -> Counter[str]:
        """The number of requests of each API since the start or ``forget_requests``."""
        return Counter(self._ask("GET", "/requests", {"most": 0})["counts"])

    def forget_requests(self) -> None:
        """Drop the recorded requests and their counts."""
        self._ask("DELETE", "/requests", None)

    def metrics(self) -> dict[str, Any]:
        """The metrics of the broker."""
        return self._ask("GET", "/metrics", None)

    @abstractmethod
    def _requests(self, api: str | None, client_id: str | None, after: int) -> Iterable[RecordedRequest]:
        """As ``requests``."""

    @abstractmethod
    def _ask(self, method: str, path: str, fields: Mapping[str, Any] | None) -> dict[str, Any]:
        """Execute a command of `broker_embedded._testing.control.commands`. Raises as ``Answer.result``."""


def _valid_topics(topics: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(topics, Mapping) or not all(
        isinstance(name, str) and isinstance(number, Integral) for name, number in topics.items()
    ):
        raise SettingError("topics", f"{topics!r} is not a mapping of names to numbers of partitions")
    return {name: int(number) for name, number in topics.items()}


def creatable(name: str, partitions: int, configs: Mapping[str, str] | None) -> CreatableTopic:
    """A topic for CreateTopics, with the broker's replication factor."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
    )


def settings_with_users(settings: Mapping[str, object], users: Mapping[str, str]) -> dict[str, object]:
    """Additional settings: a listener SASL_PLAINTEXT, and its users with their passwords.

    Raises SettingError: a name that is not of letters, digits, ``_``, ``.``, ``+`` and ``-``; a password is empty.
    """
    for name, password in users.items():
        if not _NAME.fullmatch(name):
            raise SettingError("users", f"{name!r} is not a name of letters, digits, '_', '.', '+' and '-'")
        if not password:
            raise SettingError("users", f"the password of {name} must not be empty")
    options = " ".join(f'user_{name}="{_escaped(password)}"' for name, password in users.items())
    first = [_first_user(mechanism, name, users[name]) for mechanism in HASHES for name in users]
    return {
        "listeners": f"{settings['listeners']},{SASL_PLAINTEXT}://127.0.0.1:0",
        f"{PREFIX}{SASL_PLAINTEXT.lower()}.plain.sasl.jaas.config": f"PlainLoginModule required {options};",
        "add.scram": " ".join([str(settings.get("add.scram", "")), *first]).strip(),
    }


def _first_user(mechanism: str, name: str, password: str) -> str:
    """The password is salted, because it may contain any character."""
    salted = salted_password(mechanism, Secret(password), _SALT, MIN_ITERATIONS)
    salt, salted_text = (base64.b64encode(value).decode() for value in (_SALT, salted))
    return f"{mechanism}=[name={name},salt={salt},saltedpassword={salted_text}]"


def _escaped(password: str) -> str:
    return password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
