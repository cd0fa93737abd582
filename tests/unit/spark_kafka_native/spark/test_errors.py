import pickle

import pytest

from spark_kafka_native._spark.errors import DataLossError, DataLossKind, PlanError, redacted


@pytest.mark.parametrize(
    "option",
    [
        "kafka.sasl.jaas.config",
        "kafka.ssl.key.password",
        "kafka.sasl.login.Token",
        "client_SECRET",
        "kafka.ssl.keystore.key",
    ],
)
def test_secrets_are_removed_from_errors(option: str) -> None:
    assert redacted("'hunter2' is not valid", option, "hunter2") == "'(hidden)' is not valid"


def test_values_of_other_options_stay_in_errors() -> None:
    assert redacted("'5x' is not an integer", "kafka.linger.ms", "5x") == "'5x' is not an integer"
    assert redacted("is empty", "kafka.ssl.key.password", "") == "is empty"


def test_error_codes_are_in_the_text_and_pickled() -> None:
    loss = DataLossError.of(DataLossKind.OFFSET_CHANGED, "t-0 went back")
    for error in (PlanError("SOME_CODE", "a sentence"), loss):
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error)
        assert again.code == error.code
        assert str(again).startswith(f"[{error.code}] ")
    assert loss.code == "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"
