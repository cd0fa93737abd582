import pytest

from spark_kafka_native.client.properties import ConfigError
from spark_kafka_native.client.security.jaas import LoginModule, parse_jaas
from spark_kafka_native.net.secret import Secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def parsed(text: str) -> LoginModule:
    return parse_jaas(Secret(text))


def options(text: str) -> dict[str, str]:
    return {name: value.reveal() for name, value in parsed(text).options.items()}


@pytest.mark.feature("security.jaas")
def test_what_java_reads_is_read() -> None:
    """All its forms are tests of net's parser."""
    text = f'  kafkashaded.{PLAIN}\n  sufficient\n  username = "alice" // who\n  /* and */ password=hunter2;\n'
    assert parsed(text).name == "PlainLoginModule"
    assert options(text) == {"username": "alice", "password": "hunter2"}


@pytest.mark.parametrize("text", ["", f'{PLAIN} required password="hunter2"', f"{PLAIN} required password=hunter2!;"])
def test_forms_that_are_wrong_are_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert caught.value.option == "sasl.jaas.config"
    assert "hunter2" not in str(caught.value)


def test_a_login_module_hides_its_options_and_says_which_it_needs() -> None:
    module = parsed(f'{PLAIN} required username="alice" tokenauth="True";')
    assert "alice" not in repr(module)
    assert module.required("username").reveal() == "alice"
    with pytest.raises(ConfigError, match="PlainLoginModule needs the option password"):
        module.required("password")
