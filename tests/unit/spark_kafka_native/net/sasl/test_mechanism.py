import pytest

from spark_kafka_native._net.sasl.mechanism import Mechanism, SaslError
from spark_kafka_native._net.sasl.oauthbearer import BearerToken, OAuthBearer
from spark_kafka_native._net.sasl.plain import Plain
from spark_kafka_native._net.sasl.scram import Scram
from spark_kafka_native._net.secret import Secret


def test_all_mechanisms_are_alike() -> None:
    word = Secret("x")
    mechanisms: list[Mechanism] = [
        Plain("a", word), Scram("SCRAM-SHA-256", "a", word), OAuthBearer(BearerToken(value=word)),
    ]  # fmt: skip
    assert [mechanism.name for mechanism in mechanisms] == ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]
    assert all(mechanism.secrets == (word,) and not mechanism.complete for mechanism in mechanisms)


def test_errors_name_a_property() -> None:
    assert SaslError("x").option == "sasl.jaas.config"
    assert not SaslError("x").retriable


def test_name_and_password_in_one_message() -> None:
    plain = Plain("älice", Secret("hünter2"))
    assert plain.first() == "\0älice\0hünter2".encode()
    assert not plain.complete
    assert plain.reply(b"") is None
    assert plain.complete


@pytest.mark.parametrize(("name", "word"), [("a\0b", "c"), ("a", "c\0d")])
def test_nul_would_change_the_meaning(name: str, word: str) -> None:
    with pytest.raises(SaslError, match="NUL"):
        Plain(name, Secret(word)).first()
