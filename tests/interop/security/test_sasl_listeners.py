"""SASL against Apache Kafka: each mechanism, refusals, sessions that end, tokens."""

import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.topic import TopicPartition
from tests.interop.security.test_tls_listeners import round_trip, trusting
from tests.support.clients.native import config_of, outlive_sessions
from tests.support.servers.apache_kafka import run_tool
from tests.support.servers.sasl_brokers import USERS, plain_jaas, scram_jaas
from tests.support.servers.secure_kafka import SecureKafka

pytestmark = pytest.mark.interop

UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_level="7";'
)
OVER_TCP = {"security_protocol": "SASL_PLAINTEXT"}


def refusal(kafka: SecureKafka, listener: str, **options: object) -> AuthenticationFailed:
    with (
        Cluster(config_of(kafka.servers(listener), **options)) as cluster,
        pytest.raises(AuthenticationFailed) as caught,
    ):
        cluster.metadata(timeout_ms=600_000)  # trying again, which locks accounts, would take longer than a test may
    assert not any(word in str(caught.value) for word in (*USERS.values(), "wrong-hunter2"))
    return caught.value


@pytest.mark.feature("security.plain")
@pytest.mark.feature("security.jaas")
@pytest.mark.parametrize("user", USERS)
def test_plain(kafka: SecureKafka, user: str) -> None:
    round_trip(kafka, "SASL", sasl_mechanism="PLAIN", sasl_jaas_config=plain_jaas(user), **OVER_TCP)


@pytest.mark.feature("security.scram")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(kafka: SecureKafka, mechanism: str) -> None:
    round_trip(kafka, "SASL", sasl_mechanism=mechanism, sasl_jaas_config=scram_jaas("alice"), **OVER_TCP)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_sasl_over_tls(kafka: SecureKafka, mechanism: str) -> None:
    jaas = plain_jaas("alice") if mechanism == "PLAIN" else scram_jaas("alice")
    options = trusting(kafka) | {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "sasl_jaas_config": jaas}
    round_trip(kafka, "SASLTLS", **options)


@pytest.mark.feature("security.oauth")
def test_unsecured_tokens(kafka: SecureKafka) -> None:
    round_trip(kafka, "SASL", sasl_mechanism="OAUTHBEARER", sasl_jaas_config=UNSECURED, **OVER_TCP)


@pytest.mark.feature("security.oauth")
def test_a_token_from_a_function(kafka: SecureKafka) -> None:
    options = {"sasl_mechanism": "OAUTHBEARER", **OVER_TCP}
    round_trip(kafka, "JWT", sasl_login_callback_handler_class=lambda: kafka.issuer.token("alice"), **options)
    for_others = refusal(
        kafka, "JWT", sasl_login_callback_handler_class=lambda: kafka.issuer.token("a", audience="x"), **options
    )
    assert "OAUTHBEARER: the broker refuses the token: invalid_token" in str(for_others)


@pytest.mark.feature("security.oauth")
def test_a_token_from_a_file(kafka: SecureKafka, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(kafka.issuer.token("alice") + "\n")
    options = {"sasl_mechanism": "OAUTHBEARER", **OVER_TCP}
    round_trip(kafka, "JWT", sasl_oauthbearer_token_endpoint_url=path.as_uri(), **options)


@contextmanager
def token_server(kafka: SecureKafka) -> Iterator[str]:
    """A server that gives tokens to the client `app` with the secret `app-hunter2`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
            known = self.headers["Authorization"] == "Basic YXBwOmFwcC1odW50ZXIy"
            response = {"access_token": kafka.issuer.token("app")} if known else {"error": "invalid_client"}
            body = json.dumps(response).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
        server.shutdown()
        thread.join(5)


@pytest.mark.feature("security.oauth")
def test_a_token_from_a_server(kafka: SecureKafka) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    jaas = f'{module} clientId="app" clientSecret="app-hunter2" scope="kafka";'
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    with token_server(kafka) as url:
        options = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": url, **OVER_TCP}
        round_trip(kafka, "JWT", sasl_jaas_config=jaas, sasl_login_callback_handler_class=handler, **options)
        wrong = refusal(kafka, "JWT", sasl_jaas_config=jaas.replace("app-h", "wrong-h"), **options)
    assert "answers 401 (invalid_client)" in str(wrong)


@pytest.mark.parametrize(
    ("mechanism", "jaas"),
    [("PLAIN", plain_jaas("alice", "wrong-hunter2")), ("SCRAM-SHA-512", scram_jaas("alice", "wrong-hunter2")),
     ("SCRAM-SHA-256", scram_jaas("unknown", "wrong-hunter2"))],
)  # fmt: skip
def test_a_wrong_password_ends_the_matter_at_once(kafka: SecureKafka, mechanism: str, jaas: str) -> None:
    error = refusal(kafka, "SASL", sasl_mechanism=mechanism, sasl_jaas_config=jaas, **OVER_TCP)
    assert (error.option, error.code) == ("sasl.jaas.config", ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert mechanism in str(error)


def test_a_mechanism_that_the_listener_lacks(kafka: SecureKafka) -> None:
    error = refusal(kafka, "JWT", sasl_mechanism="PLAIN", sasl_jaas_config=plain_jaas("alice"), **OVER_TCP)
    assert error.option == "sasl.mechanism"
    assert "OAUTHBEARER" in str(error)


def test_sasl_where_there_is_none(kafka: SecureKafka) -> None:
    options = {"sasl_mechanism": "PLAIN", "sasl_jaas_config": plain_jaas("alice"), **OVER_TCP}
    servers = kafka.cluster.bootstrap_servers
    with Cluster(config_of(servers, **options)) as cluster, pytest.raises(AuthenticationFailed) as caught:
        cluster.metadata()
    assert caught.value.option == "security.protocol"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_one_connection_outlives_its_sessions(kafka: SecureKafka, mechanism: str) -> None:
    jaas = plain_jaas("alice") if mechanism == "PLAIN" else scram_jaas("alice")
    config = config_of(kafka.servers("LEASE"), sasl_mechanism=mechanism, sasl_jaas_config=jaas, **OVER_TCP)
    with Cluster(config) as cluster:
        node = next(iter(cluster.metadata().brokers.values()))
        with cluster.lent(node, Deadline.after_ms(60_000)) as connection:
            outlive_sessions(connection)


@pytest.mark.feature("security.delegationTokens")
def test_a_delegation_token(kafka: SecureKafka, tmp_path: Path) -> None:
    settings = tmp_path / "admin.properties"
    jaas = scram_jaas("alice")
    settings.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={jaas}\n")
    where = ("--bootstrap-server", kafka.servers("SASL"), "--command-config", str(settings))
    made = run_tool(
        "org.apache.kafka.tools.DelegationTokenCommand", *where, "--create", "--max-life-time-period", "-1",
        "--renewer-principal", "User:alice",
    )  # fmt: skip
    token_id, mac = made.splitlines()[-1].split()[:2]
    by_token = scram_jaas(token_id, mac, ' tokenauth="true"')
    round_trip(kafka, "SASL", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=by_token, **OVER_TCP)


def test_offsets_are_listed_by_users_who_may(kafka: SecureKafka) -> None:
    kafka.cluster.create_topic("listed")
    config = config_of(kafka.servers("SASL"), sasl_mechanism="PLAIN", sasl_jaas_config=plain_jaas("alice"), **OVER_TCP)
    with Cluster(config) as cluster:
        assert list_offsets(cluster, {TopicPartition("listed", 0): LATEST})[TopicPartition("listed", 0)].offset == 0
