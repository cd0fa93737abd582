import pickle

import pytest

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError, is_fenced, is_refused


def test_error_kind_is_in_the_text_and_pickled() -> None:
    error = ExactlyOnceError(ErrorKind.LOST, "a sentence")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "[PYKAFKA_EXACTLY_ONCE.LOST] a sentence"
    assert again.kind is ErrorKind.LOST


@pytest.mark.parametrize(
    ("code", "fenced", "refused"),
    [
        (ErrorCode.PRODUCER_FENCED, True, True),
        (ErrorCode.INVALID_PRODUCER_EPOCH, True, True),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, True),
        (ErrorCode.INVALID_TXN_STATE, False, True),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, False, True),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, False),
        (ErrorCode.REQUEST_TIMED_OUT, False, False),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, False, False),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False, False),
    ],
)
def test_error_codes_of_fenced_and_refused(code: ErrorCode, fenced: bool, refused: bool) -> None:
    assert (is_fenced(KafkaError(code)), is_refused(KafkaError(code))) == (fenced, refused)
