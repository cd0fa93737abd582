"""Error responses for every API and version, built from the declarations of the messages.

Each requested topic, partition or group is an item of the response, with the error code and nothing else. If a response
has error codes at several levels, an error about partitions is set in the partitions, as a broker does, and any other
error at the highest level.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.schema import FieldSpec, Message, Request, Response, Struct, fields_of

_NAMING: Final = "entity"
"""The list that identifies an item."""
_SOURCES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "coordinators": ("coordinator_keys",),
        _NAMING: (),
        "entries": (),
        "filter_results": ("filters",),
        "groups": ("group_ids",),
        "markers": (),
        "members": (),
        "partition_responses": ("partition_data",),
        "partition_result": ("partitions",),
        "partitions": ("partition_indexes",),
        "replica_election_results": ("topic_partitions",),
        "responses": ("topic_data", "topics", "topic_names", "resources"),
        "results_by_partition": ("partitions",),
        "results_by_topic_v3_and_below": ("v3_and_below_topics",),
        "results_by_transaction": ("transactions",),
        "results": ("dirs", "topics", "creations", "groups_names", "resources", "feature_updates"),
        "topic_results": ("topics",),
        "topics": (),
        "transaction_states": ("transactional_ids",),
    }
)
"""Lists of responses, and the corresponding lists of requests with other names."""
_ALIASES: Final = (
    ("index", "partition", "partition_index", "partition_id"),
    ("name", "topic", "topic_name", "user"),
    ("group_id",),
    ("key",),
    ("log_dir",),
    *(("topic_id",), ("member_id",), ("group_instance_id",), ("feature",), ("transactional_id",), ("producer_id",)),
    *(("resource_type",), ("resource_name",), ("entity_type",), ("entity_name",)),
)
"""Fields that identify an item, by their alternative names."""
_BLANK: Final[Mapping[str, object]] = MappingProxyType(
    {
        **dict.fromkeys(("base_offset", "high_watermark", "low_watermark", "committed_offset"), -1),
        **dict.fromkeys(("leader_id", "node_id", "port", "producer_epoch"), -1),
        "records": b"",
    }
)
"""Values of fields without information, if not the default."""
_KEPT_ABOVE: Final = {"session_id"}
"""The top-level fields of a request that its response repeats."""
_ANSWERED_BY_ITSELF: Final = {"DescribeLogDirs"}
"""APIs whose responses have a list with the name of a requested list, but other items."""
_FILLED_TWICE: Final[Mapping[str, int]] = MappingProxyType(
    {"Fetch": 12, "AlterPartitionReassignments": 0x7FFF, "ElectLeaders": 0x7FFF}
)
"""APIs that repeat the top-level error code in every item, and the last version with it."""

_PARTITION_ERRORS: Final = frozenset(
    {
        *(ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        *(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REPLICA_NOT_AVAILABLE),
        *(ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        *(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.FENCED_LEADER_EPOCH),
        *(ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.OFFSET_NOT_AVAILABLE),
        *(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        *(ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        *(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_ID),
        *(ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE),
    }
)
_MEMBER_ERRORS: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
_ITEM_ERRORS: Final[Mapping[str, frozenset[ErrorCode]]] = MappingProxyType(
    {
        "AddPartitionsToTxn": frozenset(ErrorCode) - {ErrorCode.CLUSTER_AUTHORIZATION_FAILED},
        "LeaveGroup": _MEMBER_ERRORS,
        "Metadata": frozenset(ErrorCode) - {ErrorCode.REBOOTSTRAP_REQUIRED},
    }
)
"""APIs with items that have their own error codes."""
CODES: Final = ("error_code", "partition_error_code")
"""Names of error code fields."""

StructT = TypeVar("StructT", bound=Struct)
ItemT = TypeVar("ItemT", bound=Struct)


def refusal(
    request: Request[Any], version: int, code: ErrorCode, message: str | None = None, *, in_items: bool = False
) -> Response:
    """The response with an error for the whole request, and ``message`` if it has a field for it.

    ``in_items``: the error is about partitions, also if it is usually a top-level one.
    """
    return _Refusing(type(request), version, code, message, in_items=in_items).build(type(request).response, request)


def refused_item(api: type[Message], item: ItemT, version: int, code: ErrorCode) -> ItemT:
    """An item of a response, such as a topic of Metadata, with only its key and the error."""
    return _Refusing(api, version, code, None).build(type(item), item, here=has_code(type(item), version))


def has_code(cls: type[Struct], version: int) -> bool:
    """Whether a message or struct has an error code of its own in a version."""
    return any(spec.name in CODES for spec in present(cls, version))


def has_code_below(cls: type[Struct], version: int) -> bool:
    """Whether a message or struct has an error code in a version, at any level."""
    return has_code(cls, version) or any(_holds_codes(spec, version) for spec in present(cls, version))


def present(cls: type[Struct], version: int) -> tuple[FieldSpec, ...]:
    """The fields that a version of a message or struct has."""
    found = _PRESENT.get((cls, version))
    if found is None:
        found = tuple(spec for spec in fields_of(cls) if version in spec.versions)
        _PRESENT[cls, version] = found
    return found


_PRESENT: Final[dict[tuple[type[Struct], int], tuple[FieldSpec, ...]]] = {}


def _holds_codes(spec: FieldSpec, version: int) -> bool:
    return spec.is_array and spec.struct is not None and has_code_below(spec.struct, version)


class _Refusing:
    """One error in one version of an API's responses."""

    def __init__(
        self, api: type[Message], version: int, code: ErrorCode, message: str | None, *, in_items: bool = False
    ) -> None:
        self._api = api
        self._is_about_items = in_items or code in _ITEM_ERRORS.get(api.api_name, _PARTITION_ERRORS)
        self._is_filled_twice = version <= _FILLED_TWICE.get(api.api_name, -1)
        self._version = version
        self._code = code
        self._message = code.message if message is None else message

    def build(self, cls: type[StructT], source: object, *, here: bool | None = None) -> StructT:
        """A message or struct of a response, for ``source``: its counterpart in the request, or itself.

        ``here``: whether the error code is set in it and not in its items; None computes it.
        """
        values: dict[str, object] = {}
        specs = present(cls, self._version)
        below = {spec.name: items for spec in specs if (items := self._items(spec, source))}
        if here is None:
            here = has_code(cls, self._version) and not (below.keys() - {_NAMING} and self._is_about_items)
        for spec in specs:
            if spec.name in CODES:
                values[spec.name] = self._code if here else ErrorCode.NONE
            elif spec.name == "error_message" and here:
                values[spec.name] = self._message
            elif spec.name in below:
                if not here or spec.name == _NAMING or self._is_filled_twice:
                    assert spec.struct is not None
                    values[spec.name] = tuple(self.build(spec.struct, item) for item in below[spec.name])
            else:
                values.update(self._plain(spec, source, is_top=issubclass(cls, Message)))
        return cls(**values)

    def _items(self, spec: FieldSpec, source: object) -> tuple[object, ...]:
        """The items of the request for a list of the response."""
        if not (_holds_codes(spec, self._version) or spec.name == _NAMING):
            return ()
        if spec.name not in _SOURCES or self._api.api_name in _ANSWERED_BY_ITSELF:
            return ()
        if self._api.api_name == "AlterUserScramCredentials":
            return (*getattr(source, "deletions", ()), *getattr(source, "upsertions", ()))
        for name in (spec.name, *_SOURCES[spec.name]):
            found = getattr(source, name, None)
            if found:
                return tuple(_topics_of_directories(found) if name == "dirs" else found)
        return ()

    def _plain(self, spec: FieldSpec, source: object, *, is_top: bool) -> Mapping[str, object]:
        """The value of a field without a code, unless it is the default."""
        if spec.is_array:
            return {}
        if is_top:
            return {spec.name: getattr(source, spec.name)} if spec.name in _KEPT_ABOVE else self._blank(spec)
        for names in _ALIASES:
            if spec.name in names:
                found = _identity(source, names, spec)
                return {} if found is None and self._version not in spec.nullable else {spec.name: found}
        return self._blank(spec)

    def _blank(self, spec: FieldSpec) -> Mapping[str, object]:
        if spec.name == "protocol_name" and self._version in spec.nullable:
            return {spec.name: None}
        return {spec.name: _BLANK[spec.name]} if spec.name in _BLANK else {}


def _identity(source: object, names: Iterable[str], spec: FieldSpec) -> object:
    """The key of an item: a field with one of these names, or the item itself if it is a name or number."""
    if isinstance(source, Struct):
        return next((getattr(source, name) for name in names if hasattr(source, name)), spec.default)
    return source if isinstance(source, str if spec.primitive == "string" else int) else spec.default


def _topics_of_directories(directories: Iterable[Any]) -> Iterator[object]:
    """The topics of an AlterReplicaLogDirs, which has directories and topics; the response has topics."""
    return (topic for directory in directories for topic in directory.topics)
