"""Security properties -> what connections need: a TLS context, a maker of SASL mechanisms.

``check_security`` looks at what can be seen without a file or a server, when the properties are parsed;
``security_of`` reads stores, in the process that connects.
"""

import dataclasses
import urllib.parse
from collections.abc import Callable, Collection
from typing import Any, Final

from spark_kafka_native._client.config_def import properties_of
from spark_kafka_native._client.security.config import SecurityConfig
from spark_kafka_native._client.security.keystores import (
    KeyMaterial,
    StoreFile,
    pem_certificates,
    pem_key,
    read_key_store,
    read_trust_store,
)
from spark_kafka_native._client.security.reloadable import ReloadableSecurity
from spark_kafka_native._client.security.token_cache import TokenCache
from spark_kafka_native._client.security.token_server import OPTION as ENDPOINT
from spark_kafka_native._client.security.token_server import TokenServer
from spark_kafka_native._client.security.tokens import (
    FUNCTION,
    extensions_of,
    token_from_aws,
    token_from_file,
    token_from_function,
    unsecured_token,
)
from spark_kafka_native._net.channel_security import ChannelSecurity, MechanismFactory
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._net.sasl.gssapi import Gssapi, KerberosLogin
from spark_kafka_native._net.sasl.jaas import JaasError, LoginModule, parse_login_module
from spark_kafka_native._net.sasl.oauthbearer import BearerToken, OAuthBearer
from spark_kafka_native._net.sasl.plain import Plain
from spark_kafka_native._net.sasl.scram import Scram
from spark_kafka_native._net.secret import Secret, without_secrets
from spark_kafka_native._net.tls import Tls, TlsSettings

_JAAS: Final = "sasl.jaas.config"
_MECHANISM: Final = "sasl.mechanism"
_SERVICE: Final = "sasl.kerberos.service.name"
_LOGIN_MODULES: Final = {
    "GSSAPI": "Krb5LoginModule",
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "AWS_MSK_IAM": "IAMLoginModule",
}
_LOGIN_HANDLERS: Final = frozenset(
    {
        "OAuthBearerLoginCallbackHandler",
        "OAuthBearerUnsecuredLoginCallbackHandler",
        "IAMOAuthBearerLoginCallbackHandler",
    }
)
_CLIENT_HANDLERS: Final = frozenset({"IAMClientCallbackHandler", "OAuthBearerSaslClientCallbackHandler"})


def check_security(config: SecurityConfig, *, given: Collection[str], option_prefix: str) -> None:
    """Raise ConfigError where security properties are wrong or contradict each other.

    ``given`` are the properties that were set, with ``option_prefix`` before their names.
    """
    if config.uses_tls:
        _check_tls(config)
    if config.uses_sasl:
        if _MECHANISM not in given:
            _check_default_mechanism(config, f"GSSAPI, the default of {option_prefix}{_MECHANISM}, which is not set")
        _check_sasl(config)


def security_of(config: SecurityConfig, earlier: ChannelSecurity | None = None) -> ChannelSecurity:
    """What connections need, stores and certificates read. Raises ConfigError naming the property.

    ``earlier`` is what was made of the same properties before: its tokens are still good.
    """
    tls = _tls_of(config) if config.uses_tls else None
    if earlier is not None:
        return ChannelSecurity(tls=tls, sasl=earlier.sasl)
    return ChannelSecurity(tls=tls, sasl=_mechanisms(config) if config.uses_sasl else None)


def _tls_of(config: SecurityConfig, *, validate_only: bool = False) -> Tls:
    key = _key_material(config)
    settings = TlsSettings(
        trusted=_trusted(config),
        certificate_chain=None if key is None else key.chain,
        private_key=None if key is None else key.key,
        key_password=None if key is None else key.password,
        enabled_protocols=config.ssl_enabled_protocols,
        protocol=config.ssl_protocol,
        cipher_suites=config.ssl_cipher_suites or (),
        check_host_name=config.ssl_endpoint_identification_algorithm == "https",
    )
    return Tls(settings, validate_only=validate_only)


# --- TLS


def _check_tls(config: SecurityConfig) -> None:
    if config.ssl_keystore_key is not None:
        if config.ssl_keystore_location is not None:
            raise ConfigError("ssl.keystore.key", "contradicts ssl.keystore.location; give only one of them")
        if config.ssl_keystore_certificate_chain is None:
            raise ConfigError("ssl.keystore.certificate.chain", "is required with ssl.keystore.key")
    elif config.ssl_keystore_certificate_chain is not None:
        raise ConfigError("ssl.keystore.key", "is required with ssl.keystore.certificate.chain")
    if config.ssl_truststore_certificates is not None and config.ssl_truststore_location is not None:
        raise ConfigError("ssl.truststore.certificates", "contradicts ssl.truststore.location; give only one of them")
    # Versions, suites and PEM texts need no file to be wrong.
    without_files = dataclasses.replace(config, ssl_keystore_location=None, ssl_truststore_location=None)
    _tls_of(without_files, validate_only=True)


