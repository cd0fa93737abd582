import base64
import hashlib

import pytest

from broker_embedded._security.credentials import ScramCredential, ScramUser
from broker_embedded._security.first_users import FirstUserError, parse_first_users
from spark_kafka_native._net.secret import Secret

SALT = base64.b64encode(b"salt").decode()


def users(text: str) -> dict[ScramUser, str]:
    return {user.user: user.password.reveal() if user.password else "" for user in parse_first_users(Secret(text))}


@pytest.mark.parametrize("between", [" ", ",", "\n", " , "])
def test_scram_users_of_several_options(between: str) -> None:
    text = between.join(
        ("SCRAM-SHA-256=[name=alice,password=a]", 'SCRAM-SHA-512=[name="bob",password="b, ] and more"]')
    )
    assert users(text) == {ScramUser("alice", "SCRAM-SHA-256"): "a", ScramUser("bob", "SCRAM-SHA-512"): "b, ] and more"}


@pytest.mark.parametrize("password", ["a=b", "p@ss/w;ord'", "with blank", "[", "x" * 1000])
def test_scram_passwords_with_special_characters(password: str) -> None:
    assert users(f"SCRAM-SHA-256=[password={password},name=alice]") == {ScramUser("alice", "SCRAM-SHA-256"): password}


def test_text_without_scram_users() -> None:
    assert users("") == users(" \n") == {}


def test_credentials_are_of_the_password() -> None:
    (user,) = parse_first_users(Secret(f"SCRAM-SHA-256=[name=alice,password=hunter2,salt={SALT},iterations=8192]"))
    expected = ScramCredential.of_password("SCRAM-SHA-256", Secret("hunter2"), salt=b"salt", iterations=8192)
    assert user.credential() == expected
    salted = base64.b64encode(hashlib.pbkdf2_hmac("sha256", b"hunter2", b"salt", 8192)).decode()
    (same,) = parse_first_users(
        Secret(f"SCRAM-SHA-256=[name=alice,salt={SALT},saltedpassword={salted},iterations=8192]")
    )
    assert same.credential() == expected


def test_without_iterations_and_salt() -> None:
    (user,) = parse_first_users(Secret("SCRAM-SHA-512=[name=alice,password=hunter2]"))
    made = user.credential()
    assert made.iterations == 4096
    assert made.salt != user.credential().salt
    assert "hunter2" not in repr(user)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hunter2", "the text from character 1 on is not a user"),
        ("SCRAM-SHA-256=name=alice,password=hunter2", "the text from character 1 on is not a user"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2", "the text from character 1 on is not a user"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2] hunter2", "the text from character 44 on is not a user"),
        (f"SCRAM-SHA-256=[name=alice,password={'a=' * 1000}", "the text from character 1 on is not a user"),
        ("PLAIN=[name=alice,password=hunter2]", "PLAIN is not one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("SCRAM-SHA-256=[password=hunter2]", "needs a name"),
        ("SCRAM-SHA-256=[name=alice]", "alice needs either password or saltedpassword"),
        (f"SCRAM-SHA-256=[name=alice,password=hunter2,saltedpassword={SALT}]", "either password or saltedpassword"),
        (f"SCRAM-SHA-256=[name=alice,saltedpassword={SALT}]", "needs the salt"),
        ("SCRAM-SHA-256=[name=alice,salt=hunter2,password=hunter2]", "salt of alice is not base64"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,colour=hunter2]", "colour is not one of name,"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,password=hunter2]", "a user has a repeated option"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,iterations=100]", "not 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=hunter2,iterations=many]", "not 4096 to 16384"),
        (
            "SCRAM-SHA-256=[name=alice,password=hunter2] SCRAM-SHA-256=[name=alice,password=x]",
            "user alice is repeated with mechanism SCRAM-SHA-256",
        ),
    ],
)
def test_errors_do_not_contain_the_password(text: str, words: str) -> None:
    with pytest.raises(FirstUserError, match=words) as caught:
        parse_first_users(Secret(text))
    assert "hunter2" not in str(caught.value)
