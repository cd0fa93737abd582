"""TLS against Apache Kafka: every kind of store, and every way in which two sides do not trust each other."""

import itertools
from pathlib import Path

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.certificates import Authority
from tests.support.clients.interface import Record
from tests.support.clients.native import config_of, read_range, rows_of
from tests.support.servers.secure_kafka import STORE_PASSWORD, SecureKafka

pytestmark = pytest.mark.interop

_numbers = itertools.count()


def round_trip(kafka: SecureKafka, listener: str, **options: object) -> None:
    """Write a record and read it, over one listener."""
    topic = f"secure-{listener.lower()}-{next(_numbers)}"
    with Cluster(config_of(kafka.servers(listener), linger_ms=0, **options)) as cluster:
        kafka.cluster.create_topic(topic)
        with Producer(cluster) as producer:
            producer.send(topic, rows_of([Record(key=None, value=b"x" * 200_000), Record(key=None, value=b"secret")]))
        end = list_offsets(cluster, {TopicPartition(topic, 0): LATEST})[TopicPartition(topic, 0)]
        assert [row.value for row in read_range(cluster, TopicPartition(topic, 0), 0, 2)][1] == b"secret"
        assert end.offset == 2


def refusal(kafka: SecureKafka, listener: str, **options: object) -> AuthenticationFailed:
    with (
        Cluster(config_of(kafka.servers(listener), **options)) as cluster,
        pytest.raises(AuthenticationFailed) as caught,
    ):
        cluster.metadata()
    assert STORE_PASSWORD not in str(caught.value)
    return caught.value


def trusting(kafka: SecureKafka) -> dict[str, object]:
    return {"security_protocol": "SSL", "ssl_truststore_certificates": kafka.authority.certificate_pem}


@pytest.mark.feature("security.tlsPem")
def test_pem_text(kafka: SecureKafka) -> None:
    round_trip(kafka, "TLS", **trusting(kafka))


@pytest.mark.feature("security.tlsPem")
@pytest.mark.feature("security.tlsClient")
def test_pem_files_with_an_encrypted_key(kafka: SecureKafka, tmp_path: Path) -> None:
    trust, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    trust.write_text(kafka.authority.certificate_pem)
    own.write_text(kafka.client.encrypted_key_pem("key-hunter2") + kafka.client.chain_pem)
    options = {"ssl_truststore_type": "PEM", "ssl_truststore_location": trust, "ssl_keystore_type": "PEM"}
    more = {"ssl_keystore_location": own, "ssl_key_password": "key-hunter2"}
    round_trip(kafka, "MTLS", security_protocol="SSL", **options, **more)


@pytest.mark.feature("security.tlsStores")
@pytest.mark.feature("security.tlsClient")
def test_stores_of_the_type_jks_made_by_keytool(kafka: SecureKafka) -> None:
    stores = {"ssl_truststore_location": kafka.jks_trust_store(), "ssl_truststore_password": STORE_PASSWORD}
    own = {"ssl_keystore_location": kafka.jks_key_store("key-hunter2"), "ssl_keystore_password": STORE_PASSWORD}
    round_trip(kafka, "MTLS", security_protocol="SSL", ssl_key_password="key-hunter2", **stores, **own)


@pytest.mark.feature("security.tlsStores")
def test_stores_of_the_type_pkcs12(kafka: SecureKafka, tmp_path: Path) -> None:
    trust, own = kafka.directory / "trust.p12", tmp_path / "own.p12"
    own.write_bytes(kafka.client.pkcs12(STORE_PASSWORD))
    stores = {"ssl_truststore_location": trust, "ssl_truststore_password": STORE_PASSWORD}
    keys = {"ssl_keystore_location": own, "ssl_keystore_password": STORE_PASSWORD, "ssl_keystore_type": "PKCS12"}
    round_trip(kafka, "MTLS", security_protocol="SSL", ssl_truststore_type="PKCS12", **stores, **keys)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_each_version_of_tls(kafka: SecureKafka, version: str) -> None:
    round_trip(kafka, "TLS", ssl_enabled_protocols=version, **trusting(kafka))


def test_cipher_suites_by_javas_names(kafka: SecureKafka) -> None:
    round_trip(kafka, "TLS", ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", **trusting(kafka))


def test_an_authority_that_is_not_trusted(kafka: SecureKafka) -> None:
    other = {"security_protocol": "SSL", "ssl_truststore_certificates": Authority("other").certificate_pem}
    assert refusal(kafka, "TLS", **other).option == "ssl.truststore.location"


@pytest.mark.feature("security.tlsHostname")
def test_a_certificate_for_another_host(kafka: SecureKafka) -> None:
    error = refusal(kafka, "ELSEWHERE", **trusting(kafka))
    assert error.option == "ssl.endpoint.identification.algorithm"
    round_trip(kafka, "ELSEWHERE", ssl_endpoint_identification_algorithm="", **trusting(kafka))


@pytest.mark.feature("security.tlsClient")
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_broker_that_wants_a_certificate(kafka: SecureKafka, version: str) -> None:
    error = refusal(kafka, "MTLS", ssl_enabled_protocols=version, **trusting(kafka))
    assert error.option == "ssl.keystore.location"
    stranger = Authority("other").issue("client")
    own = {"ssl_keystore_type": "PEM", "ssl_keystore_key": stranger.key_pem,
           "ssl_keystore_certificate_chain": stranger.chain_pem}  # fmt: skip
    assert (
        refusal(kafka, "MTLS", ssl_enabled_protocols=version, **own, **trusting(kafka)).option
        == "ssl.keystore.location"
    )


def test_tls_where_there_is_none_and_none_where_there_is(kafka: SecureKafka) -> None:
    plain = config_of(kafka.cluster.bootstrap_servers, default_api_timeout_ms=1000, **trusting(kafka))
    with Cluster(plain) as cluster, pytest.raises(BrokerUnreachable, match=r"TLS; security\.protocol is SSL\)$"):
        cluster.metadata()
    encrypted = config_of(kafka.servers("TLS"), default_api_timeout_ms=1000)
    with Cluster(encrypted) as cluster, pytest.raises(BrokerUnreachable, match=r"security\.protocol is PLAINTEXT"):
        cluster.metadata()
