import pickle

import pytest

from spark_kafka_native._protocol.errors import (
    ErrorCode,
    KafkaError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    RestatedError,
    check_code,
)


def test_codes_have_no_gap_and_each_a_sentence_of_its_own() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))
    messages = [code.message for code in ErrorCode]
    assert all(messages)
    assert len(set(messages)) == len(messages)


@pytest.mark.parametrize(
    ("code", "name", "retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (0, "NONE", False),
        (1, "OFFSET_OUT_OF_RANGE", False),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True),
        (6, "NOT_LEADER_OR_FOLLOWER", True),
        (7, "REQUEST_TIMED_OUT", True),
        (10, "MESSAGE_TOO_LARGE", False),
        (14, "COORDINATOR_LOAD_IN_PROGRESS", True),
        (19, "NOT_ENOUGH_REPLICAS", True),
        (35, "UNSUPPORTED_VERSION", False),
        (36, "TOPIC_ALREADY_EXISTS", False),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False),
        (46, "DUPLICATE_SEQUENCE_NUMBER", False),
        (47, "INVALID_PRODUCER_EPOCH", False),
        (74, "FENCED_LEADER_EPOCH", True),
        (76, "UNSUPPORTED_COMPRESSION_TYPE", False),
        (100, "UNKNOWN_TOPIC_ID", True),
    ],
)
def test_codes_mean_what_kafka_means(code: int, name: str, retriable: bool) -> None:
    found = ErrorCode.of(code)
    assert (found.name, found.retriable, found == code) == (name, retriable, True)


def test_a_code_from_a_newer_broker_is_an_unknown_error() -> None:
    assert ErrorCode.of(32_000) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_names_its_subject_the_meaning_and_the_code() -> None:
    error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "events-3")
    assert str(error) == f"events-3: {ErrorCode.MESSAGE_TOO_LARGE.message} (MESSAGE_TOO_LARGE, 10)"
    assert str(KafkaError(ErrorCode.MESSAGE_TOO_LARGE)).startswith(ErrorCode.MESSAGE_TOO_LARGE.message)


@pytest.mark.parametrize(
    ("code", "resource"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "this topic"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "this group"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the cluster"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this transactional id"),
    ],
)
def test_an_authorization_error_names_the_missing_permission(code: ErrorCode, resource: str) -> None:
    error = KafkaError(code, "events-3", "Authorization failed.", operation="DESCRIBE")
    assert str(error) == f"events-3: not authorized for DESCRIBE on {resource} ({code.name}, {code.value})"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "DESCRIBE" not in str(KafkaError(ErrorCode.NOT_COORDINATOR, "group g", operation="DESCRIBE"))


def test_an_error_restated_has_the_code_once() -> None:
    error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "events-3")
    restated = RestatedError(error.code, f"commit: {error}")
    assert str(restated) == f"commit: {error}"
    assert restated.retriable


def test_a_subject_that_is_a_sentence_has_no_full_stop_before_the_colon() -> None:
    error = KafkaError(ErrorCode.INVALID_PARTITIONS, "topic t: an invalid non-positive value.")
    assert "an invalid non-positive value: " in str(error)


def test_the_message_for_a_response_is_the_detail_or_else_the_meaning() -> None:
    assert KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too long by 7").message == "too long by 7"
    assert KafkaError(ErrorCode.MESSAGE_TOO_LARGE).message == ErrorCode.MESSAGE_TOO_LARGE.message


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.MESSAGE_TOO_LARGE])
def test_an_error_is_retriable_as_its_code_is_here_and_in_another_process(code: ErrorCode) -> None:
    error = KafkaError(code, "events-3")
    travelled = pickle.loads(pickle.dumps(error))
    assert error.retriable == travelled.retriable == code.retriable
    assert (travelled.code, travelled.detail) == (code, "events-3")


def test_local_and_remote_protocol_errors_are_different_classes() -> None:
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    assert not issubclass(LocalProtocolError, RemoteProtocolError)


def test_check_code_raises_unless_the_code_is_none() -> None:
    check_code(0, "t-0")
    with pytest.raises(KafkaError, match=r"t-0: .*\(INVALID_PRODUCER_EPOCH, "):
        check_code(47, "t-0")


def test_the_message_of_a_response_is_shown_in_place_of_the_meaning_of_its_code() -> None:
    with pytest.raises(KafkaError) as caught:
        check_code(ErrorCode.INVALID_CONFIG, "topic t", "no such config")
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert str(error) == "topic t: no such config (INVALID_CONFIG, 40)"
        assert (error.detail, error.response_message) == ("topic t", "no such config")
