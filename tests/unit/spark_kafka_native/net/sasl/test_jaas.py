import pytest

from spark_kafka_native._net.sasl.jaas import JaasError, LoginModule, parse_jaas_file, parse_login_module
from spark_kafka_native._net.secret import Secret

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
@pytest.mark.feature("security.jaas")
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


def test_a_jaas_file_has_sections_of_login_modules() -> None:
    text = f"""
        // of a broker
        KafkaServer {{
            {PLAIN} required
                username="admin" user_alice="a;}}b";
            org.apache.kafka.common.security.scram.ScramLoginModule required debug=true username=x username=y;
        }};
        sasl_plaintext.KafkaServer {{ {PLAIN} required; }};
        Client {{}};
    """
    sections = parse_jaas_file(Secret(text))
    names = {section: [module.name for module in modules] for section, modules in sections.items()}
    assert names == {
        "KafkaServer": ["PlainLoginModule", "ScramLoginModule"],
        "sasl_plaintext.KafkaServer": ["PlainLoginModule"],
        "Client": [],
    }
    users = parse_login_module(sections["KafkaServer"][0].text)
    assert {name: value.reveal() for name, value in users.options.items()} == {
        "username": "admin",
        "user_alice": "a;}b",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("KafkaServer", "KafkaServer does not begin with {"),
        ('KafkaServer "{" };', "KafkaServer does not begin with {"),
        ("{ };", "no section name before {"),
        ("KafkaServer { } Client { };", "KafkaServer does not end with };"),
        ("KafkaServer { };  KafkaServer { };", "KafkaServer twice"),
        (f"KafkaServer {{ {PLAIN} required a=hunter2 }};", "has } where a login module or ; is expected"),
        (f"KafkaServer {{ {PLAIN} required; ; }};", "has ; where a login module"),
        (f"KafkaServer {{ {PLAIN} required a=hunter2;", "KafkaServer does not end with };"),
        (f"KafkaServer {{ {PLAIN} required a=hunter2! }};", "is invalid at character"),
    ],
)
def test_a_jaas_file_that_is_wrong_is_not_repeated(text: str, words: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas_file(Secret(text))
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
