import base64
import dataclasses
import http.server
import threading
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.errors import ProduceError
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.security.factory import security_of
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable, ConfigError
from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.sasl.oauthbearer import OAuthBearer
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.certificates import HOSTS, Authority, server_context
from tests.support.clients.interface import Record
from tests.support.clients.native import rows_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import OneRange
from tests.support.scripted.security import Guard
from tests.support.scripted.steps import Drop

SERVERS = {"bootstrap.servers": "a:1"}
BROKER = HostPort("broker", 9092)
PACKAGE = "org.apache.kafka.common.security"
PLAIN = f'{PACKAGE}.plain.PlainLoginModule required username="alice" password="hunter2";'
SCRAM = f'{PACKAGE}.scram.ScramLoginModule required username="alice" password="hunter2";'
OAUTH = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"

AUTHORITY = Authority()
SERVER = AUTHORITY.issue("broker", HOSTS)
CLIENT = AUTHORITY.issue("client")


def parse(protocol: str, **options: Any) -> ClientConfig:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return ClientConfig.parse(SERVERS | {"security.protocol": protocol} | named)


def refusal(protocol: str, **options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(protocol, **options)
    assert "hunter2" not in str(caught.value)
    return caught.value


def first_message(**options: Any) -> bytes:
    mechanism = security_of(parse("SASL_PLAINTEXT", **options)).mechanism_for(BROKER)
    assert mechanism is not None
    return mechanism.first()


# --- SASL


@pytest.mark.feature("security.jaas")
def test_each_mechanism_sends_its_first_message() -> None:
    assert first_message(sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN) == b"\0alice\0hunter2"
    assert first_message(sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=SCRAM).startswith(b"n,,n=alice,r=")
    unsecured = f'{OAUTH} unsecuredLoginStringClaim_sub="alice";'
    assert first_message(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=unsecured).startswith(b"n,,\x01auth=Bearer ey")


@pytest.mark.feature("security.delegationTokens")
def test_a_delegation_token_is_announced() -> None:
    jaas = SCRAM.replace(";", " tokenauth=true;")
    assert first_message(sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas).endswith(b",tokenauth=true")


def test_a_shaded_login_module_is_the_same() -> None:
    assert first_message(sasl_mechanism="PLAIN", sasl_jaas_config=f"kafkashaded.{PLAIN}") == b"\0alice\0hunter2"


def my_token() -> tuple[str, float]:
    return "mine", 9e9


@pytest.mark.feature("security.oauth")
@pytest.mark.parametrize("function", [my_token, f"{__name__}:my_token"])
def test_a_python_function_gives_tokens(function: Any) -> None:
    if isinstance(function, str):
        function = "os.path:basename" if __name__ == "__main__" else function
    options = {"sasl_mechanism": "OAUTHBEARER", "sasl_login_callback_handler_class": function}
    config = parse("SASL_SSL", **options)
    assert hash(config) == hash(parse("SASL_SSL", **options))
    if callable(function):
        jaas = f'{OAUTH} extension_trace="7";'
        assert first_message(**options, sasl_jaas_config=jaas) == b"n,,\x01auth=Bearer mine\x01trace=7\x01\x01"


def test_a_file_gives_tokens(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("mine")
    options = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": (tmp_path / "t").as_uri()}
    assert first_message(**options) == b"n,,\x01auth=Bearer mine\x01\x01"


@pytest.mark.feature("security.msk")
@pytest.mark.parametrize(
    ("mechanism", "handler"),
    [
        (
            "AWS_MSK_IAM",
            {"sasl_client_callback_handler_class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"},
        ),
        ("OAUTHBEARER", {"sasl_login_callback_handler_class": "x.IAMOAuthBearerLoginCallbackHandler"}),
    ],
)
def test_options_of_awss_java_client(monkeypatch: pytest.MonkeyPatch, mechanism: str, handler: dict[str, str]) -> None:
    """The token is decoded as a broker would: it is a presigned URL for the region."""
    pytest.importorskip("aws_msk_iam_sasl_signer", reason="aws-msk-iam-sasl-signer-python is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    jaas = "software.amazon.msk.auth.iam.IAMLoginModule required;"
    message = first_message(sasl_mechanism=mechanism, sasl_jaas_config=jaas, **handler)
    token = message.removeprefix(b"n,,\x01auth=Bearer ").rstrip(b"\x01")
    assert base64.urlsafe_b64decode(token + b"==").startswith(b"https://kafka.eu-north-1.amazonaws.com/?Action=")


@pytest.mark.parametrize(
    ("options", "option", "complaint"),
    [
        ({"sasl_mechanism": "PLAIN"}, "sasl.jaas.config", "is required"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "sasl.jaas.config", "is required"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "sasl.jaas.config", "or another source of tokens"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": SCRAM}, "sasl.jaas.config", "PlainLoginModule is"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": "hunter2"}, "sasl.jaas.config", "not of the form"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN.replace("username", "user")},
            "sasl.jaas.config",
            "PlainLoginModule needs the option username",
        ),
        ({"sasl_mechanism": "NTLM"}, "sasl.mechanism", "is not one of GSSAPI, PLAIN"),
        ({}, "sasl.kerberos.service.name", "is required"),
        (
            {"sasl_kerberos_service_name": "kafka", "sasl_jaas_config": f"{KRB5} useKeyTab=true;"},
            "sasl.jaas.config",
            "needs the option keyTab",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN, "sasl_login_callback_handler_class": "a.B"},
            "sasl.login.callback.handler.class",
            "Java classes cannot log in here",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN, "sasl_login_callback_handler_class": "a b"},
            "sasl.login.callback.handler.class",
            "neither module:function nor",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN, "sasl_client_callback_handler_class": "a.B"},
            "sasl.client.callback.handler.class",
            "Java classes cannot log in here",
        ),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": "ftp://x"},
            "sasl.oauthbearer.token.endpoint.url",
            "must begin with https://",
        ),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": "https://x"},
            "sasl.oauthbearer.client.credentials.client.id",
            "is required",
        ),
        (
            {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "https://x",
                "sasl_jaas_config": f"{OAUTH} clientId=app;",
            },
            "sasl.oauthbearer.client.credentials.client.secret",
            "is required",
        ),
    ],
)
def test_missing_and_contradictory_properties_are_refused(options: dict[str, str], option: str, complaint: str) -> None:
    error = refusal("SASL_PLAINTEXT", **options)
    assert error.option == option
    assert complaint in error.message


