"""Settings of listeners: addresses and SASL.

Some may be set for a single listener, as with Apache Kafka: ``listener.name.`` and the listener's name, in small
letters, go before the setting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from broker_embedded._config.addresses import WILDCARD_HOSTS, Endpoint, parse_address
from broker_embedded._config.releases import release
from broker_embedded._config.settings import LONG_MAX, Setting, SettingError, refuse_unknown, setting, settings_of
from broker_embedded._security.first_users import FirstUser, FirstUserError, parse_first_users
from broker_embedded._security.mechanisms import PLAIN
from broker_embedded._security.session import SaslListener
from spark_kafka_native._net.sasl.jaas import JaasError, LoginModule, parse_login_module
from spark_kafka_native._net.sasl.scram import HASHES
from spark_kafka_native._net.secret import Secret

PREFIX: Final = "listener.name."
PLAINTEXT: Final = "PLAINTEXT"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
MECHANISMS: Final = (PLAIN, *HASHES)

_MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
_REAUTH_KEY: Final = "connections.max.reauth.ms"
_RECEIVE_KEY: Final = "sasl.server.max.receive.size"
_JAAS_KEY: Final = "sasl.jaas.config"
_USER: Final = "user_"
_JAAS_DOCS: Final = {
    PLAIN: 'The users of PLAIN: PlainLoginModule required user_NAME="PASSWORD" user_OTHER="PASSWORD"; and so on.',
    **dict.fromkeys(
        HASHES, "A ScramLoginModule, which Kafka requires. Its users are created by add.scram and by requests."
    ),
}
_SASL_HANDSHAKE: Final = 17


@dataclass(frozen=True, kw_only=True)
class ListenerSettings:
    """The broker's settings of listeners."""

    listeners: str = setting(
        "PLAINTEXT://127.0.0.1:9092",
        "Addresses to listen on, NAME://HOST:PORT, comma-separated. Without a host: every interface. Port 0: a free "
        "port. Kafka's default is every interface, this broker's is loopback.",
    )
    advertised_listeners: str = setting(
        "",
        "Addresses that clients connect to, NAME://HOST:PORT. Empty: the addresses of listeners; for a listener on "
        "every interface, the address that the client has connected to.",
    )
    listener_security_protocol_map: str = setting(
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Security protocol of each listener name. PLAINTEXT and SASL_PLAINTEXT are served, those with SSL are not.",
    )
    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        (),
        "Mechanisms of listeners with SASL. Empty: SCRAM-SHA-256, SCRAM-SHA-512, and PLAIN if it has users. Kafka's "
        "default is GSSAPI, which is not served.",
        choices=MECHANISMS,
    )
    sasl_server_max_receive_size: int = setting(
        524288, "Largest request in bytes before authentication; a larger one closes the connection.", at_least=1
    )
    connections_max_reauth_ms: int = setting(
        0,
        "Lifetime of a session, within which a client must authenticate again (KIP-368). 0: unlimited.",
        at_least=0,
        at_most=LONG_MAX,
    )
    connection_failed_authentication_delay_ms: int = setting(
        100, "Delay of the response after a failed login, before the connection is closed.", at_least=0
    )
    add_scram: Secret | None = setting(
        None,
        "SCRAM users that are created when the broker starts, unless they exist: "
        "MECHANISM=[name=NAME,password=PASSWORD], separated by blanks or commas. AlterUserScramCredentials "
        "creates other users. Kafka does not have this setting; its kafka-storage.sh has the option --add-scram.",
    )
    metrics_listener: str = setting(
        "",
        "HOST:PORT of metrics in Prometheus' text format, under /metrics, and of the status page; port 0 is a free "
        "port. Empty: neither. Kafka does not have this setting.",
    )
    status_page: str = setting(
        "auto",
        "What the status page of metrics.listener shows to everyone who can connect to it: none, no page; status, "
        "topics, groups and connections; records, their records too. auto: none if metrics.listener is not a "
        "loopback address; else status if a listener has SASL; else records. Kafka does not have this setting.",
        choices=("auto", "none", "status", "records"),
    )
    own: Mapping[str, Mapping[str, Secret]] = field(default_factory=dict)
    """Settings of single listeners, by their lowercase names and by setting."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners, in the configured order."""
        return _parse_endpoints("listeners", self.listeners)

    def advertised(self) -> dict[str, Endpoint]:
        """The advertised addresses, by listener name."""
        found = _parse_endpoints("advertised.listeners", self.advertised_listeners)
        return {endpoint.name: endpoint for endpoint in found}

    def metrics_address(self) -> tuple[str, int] | None:
        """The address of the metrics port, or None."""
        return parse_address("metrics.listener", self.metrics_listener) if self.metrics_listener else None

    def status_page_shows(self, *, is_loopback: bool) -> str:
        """What the status page shows: none, status or records. ``is_loopback``: only this machine can connect."""
        if self.status_page != "auto":
            return self.status_page
        if not is_loopback:
            return "none"
        return "status" if any(self.sasl_of(endpoint.name) for endpoint in self.endpoints()) else "records"

    def first_users(self) -> tuple[FirstUser, ...]:
        """The users to create at the start. Raises SettingError."""
        try:
            return () if self.add_scram is None else parse_first_users(self.add_scram)
        except FirstUserError as error:
            raise SettingError("add.scram", str(error)) from None

    def sasl_of(self, listener: str) -> SaslListener | None:
        """The SASL settings of a listener, or None. Raises SettingError."""
        if self.protocols().get(listener) != SASL_PLAINTEXT:
            return None
        own = self.own.get(listener.lower(), {})
        users = _plain_users(f"{PREFIX}{listener.lower()}.plain.{_JAAS_KEY}", own.get(f"plain.{_JAAS_KEY}"))
        mechanisms: tuple[str, ...] = self._value(listener, _MECHANISMS_KEY)
        mechanisms = mechanisms or ((PLAIN, *HASHES) if users else tuple(HASHES))
        if PLAIN in mechanisms and not users:
            key = f"{PREFIX}{listener.lower()}.plain.{_JAAS_KEY}"
            raise SettingError(key, 'PLAIN needs users: PlainLoginModule required user_NAME="PASSWORD";')
        return SaslListener(
            mechanisms=mechanisms,
            plain_users=users,
            max_reauth_ms={name: self._value(listener, _REAUTH_KEY, f"{name.lower()}.") for name in MECHANISMS},
            max_receive_bytes=self._value(listener, _RECEIVE_KEY),
        )

    def check_listeners(self, as_version: str) -> None:
        """Raise SettingError for listeners that contradict each other or that this broker cannot serve."""
        names = [endpoint.name for endpoint in self.endpoints()]
        if not names:
            raise SettingError("listeners", "the list must not be empty")
        if len(set(names)) != len(names):
            raise SettingError("listeners", "the names of listeners must be unique")
        protocols = self.protocols()
        for name in names:
            protocol = protocols.get(name)
            if protocol is None:
                raise SettingError(
                    "listener.security.protocol.map",
                    f"listener {name} has no security protocol; add {name}:{PLAINTEXT}",
                )
            if protocol not in {PLAINTEXT, SASL_PLAINTEXT}:
                key = "listeners" if name == protocol else "listener.security.protocol.map"
                listener = f"{name}://" if name == protocol else f"{name}:{protocol}"
                served = f"{protocol} is not supported; {PLAINTEXT} and {SASL_PLAINTEXT} are"
                tls = "for TLS, use a proxy that terminates it, and set advertised.listeners to its address"
                raise SettingError(key, f"{listener}: {served}: {tls}")
            if protocol == SASL_PLAINTEXT and _SASL_HANDSHAKE not in release(as_version).offered:
                raise SettingError("listeners", f"{name} has SASL, which Kafka {as_version} (as.version) does not have")
        for name, endpoint in self.advertised().items():
            if name not in names:
                raise SettingError("advertised.listeners", f"listener {name} is not in listeners")
            if endpoint.host in WILDCARD_HOSTS:
                raise SettingError("advertised.listeners", f"no client can reach {endpoint.host or 'an empty host'}")
        self._check_own({name.lower(): name for name in names})
        self.first_users()

    def _check_own(self, names: Mapping[str, str]) -> None:
        for listener, settings in self.own.items():
            prefix = f"{PREFIX}{listener}."
            first = prefix + next(iter(settings))
            if listener not in names:
                raise SettingError(first, f"listener {listener} is not in listeners")
            refuse_unknown((prefix + key for key in settings), prefixed_settings(listener))
            for mechanism in HASHES:
                key = f"{mechanism.lower()}.{_JAAS_KEY}"
                if key in settings:  # its options are for inter-broker connections, which do not exist
                    _login_module(prefix + key, settings[key], "ScramLoginModule")
        for listener, name in names.items():
            if self.sasl_of(name) is None and listener in self.own:
                raise SettingError(PREFIX + listener, "the listener has no SASL")

    def _value(self, listener: str, key: str, mechanism: str = "") -> Any:
        """A setting of a listener: its own for a mechanism, its own, or that of all listeners."""
        own, declared = self.own.get(listener.lower(), {}), settings_of(type(self))[key]
        for name in (mechanism + key, key):
            if name in own:
                try:
                    return declared.parse(own[name].reveal())
                except SettingError as error:
                    raise SettingError(f"{PREFIX}{listener.lower()}.{name}", error.problem) from None
        return getattr(self, key.replace(".", "_"))

    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener name."""
        pairs = [pair.strip().partition(":") for pair in self.listener_security_protocol_map.split(",") if pair.strip()]
        return {name: protocol for name, _, protocol in pairs}


def prefixed_settings(listener: str = "LISTENER") -> dict[str, Setting]:
    """The settings that a single listener may have, by their full keys."""
    common = settings_of(ListenerSettings)
    found = [common[key] for key in (_MECHANISMS_KEY, _RECEIVE_KEY, _REAUTH_KEY)]
    found += [replace(common[_REAUTH_KEY], key=f"{name.lower()}.{_REAUTH_KEY}") for name in MECHANISMS]
    found += [
        Setting(key=f"{name.lower()}.{_JAAS_KEY}", kind="Secret", default=None, nullable=True, doc=doc)
        for name, doc in _JAAS_DOCS.items()
    ]
    whole = [replace(setting, key=f"{PREFIX}{listener}.{setting.key}") for setting in found]
    return {setting.key: setting for setting in whole}


def apart(given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, dict[str, Secret]]]:
    """Settings of all listeners, and those of single ones by listener. Raises SettingError."""
    common: dict[str, object] = {}
    own: dict[str, dict[str, Secret]] = {}
    for key, value in given.items():
        if not key.startswith(PREFIX):
            common[key] = value
            continue
        listener, separator, rest = key.removeprefix(PREFIX).partition(".")
        if not separator or not rest or not isinstance(value, str | int) or isinstance(value, bool):
            raise SettingError(key, f"must be {PREFIX}LISTENER.SETTING with a string")
        own.setdefault(listener.lower(), {})[rest] = Secret(str(value))
    return common, own


def _plain_users(key: str, jaas: Secret | None) -> dict[str, Secret]:
    """The users that a PlainLoginModule has; its own name and password are for inter-broker connections."""
    if jaas is None:
        return {}
    module = _login_module(key, jaas, "PlainLoginModule")
    return {name.removeprefix(_USER): word for name, word in module.options.items() if name.startswith(_USER)}


def _login_module(key: str, text: Secret, name: str) -> LoginModule:
    try:
        module = parse_login_module(text)
    except JaasError as error:
        raise SettingError(key, str(error)) from None
    if module.name != name:
        raise SettingError(key, f"the login module must be {name}, not {module.name}")
    return module


def _parse_endpoints(key: str, texts: str) -> tuple[Endpoint, ...]:
    return tuple(Endpoint.parse(key, text) for text in texts.split(",") if text.strip())
