"""GSSAPI against Apache Kafka with tickets of a real Kerberos server, of this machine or of Debian's packages."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.interface import Record
from tests.support.clients.native import config_of, read_range, rows_of
from tests.support.java import QUICK_START
from tests.support.programs.toolchains import ToolMissing
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable
from tests.support.servers.kdc import REALM, provide_gssapi, realm

pytestmark = pytest.mark.interop

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.feature("security.gssapi")
def test_tickets_of_a_keytab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_if(apache_kafka_unavailable())
    with ExitStack() as stack:
        try:
            provide_gssapi(monkeypatch)
            kerberos = stack.enter_context(realm(tmp_path))
        except ToolMissing as error:
            pytest.skip(str(error))
        service, alice = kerberos.keytab("kafka/127.0.0.1"), kerberos.keytab("alice")
        login = f'{MODULE} useKeyTab=true storeKey=true keyTab="{service}" principal="kafka/127.0.0.1@{REALM}";'
        settings = {
            "listener.name.krb.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.krb.gssapi.sasl.jaas.config": login,
            "listener.name.krb.sasl.kerberos.service.name": "kafka",
        }
        jvm = (*QUICK_START, f"-Djava.security.krb5.conf={kerberos.config}")
        with ApacheKafka(settings=settings, listeners={"KRB": "SASL_PLAINTEXT"}, jvm_options=jvm) as kafka:
            monkeypatch.setenv("KRB5_CONFIG", str(kerberos.config))
            kafka.create_topic("t")
            options = {"security_protocol": "SASL_PLAINTEXT", "sasl_kerberos_service_name": "kafka", "linger_ms": 0}
            jaas = f'{MODULE} useKeyTab=true keyTab="{alice}" principal="alice@{REALM}";'
            servers = kafka.servers_of("KRB")
            with Cluster(config_of(servers, sasl_jaas_config=jaas, **options)) as cluster:
                with Producer(cluster) as producer:
                    producer.send("t", rows_of([Record(key=None, value=b"secret")]))
                assert [row.value for row in read_range(cluster, TopicPartition("t", 0), 0, 1)] == [b"secret"]
            unknown = config_of(servers, sasl_jaas_config=jaas.replace("alice@", "unknown@"), **options)
            with Cluster(unknown) as cluster, pytest.raises(AuthenticationFailed, match=r"no ticket for kafka/127\.0"):
                cluster.metadata()
