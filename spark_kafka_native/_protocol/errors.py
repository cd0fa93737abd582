"""Kafka's error codes, with what each means and whether a later try may succeed, and the exceptions that carry them.

Codes, names and retriability are those of Apache Kafka 4.3; the sentences are ours.
"""

import functools
from enum import IntEnum
from typing import Any, ClassVar, Final, Self


class ErrorCode(IntEnum):
    """A code in a response. ``retriable``: the same request may succeed later, after a metadata refresh or a pause."""

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str, retriable: bool = False) -> Self:
        """A member of the table below."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    @classmethod
    def of(cls, code: int) -> "ErrorCode":
        """The member for a code from the wire; a code from a newer broker becomes UNKNOWN_SERVER_ERROR."""
        return _BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = -1, "the broker met an error that it has no code for"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is outside the range that the partition holds"
    CORRUPT_MESSAGE = 2, "a record batch failed its checksum, has a bad size, or lacks a key on a compacted topic", True
    UNKNOWN_TOPIC_OR_PARTITION = 3, "the broker does not have this topic-partition", True
    INVALID_FETCH_SIZE = 4, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", True
    NOT_LEADER_OR_FOLLOWER = 6, "this broker is not the partition's leader, or not one of its replicas", True
    REQUEST_TIMED_OUT = 7, "the broker could not finish the request in time", True
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available for this topic-partition", True
    MESSAGE_TOO_LARGE = 10, "a record batch is larger than the broker or topic accepts (max.message.bytes)"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved to another broker"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata string of an offset commit is too long"
    NETWORK_EXCEPTION = 13, "the connection was lost before a response came", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its state", True
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available", True
    NOT_COORDINATOR = 16, "this broker is not the coordinator", True
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is not valid, or the topic may not be used this way"
    RECORD_LIST_TOO_LARGE = 18, "the record batches together are larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas asks for", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "the records were appended, but to fewer in-sync replicas than required",
        True,
    )
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member's protocols have nothing in common with the group's"
    INVALID_GROUP_ID = 24, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "the group does not know this member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the broker's bounds"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing; join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the committed offset's data is too large"
    TOPIC_AUTHORIZATION_FAILED = 29, "not authorized for this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not authorized for this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not authorized for this operation on the cluster"
    INVALID_TIMESTAMP = 32, "a record's timestamp is outside the range that the topic accepts"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "this request is not valid at this point of the SASL exchange"
    UNSUPPORTED_VERSION = 35, "the broker does not support this version of the API"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists already"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or larger than the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "a configuration value is not valid"
    NOT_CONTROLLER = 41, "this broker is not the controller", True
    INVALID_REQUEST = 42, "the request is malformed or contradicts itself"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the topic's message format does not support this request"
    POLICY_VIOLATION = 44, "the request breaks a policy of the cluster"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the producer's sequence number is not the next one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the broker has these records already"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is older than the broker's"
    INVALID_TXN_STATE = 48, "the transaction is not in a state that allows this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is larger than the broker allows"
    CONCURRENT_TRANSACTIONS = 51, "the producer's previous transaction is still being completed", True
    TRANSACTION_COORDINATOR_FENCED = 52, "a newer transaction coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized for this transactional id"
    SECURITY_DISABLED = 54, "the broker has no security features enabled"
    OPERATION_NOT_ATTEMPTED = 55, "the operation was not attempted, because another one in the request failed"
    KAFKA_STORAGE_ERROR = 56, "the broker could not read or write its disk", True
    LOG_DIR_NOT_FOUND = 57, "the broker does not have this log directory"
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "the broker has no record of this producer id any more"
    REASSIGNMENT_IN_PROGRESS = 60, "a partition reassignment is in progress"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the delegation token is not known"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the principal is neither owner nor renewer of the delegation token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens cannot be requested over this kind of connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the broker does not have this fetch session", True
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session's epoch is not the next one", True
    LISTENER_NOT_FOUND = 72, "the leader has no listener of the name that the request came in by", True
    TOPIC_DELETION_DISABLED = 73, "topics may not be deleted on this cluster (delete.topic.enable)"
    FENCED_LEADER_EPOCH = 74, "the request carries an older leader epoch than the broker's", True
    UNKNOWN_LEADER_EPOCH = 75, "the request carries a newer leader epoch than the broker knows", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "this version of the API cannot carry the batch's compression type"
    STALE_BROKER_EPOCH = 77, "the broker's registration has been replaced"
    OFFSET_NOT_AVAILABLE = 78, "the new leader has not caught up to its high watermark yet", True
    MEMBER_ID_REQUIRED = 79, "join again with the member id in this response"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", True
    GROUP_MAX_SIZE_REACHED = 81, "the group has its largest number of members"
    FENCED_INSTANCE_ID = 82, "another member has taken this static instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may lead the partition is available", True
    ELECTION_NOT_NEEDED = 84, "the partition needs no leader election", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no partition reassignment is in progress"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to the topic"
    INVALID_RECORD = 87, "a record failed the broker's validation"
    UNSTABLE_OFFSET_COMMIT = 88, "offsets of an open transaction are not decided yet", True
    THROTTLING_QUOTA_EXCEEDED = 89, "a quota is used up for now", True
    PRODUCER_FENCED = 90, "a newer producer with the same transactional id has taken over"
    RESOURCE_NOT_FOUND = 91, "the resource does not exist"
    DUPLICATE_RESOURCE = 92, "the request names a resource twice, or it exists already"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, "the voters differ between the sender and the receiver"
    INVALID_UPDATE_VERSION = 95, "the feature's version is not valid"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "a forwarded request's principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, "the snapshot does not exist"
    POSITION_OUT_OF_RANGE = 99, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "the broker does not know this topic id", True
    DUPLICATE_BROKER_REGISTRATION = 101, "the broker id is already registered"
    BROKER_ID_NOT_REGISTERED = 102, "the broker id is not registered"
    INCONSISTENT_TOPIC_ID = 103, "the log's topic id is not the one in the request", True
    INCONSISTENT_CLUSTER_ID = 104, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixed topic ids and topic names", True
    INELIGIBLE_REPLICA = 107, "the replica may not join the in-sync set"
    NEW_LEADER_ELECTED = 108, "the request led to the election of a new leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset has moved to tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the group has fenced this member; it must rejoin"
    UNRELEASED_INSTANCE_ID = 111, "another member still holds the instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, "the member's epoch is old; try again with the new one"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request came to the wrong kind of endpoint"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this kind of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "the controller id is not known"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the client's telemetry subscription is out of date"
    TELEMETRY_TOO_LARGE = 118, "the client pushed more telemetry than the broker accepts"
    INVALID_REGISTRATION = 119, "the broker's registration is not valid"
    TRANSACTION_ABORTABLE = 120, "the transaction can only be aborted"
    INVALID_RECORD_STATE = 121, "the acquired record is not in a state that allows this"
    SHARE_SESSION_NOT_FOUND = 122, "there is no such share session", True
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session's epoch is not the next one", True
    FENCED_STATE_EPOCH = 124, "the share coordinator's state epoch is newer"
    INVALID_VOTER_KEY = 125, "the voter key is not the receiver's"
    DUPLICATE_VOTER = 126, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "the client's metadata is out of date; start again from bootstrap.servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the streams topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the streams topology's epoch is old"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has its largest number of share sessions", True


_BY_CODE: Final = {code.value: code for code in ErrorCode}
AUTHORIZATION_ERRORS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this transactional id",
}
"""What the user is not authorized for, by the code of the error."""


class ProtocolError(Exception):
    """The bytes or the use of the protocol are wrong, ours or theirs."""


class LocalProtocolError(ProtocolError):
    """A message that the protocol, or the version in use, cannot carry. Nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent malformed bytes. The connection must be closed."""


class PicklableError(Exception):
    """An error that is pickled as the arguments that it was made with: Spark's workers and driver exchange errors."""

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        """Keep the arguments for pickling."""
        error = super().__new__(cls, *arguments, **keywords)
        error._made_with = arguments, keywords
        return error

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __reduce__(self) -> tuple[Any, ...]:
        arguments, keywords = self._made_with
        return functools.partial(type(self), **keywords), arguments