def _trusted(config: SecurityConfig) -> str | None:
    if config.ssl_truststore_certificates is not None:
        return pem_certificates(config.ssl_truststore_certificates.reveal(), "ssl.truststore.certificates")
    if config.ssl_truststore_location is None:
        return None
    store = StoreFile(
        prefix="ssl.truststore",
        location=config.ssl_truststore_location,
        type=config.ssl_truststore_type,
        password=config.ssl_truststore_password,
    )
    return read_trust_store(store)


def _key_material(config: SecurityConfig) -> KeyMaterial | None:
    if config.ssl_keystore_key is not None and config.ssl_keystore_certificate_chain is not None:
        return KeyMaterial(
            key=pem_key(config.ssl_keystore_key, "ssl.keystore.key"),
            chain=pem_certificates(config.ssl_keystore_certificate_chain.reveal(), "ssl.keystore.certificate.chain"),
            password=config.ssl_key_password,
        )
    if config.ssl_keystore_location is None:
        return None
    store = StoreFile(
        prefix="ssl.keystore",
        location=config.ssl_keystore_location,
        type=config.ssl_keystore_type,
        password=config.ssl_keystore_password,
    )
    return read_key_store(store, config.ssl_key_password)


# --- SASL


def _check_default_mechanism(config: SecurityConfig, default: str) -> None:
    module = None if config.sasl_jaas_config is None else _parsed(config.sasl_jaas_config)
    fitting = [name for name, login_module in _LOGIN_MODULES.items() if module and module.name == login_module]
    if module is not None and fitting and "GSSAPI" not in fitting:
        raise ConfigError(_JAAS, f"{module.name} is not for {default}; set it to {' or '.join(fitting)}")
    if not _service_name(config, module):
        raise ConfigError(_SERVICE, f"is required for {default}; set it to the cluster's mechanism")


def _check_sasl(config: SecurityConfig) -> None:
    _mechanisms(config)
    handler = config.sasl_login_callback_handler_class
    if isinstance(handler, str) and ":" not in handler and handler.rpartition(".")[2] not in _LOGIN_HANDLERS:
        raise ConfigError(
            FUNCTION, f"{handler}: Java classes cannot log in here; give a Python function, module:function"
        )
    handler = config.sasl_client_callback_handler_class
    if handler is not None and handler.rpartition(".")[2] not in _CLIENT_HANDLERS:
        raise ConfigError("sasl.client.callback.handler.class", f"{handler}: Java classes cannot log in here")


def _mechanisms(config: SecurityConfig) -> MechanismFactory:
    module = _login_module(config)
    match config.sasl_mechanism:
        case "PLAIN":
            name, word = _required(module, "username").reveal(), _required(module, "password")
            return lambda _: Plain(name, word)
        case "SCRAM-SHA-256" | "SCRAM-SHA-512" as kind:
            name, word = _required(module, "username").reveal(), _required(module, "password")
            by_token = module is not None and module.is_true("tokenauth")
            return lambda _: Scram(kind, name, word, token_auth=by_token)
        case "GSSAPI":
            login = _kerberos(config, module)
            return lambda address: Gssapi(login, address.host)
        case _:
            return _tokens(config, module)


def _login_module(config: SecurityConfig) -> LoginModule | None:
    if config.sasl_jaas_config is None:
        return None
    module = _parsed(config.sasl_jaas_config)
    expected = _LOGIN_MODULES[config.sasl_mechanism]
    # The token of AWS's signer goes over OAUTHBEARER, under which AWS's own Java client has it too.
    if module.name != expected and not (module.name == "IAMLoginModule" and config.sasl_mechanism == "OAUTHBEARER"):
        raise ConfigError(_JAAS, f"{module.name} is not for sasl.mechanism={config.sasl_mechanism}, {expected} is")
    return module


def _parsed(jaas: Secret) -> LoginModule:
    try:
        return parse_login_module(jaas)
    except JaasError as error:
        raise ConfigError(_JAAS, str(error)) from None


def _required(module: LoginModule | None, name: str) -> Secret:
    if module is None:
        raise ConfigError(_JAAS, f"is required; it holds the {name}")
    value = module.options.get(name)
    if value is None:
        raise ConfigError(_JAAS, f"{module.name} needs the option {name}")
    return value


