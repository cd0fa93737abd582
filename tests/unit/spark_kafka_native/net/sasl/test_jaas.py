import pytest

from spark_kafka_native.net.sasl.jaas import JaasError, LoginModule, parse_login_module
from spark_kafka_native.net.secret import Secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def parsed(text: str) -> LoginModule:
    return parse_login_module(Secret(text))


def options(text: str) -> dict[str, str]:
    return {name: value.reveal() for name, value in parsed(text).options.items()}


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} required username="alice" password="hunter2";',
        f"{PLAIN} REQUIRED username='alice' password='hunter2' ;",
        f'  kafkashaded.{PLAIN}\n  sufficient\n  username = "alice" // who\n  /* and */ password=hunter2;\n',
    ],
)
def test_forms_that_java_reads(text: str) -> None:
    assert parsed(text).name == "PlainLoginModule"
    assert options(text) == {"username": "alice", "password": "hunter2"}


@pytest.mark.parametrize(
    ("value", "meaning"),
    [(r"a\"b", 'a"b'), (r"a\\b", r"a\b"), (r"a\nb", "a\nb"), (r"\101", "A"), ("a;b=c//d", "a;b=c//d"), ("", "")],
)
def test_values_in_quotes(value: str, meaning: str) -> None:
    assert options(f'{PLAIN} required password="{value}";') == {"password": meaning}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        f"{PLAIN} required",
        f'{PLAIN} required password="hunter2"',
        f'{PLAIN} maybe password="hunter2";',
        f'{PLAIN} required password="hunter2" username;',
        f'{PLAIN} required password = = "hunter2";',
        f'{PLAIN} required "password"= ;',
        f'{PLAIN} required password="hunter2" password="hunter2";',
        f'{PLAIN} required password="hunter2"; {PLAIN} required password="hunter2";',
        f'{PLAIN} required password="hunter2;',
        f"{PLAIN} required password=hunter2!;",
        f'{PLAIN} required password="hunter2";;',
    ],
)
def test_forms_that_are_wrong_are_not_repeated(text: str) -> None:
    with pytest.raises(JaasError) as caught:
        parsed(text)
    assert "hunter2" not in str(caught.value)


def test_a_login_module_hides_its_options() -> None:
    module = parsed(f'{PLAIN} required username="alice" tokenauth="True";')
    assert "alice" not in repr(module)
    assert module.text("username") == "alice"
    assert module.text("other") is None
    assert module.is_true("tokenauth")
    assert not module.is_true("other")