class KafkaError(PicklableError):
    """An error code of a broker, or of the client about a broker.

    ``detail`` names the topic-partition, group or option; ``str()`` has the code's name and meaning, too, or
    ``response_message``, which a response has of its own, in place of the meaning. ``operation`` is the ACL operation
    that the request needs, such as WRITE: an authorization error names it.
    """

    _retriable: ClassVar[bool | None] = None
    """Whether a later try may succeed; None: as for the code."""
    _shows_code: ClassVar[bool] = True

    def __init__(self, code: ErrorCode, detail: str = "", response_message: str = "", *, operation: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.response_message = response_message
        self.operation = operation

    @property
    def retriable(self) -> bool:
        """Whether a later try may succeed."""
        return self.code.retriable if self._retriable is None else self._retriable

    @property
    def message(self) -> str:
        """The error message of a response: the detail, or the meaning of the code."""
        return self.detail or self.code.message

    def __str__(self) -> str:
        if not self._shows_code:
            return self.detail
        subject = f"{self.detail.removesuffix('.')}: " if self.detail else ""
        meaning = self.response_message or self.code.message
        if self.operation and self.code in AUTHORIZATION_ERRORS:
            meaning = f"not authorized for {self.operation} on {AUTHORIZATION_ERRORS[self.code]}"
        return f"{subject}{meaning} ({self.code.name}, {self.code.value})"


class RestatedError(KafkaError):
    """An error made from another one: ``detail`` is the whole text, which has the code and its meaning already."""

    _shows_code = False


def check_code(error_code: int, detail: str, message: str | None = None, *, operation: str = "") -> None:
    """Raise KafkaError about ``detail`` unless the code of a response is NONE. ``message`` is the response's.

    ``operation``: as of KafkaError.
    """
    code = ErrorCode.of(error_code)
    if code is not ErrorCode.NONE:
        raise KafkaError(code, detail, message or "", operation=operation)


def counted(count: int, noun: str) -> str:
    """A number and its noun, for a message: ``1 record``, ``2,000 records``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