@pytest.mark.parametrize(
    ("options", "problem", "advice"),
    [
        ({"sasl.jaas.config": PLAIN}, "sasl.jaas.config: PlainLoginModule is not", "PLAIN"),
        ({"sasl.jaas.config": SCRAM}, "sasl.jaas.config: ScramLoginModule is not", "SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({}, "sasl.kerberos.service.name: is required", "the cluster's mechanism"),
    ],
)
def test_missing_mechanism_is_named(options: dict[str, str], problem: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ClientConfig.parse({**SERVERS, "security.protocol": "SASL_SSL", **options}, option_prefix="kafka.")
    default = "GSSAPI, the default of kafka.sasl.mechanism, which is not set; set it to"
    assert str(caught.value) == f"{problem} for {default} {advice}"


@pytest.mark.feature("security.gssapi")
def test_kerberos_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def gssapi(login: Any, host: str) -> Any:
        found.append((login, host))
        raise SaslError("no ticket")

    monkeypatch.setattr("spark_kafka_native._client.security.factory.Gssapi", gssapi)
    jaas = f'{KRB5} useKeyTab=true keyTab="file:/etc/a.keytab" principal="a@R" serviceName="kafka";'
    for options in ({"sasl_jaas_config": jaas}, {"sasl_kerberos_service_name": "k"}):
        security = security_of(parse("SASL_SSL", **options))
        with pytest.raises(AuthenticationFailed, match="no ticket"):
            security.mechanism_for(BROKER)
    (with_keytab, host), (without, _) = found
    assert (with_keytab.service, with_keytab.principal, with_keytab.keytab, host) == (
        "kafka", "a@R", "/etc/a.keytab", "broker",
    )  # fmt: skip
    assert (without.service, without.keytab) == ("k", None)


# --- TLS


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"ssl_keystore_key": CLIENT.key_pem}, "ssl.keystore.certificate.chain"),
        ({"ssl_keystore_certificate_chain": CLIENT.chain_pem}, "ssl.keystore.key"),
        ({"ssl_keystore_key": "hunter2", "ssl_keystore_location": "/x"}, "ssl.keystore.key"),
        ({"ssl_keystore_key": "hunter2", "ssl_keystore_certificate_chain": CLIENT.chain_pem}, "ssl.keystore.key"),
        ({"ssl_truststore_certificates": "hunter2"}, "ssl.truststore.certificates"),
        (
            {"ssl_truststore_certificates": AUTHORITY.certificate_pem, "ssl_truststore_location": "/x"},
            "ssl.truststore.certificates",
        ),
        ({"ssl_enabled_protocols": "SSLv3"}, "ssl.enabled.protocols"),
        ({"ssl_protocol": "SSLv3"}, "ssl.protocol"),
        ({"ssl_cipher_suites": "hunter"}, "ssl.cipher.suites"),
        ({"ssl_endpoint_identification_algorithm": "none"}, "ssl.endpoint.identification.algorithm"),
        ({"ssl_keystore_type": "BKS"}, "ssl.keystore.type"),
    ],
)
def test_invalid_tls_settings_are_refused(options: dict[str, str], option: str) -> None:
    assert refusal("SSL", **options).option == option


