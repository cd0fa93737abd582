import pickle

from spark_kafka_native._net.secret import Secret, without_secrets

WORD = "hunter2"


def test_a_secret_does_not_show() -> None:
    secret = Secret(WORD)
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret!r:>20}", repr([secret]), repr({"a": secret})):
        assert WORD not in shown
        assert "hidden" in shown
    assert secret.reveal() == WORD
    assert hash(WORD) != hash(secret)


def test_secrets_are_compared_by_value_and_can_be_pickled() -> None:
    assert Secret(WORD) == Secret(WORD) != Secret("other")
    assert Secret(WORD) != WORD
    assert len({Secret(WORD), Secret(WORD)}) == 1
    assert pickle.loads(pickle.dumps(Secret(WORD))) == Secret(WORD)
    assert bool(Secret(WORD))
    assert not Secret("")


def test_without_secrets_hides_them_in_other_texts() -> None:
    cleaned = without_secrets("no hunter2 and no hunter", Secret("hunter"), Secret(WORD), None, Secret(""))
    assert cleaned == "no (hidden) and no (hidden)"
