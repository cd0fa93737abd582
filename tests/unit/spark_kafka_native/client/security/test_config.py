import dataclasses
import pickle

import pytest

from spark_kafka_native._client.config_def import properties_of
from spark_kafka_native._client.security.config import SecurityConfig
from spark_kafka_native._net.secret import Secret


def test_defaults_are_plain_connections() -> None:
    config = SecurityConfig()
    assert (config.uses_tls, config.uses_sasl) == (False, False)
    assert config.ssl_endpoint_identification_algorithm == "https"
    assert config.sasl_mechanism == "GSSAPI"


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"), [("SSL", True, False), ("SASL_SSL", True, True), ("SASL_PLAINTEXT", False, True)]
)
def test_protocols(protocol: str, tls: bool, sasl: bool) -> None:
    config = SecurityConfig(security_protocol=protocol)
    assert (config.uses_tls, config.uses_sasl) == (tls, sasl)


def test_a_configuration_is_a_value_whose_secrets_do_not_show() -> None:
    config = SecurityConfig(sasl_jaas_config=Secret("hunter2"), ssl_key_password=Secret("hunter2"))
    assert "hunter2" not in repr(config)
    assert pickle.loads(pickle.dumps(config)) == config == dataclasses.replace(config)
    assert len({config, pickle.loads(pickle.dumps(config))}) == 1


def test_every_field_is_a_property() -> None:
    assert len(properties_of(SecurityConfig)) == len(dataclasses.fields(SecurityConfig))
