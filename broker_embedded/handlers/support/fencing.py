"""What a transactional producer hears when another has its id: a code of its own, since a version of each API."""

from spark_kafka_native.protocol.errors import ErrorCode, KafkaError


def code_heard(error: KafkaError, version: int, *, fenced_since: int) -> ErrorCode:
    """The error code for a client of ``version``; before ``fenced_since`` it is INVALID_PRODUCER_EPOCH."""
    if error.code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
