"""The client's ``ssl.*`` and ``sasl.*`` properties, and ``security.protocol``."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from spark_kafka_native._client.config_def import (
    INT64_MAX,
    boolean,
    choice,
    define,
    function_or_class,
    integer,
    names,
    number,
    password,
    text,
)
from spark_kafka_native._net.secret import Secret

_PROTOCOLS: Final = {name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
_STORES: Final = {name: name for name in ("JKS", "PKCS12", "PEM")}
_TLS_VERSIONS: Final = {name: name for name in ("TLS", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")}
_HOST_CHECKS: Final = {"https": "https", "": ""}
MECHANISMS: Final = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Security properties as plain values; secrets are of a type that never shows them."""

    security_protocol: str = define(
        choice(_PROTOCOLS), "PLAINTEXT", "Encryption and authentication of the connections to brokers."
    )

    # --- TLS
    ssl_protocol: str = define(choice(_TLS_VERSIONS), "TLSv1.3", "Newest TLS version.")
    ssl_enabled_protocols: tuple[str, ...] = define(
        names("TLSv1.2,TLSv1.3 or other versions"), ("TLSv1.2", "TLSv1.3"), "TLS versions."
    )
    ssl_cipher_suites: tuple[str, ...] | None = define(
        names("names, separated by commas"), None, "Cipher suites by Java's names; none: OpenSSL's choice."
    )
    ssl_endpoint_identification_algorithm: str = define(
        choice(_HOST_CHECKS), "https", "Whether a broker's certificate must be for its host name; empty: no."
    )
    ssl_truststore_type: str = define(choice(_STORES), "JKS", "Kind of ssl.truststore.location; JKS reads PKCS12 too.")
    ssl_truststore_location: str | None = define(
        text(may_be_empty=False), None, "File of the trusted certificate authorities; none: those of the system."
    )
    ssl_truststore_password: Secret | None = define(password(), None, "Password of ssl.truststore.location.")
    ssl_truststore_certificates: Secret | None = define(password("PEM"), None, "Certificates to trust, in PEM.")
    ssl_keystore_type: str = define(choice(_STORES), "JKS", "Kind of ssl.keystore.location; JKS reads PKCS12 too.")
    ssl_keystore_location: str | None = define(
        text(may_be_empty=False), None, "File with this client's private key and certificate."
    )
    ssl_keystore_password: Secret | None = define(password(), None, "Password of ssl.keystore.location.")
    ssl_keystore_key: Secret | None = define(password("PEM"), None, "This client's private key, in PEM.")
    ssl_keystore_certificate_chain: Secret | None = define(password("PEM"), None, "This client's certificates, in PEM.")
    ssl_key_password: Secret | None = define(password(), None, "Password of the private key.")

    # --- SASL
    sasl_mechanism: str = define(
        choice({name: name for name in MECHANISMS}), "GSSAPI", "Mechanism of the SASL authentication."
    )
    sasl_jaas_config: Secret | None = define(
        password('Module required name="value";'),
        None,
        "Login module and its options: user name and password, client id, keytab.",
    )
    sasl_client_callback_handler_class: str | None = define(
        text(may_be_empty=False), None, "Accepted for AWS MSK IAM, whose Java client needs it."
    )
    sasl_login_callback_handler_class: str | Callable[..., Any] | None = define(
        function_or_class(),
        None,
        "A Python function that returns a token, as `module:function`; names of Kafka's own classes are accepted.",
    )
    sasl_login_connect_timeout_ms: int | None = define(
        integer(), None, "Longest wait for a connection to the token server."
    )
    sasl_login_read_timeout_ms: int | None = define(integer(), None, "Longest wait for the token server's response.")
    sasl_login_retry_backoff_ms: int = define(
        integer(at_most=INT64_MAX), 100, "Pause before another request to the token server."
    )
    sasl_login_retry_backoff_max_ms: int = define(
        integer(at_most=INT64_MAX), 10_000, "Bound of that pause, which doubles, and of all of them together."
    )
    sasl_login_refresh_window_factor: float = define(
        number(at_least=0.5, at_most=1.0), 0.8, "Part of a token's life after which the next is fetched."
    )
    sasl_login_refresh_window_jitter: float = define(
        number(at_least=0.0, at_most=0.25), 0.05, "Random part of its life added to that."
    )
    sasl_login_refresh_min_period_seconds: int = define(
        integer(at_most=900), 60, "Least time between two tokens, if their life allows."
    )
    sasl_login_refresh_buffer_seconds: int = define(
        integer(at_most=3600), 300, "Time before a token's end by which the next is fetched, if its life allows."
    )
    sasl_kerberos_service_name: str | None = define(
        text(may_be_empty=False), None, "Name of the brokers' Kerberos principal, without the host."
    )
    sasl_oauthbearer_token_endpoint_url: str | None = define(
        text(may_be_empty=False),
        None,
        "Where tokens come from: an https:// or http:// address, or a file:// with a token.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = define(
        text(may_be_empty=False), None, "Client id for the token server; overrides the one in sasl.jaas.config."
    )
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = define(
        password(), None, "Client secret for the token server."
    )
    sasl_oauthbearer_scope: str | None = define(text(may_be_empty=False), None, "Scope of the token request.")
    sasl_oauthbearer_header_urlencode: bool = define(
        boolean(), False, "Encode client id and secret as for a form before they are sent."
    )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol in {"SSL", "SASL_SSL"}

    @property
    def uses_sasl(self) -> bool:
        """Whether connections are authenticated by SASL."""
        return self.security_protocol.startswith("SASL_")
