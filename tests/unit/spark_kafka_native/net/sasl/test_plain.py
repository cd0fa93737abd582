import pytest

from spark_kafka_native.net.sasl.mechanism import SaslError
from spark_kafka_native.net.sasl.plain import Plain
from spark_kafka_native.net.secret import Secret


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