def test_without_tls_its_settings_are_not_looked_at() -> None:
    """As in Kafka's clients, whose users keep one file for all clusters."""
    assert parse("PLAINTEXT", ssl_keystore_location="/x", ssl_cipher_suites="hunter").security_protocol == "PLAINTEXT"


def test_stores_are_read_where_connections_are_made(tmp_path: Path) -> None:
    config = parse("SSL", ssl_truststore_location=tmp_path / "later.pem", ssl_truststore_type="PEM")
    with pytest.raises(ConfigError, match="cannot be read"):
        security_of(config)
    (tmp_path / "later.pem").write_text(AUTHORITY.certificate_pem)
    assert security_of(config).tls is not None


# --- whole clients


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    return Guard(tls=server_context(SERVER, tmp_path), mechanisms=("SCRAM-SHA-512",), users={"alice": "hunter2"})


def options(guard: Guard, jaas: str = SCRAM) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_jaas_config": jaas,
        "ssl_truststore_certificates": AUTHORITY.certificate_pem,
    }


def test_a_client_reads_and_writes(guard: Guard) -> None:
    with ScriptedCluster(topics={"t": 1}, guard=guard) as running:
        with Cluster(running.config(linger_ms=0, **options(guard))) as cluster, Producer(cluster) as producer:
            producer.send("t", rows_of([Record(key=None, value=b"x")]))
        assert running.partition("t").log_end == 1


@pytest.mark.feature("security.secrets")
def test_a_wrong_password_is_tried_once(guard: Guard) -> None:
    wrong = options(guard, SCRAM.replace("hunter2", "wrong-hunter"))
    guard.echoes = True
    with ScriptedCluster(topics={"t": 1}, guard=guard) as running:
        for act in (
            lambda cluster: cluster.metadata(["t"]),
            lambda cluster: Producer(cluster).send("t", rows_of([Record(key=None, value=b"x")])),
        ):
            with Cluster(running.config(linger_ms=0, **wrong)) as cluster, pytest.raises(KafkaError) as caught:
                act(cluster)
            assert "wrong-hunter" not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
        handshakes = [1 for _, request, _ in running.received if type(request).__name__ == "SaslHandshakeRequest"]
        assert len(handshakes) == 2


def test_errors_of_a_connection_name_the_option_as_it_was_given(guard: Guard, tmp_path: Path) -> None:
    """In Spark with ``kafka.`` in front."""
    wrong = options(guard, SCRAM.replace("hunter2", "wrong-hunter"))
    missing = options(guard) | {"ssl_truststore_location": str(tmp_path / "gone.jks")}
    del missing["ssl_truststore_certificates"]
    with ScriptedCluster(topics={"t": 1}, guard=guard) as running:
        for more, kind, text in (
            (wrong, AuthenticationFailed, r"127\.0\.0\.1:[0-9]+: kafka\.sasl\.jaas\.config: "),
            (missing, ConfigError, r"^kafka\.ssl\.truststore\.location: .*gone\.jks: cannot be read"),
        ):
            config = dataclasses.replace(running.config(**more), option_prefix="kafka.")
            with Cluster(config) as cluster, pytest.raises(kind, match=text):
                cluster.metadata(["t"])