def _service_name(config: SecurityConfig, module: LoginModule | None) -> str | None:
    if config.sasl_kerberos_service_name is not None or module is None:
        return config.sasl_kerberos_service_name
    return module.text("serviceName")


def _kerberos(config: SecurityConfig, module: LoginModule | None) -> KerberosLogin:
    service = _service_name(config, module)
    if not service:
        raise ConfigError(_SERVICE, "is required for sasl.mechanism=GSSAPI; often it is kafka")
    if module is None:
        return KerberosLogin(service=service)
    keytab = module.text("keyTab") if module.is_true("useKeyTab") else None
    if module.is_true("useKeyTab") and keytab is None:
        raise ConfigError(_JAAS, "Krb5LoginModule needs the option keyTab with useKeyTab=true")
    cache = module.text("ticketCache") if module.is_true("useTicketCache") else None
    return KerberosLogin(
        service=service,
        principal=module.text("principal"),
        keytab=keytab and keytab.removeprefix("file:"),
        ticket_cache=cache,
    )


def _tokens(config: SecurityConfig, module: LoginModule | None) -> MechanismFactory:
    is_aws = config.sasl_mechanism == "AWS_MSK_IAM" or (module is not None and module.name == "IAMLoginModule")
    if is_aws:
        return lambda address: OAuthBearer(token_from_aws(module, address))
    cache = TokenCache(_token_source(config, module), config)
    return lambda _: OAuthBearer(cache.token())


def _token_source(config: SecurityConfig, module: LoginModule | None) -> Callable[[], BearerToken]:
    function, url = config.sasl_login_callback_handler_class, config.sasl_oauthbearer_token_endpoint_url
    extensions = extensions_of(module)
    if function is not None and not (isinstance(function, str) and ":" not in function):
        return lambda: token_from_function(function, extensions)
    if url is None:
        if module is None:
            raise ConfigError(_JAAS, f"is required, or another source of tokens: {ENDPOINT} or {FUNCTION}")
        return lambda: unsecured_token(module)
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme == "file":
        return lambda: dataclasses.replace(token_from_file(url), extensions=extensions)
    if scheme not in {"http", "https"}:
        raise ConfigError(ENDPOINT, "must begin with https://, http:// or file://")
    server, own_tls = _token_server(config, module, url), _token_tls(module)

    def fetch() -> BearerToken:
        # A store that the login module names is read where tokens are fetched.
        protection = None if own_tls is None else own_tls.current().tls
        tls = None if protection is None else protection.context
        return dataclasses.replace(dataclasses.replace(server, tls=tls).fetch(), extensions=extensions)

    return fetch


def _token_tls(module: LoginModule | None) -> ReloadableSecurity | None:
    """How to speak to the token server, if the login module has ``ssl.*`` options of its own. Raises ConfigError."""
    given = {name: value for name, value in (module.options if module else {}).items() if name.startswith("ssl.")}
    known = properties_of(SecurityConfig)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(_JAAS, f"{name} is not an option of {_LOGIN_MODULES['OAUTHBEARER']}")
        try:
            values[name.replace(".", "_")] = known[name].type.parse(value.reveal())
        except ValueError as error:
            raise ConfigError(_JAAS, f"{name}: {without_secrets(str(error), value)}") from None
    return ReloadableSecurity(SecurityConfig(**values, security_protocol="SSL"), security_of) if values else None


def _token_server(config: SecurityConfig, module: LoginModule | None, url: str) -> TokenServer:
    client_id = config.sasl_oauthbearer_client_credentials_client_id or (module and module.text("clientId"))
    secret = config.sasl_oauthbearer_client_credentials_client_secret or (module and module.options.get("clientSecret"))
    if not client_id:
        raise ConfigError("sasl.oauthbearer.client.credentials.client.id", f"is required to ask {ENDPOINT} for tokens")
    if not secret:
        name = "sasl.oauthbearer.client.credentials.client.secret"
        raise ConfigError(name, f"is required to ask {ENDPOINT} for tokens")
    return TokenServer(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=config.sasl_oauthbearer_scope or (None if module is None else module.text("scope")),
        urlencode=config.sasl_oauthbearer_header_urlencode,
        connect_timeout_ms=config.sasl_login_connect_timeout_ms,
        read_timeout_ms=config.sasl_login_read_timeout_ms,
        backoff_ms=config.sasl_login_retry_backoff_ms,
        backoff_max_ms=config.sasl_login_retry_backoff_max_ms,
    )
