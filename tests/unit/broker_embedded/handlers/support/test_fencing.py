"""The codes that producers of every age hear when another has their id."""

import pytest

from broker_embedded.handlers.support.fencing import code_heard
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError

OLD, FENCED = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(("version", "code"), [(1, OLD), (2, FENCED), (3, FENCED)])
def test_who_is_fenced_hears_it_in_the_words_of_its_version(version: int, code: ErrorCode) -> None:
    assert code_heard(KafkaError(FENCED), version, fenced_since=2) is code


def test_other_codes_are_the_same_in_all_versions() -> None:
    assert code_heard(KafkaError(ErrorCode.INVALID_TXN_STATE), 0, fenced_since=2) is ErrorCode.INVALID_TXN_STATE