def test_missing_function_is_an_error_without_a_broker() -> None:
    sasl = {"sasl_mechanism": "OAUTHBEARER", "sasl_login_callback_handler_class": "no_such_module:token"}
    with ScriptedCluster(topics={"t": 1}) as running:
        config = dataclasses.replace(running.config(security_protocol="SASL_SSL", **sasl), option_prefix="kafka.")
        with Cluster(config) as cluster, pytest.raises(AuthenticationFailed) as caught:
            cluster.metadata(["t"])
    assert str(caught.value) == (
        "kafka.sasl.login.callback.handler.class: function no_such_module:token does not exist: No module named "
        "'no_such_module'"
    )


def test_unreachable_brokers_with_a_property_as_cause() -> None:
    """The advice to check the bootstrap servers is left out."""
    patient = {"default_api_timeout_ms": 2_000, "reconnect_backoff_ms": 1_000, "reconnect_backoff_max_ms": 1_000}
    with ScriptedCluster(topics={"t": 1}) as running:
        running.script(ApiVersionsRequest, *[Drop()] * 100)
        config = dataclasses.replace(running.config(**patient), option_prefix="kafka.")
        with Cluster(config) as cluster, pytest.raises(BrokerUnreachable) as caught:
            cluster.metadata(["t"])
    assert str(caught.value).endswith("or its listener needs TLS (kafka.security.protocol is PLAINTEXT))")


def test_a_listener_without_sasl_is_an_error_with_the_value_of_security_protocol() -> None:
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": SCRAM}
    with ScriptedCluster(topics={"t": 1}) as running:
        config = dataclasses.replace(running.config(**sasl), option_prefix="kafka.")
        with Cluster(config) as cluster, pytest.raises(AuthenticationFailed) as caught:
            cluster.metadata(["t"])
    assert caught.value.reason == "is SASL_PLAINTEXT, but the broker has no SASL"


def test_a_token_server_with_an_authority_of_its_own(tmp_path: Path) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"access_token": "mine"}')

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = server_context(SERVER, tmp_path).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        (tmp_path / "ca.pem").write_text(AUTHORITY.certificate_pem)
        url = f"https://127.0.0.1:{server.server_address[1]}/token"
        named = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": url}
        login = f'{OAUTH} clientId="app" clientSecret="hunter2"'
        trust = f' ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path / "ca.pem"}"'
        assert b"Bearer mine" in first_message(**named, sasl_jaas_config=f"{login}{trust};")
        with pytest.raises(AuthenticationFailed, match="cannot be reached"):
            first_message(**named, sasl_jaas_config=f"{login};")
        server.shutdown()
        thread.join(60)


@pytest.mark.parametrize("more", ['ssl.nonsense="1"', 'ssl.truststore.type="hunter2"'])
def test_options_for_the_token_server_that_are_wrong(more: str) -> None:
    jaas = f'{OAUTH} clientId="app" clientSecret="x" {more};'
    url = "https://login.example/token"
    error = refusal(
        "SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=url, sasl_jaas_config=jaas
    )
    assert error.option == "sasl.jaas.config"
    assert more.partition("=")[0] in error.message


def test_tokens_are_shared_by_connections() -> None:
    calls: list[int] = []

    def token() -> tuple[str, float]:
        calls.append(1)
        return "t", 9e9

    config = parse("SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_login_callback_handler_class=token)
    security = security_of(config)
    made = [security.mechanism_for(BROKER) for _ in range(3)]
    assert all(isinstance(each, OAuthBearer) for each in made)
    assert len(calls) == 1


def write(producer: Producer, value: bytes) -> None:
    producer.send("t", rows_of([Record(key=None, value=value)]))
    producer.flush()


def test_a_password_that_becomes_invalid_ends_reads_and_writes_at_once(guard: Guard) -> None:
    with ScriptedCluster(topics={"t": 1}, guard=guard) as running:
        config = running.config(linger_ms=0, delivery_timeout_ms=600_000, **options(guard))
        with Cluster(config) as cluster, Producer(cluster) as producer:
            write(producer, b"x")
            cluster.leader(TopicPartition("t", 0))
            guard.users = {"alice": "changed"}
            running.brokers[1].drop_connections()
            with pytest.raises(ProduceError, match="invalid credentials"):
                write(producer, b"y")
            with pytest.raises(AuthenticationFailed), OneRange(cluster, TopicPartition("t", 0), 0, 1) as fetcher:
                next(iter(fetcher))
            producer.abort()
