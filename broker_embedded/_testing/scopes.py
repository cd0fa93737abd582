"""Scopes: the part of a request for "topic t, partition 0" or "group g", for every API, from its declaration.

A request is divided into the matching part, which is refused, and the rest, which is served; the two responses are
merged. A request for all topics cannot be divided; the error is then written into the response.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from broker_embedded._testing.refusals import has_code, has_code_below, present, refused_item
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.schema import FieldSpec, Request, Response, Struct, fields_of
from spark_kafka_native._protocol.wire import ZERO_UUID

TopicNames: TypeAlias = Mapping[UUID, str]
"""Names of topics by id."""

_TOPICS: Final = (
    {"topics", "topic_data", "topic_names", "topic_partitions", "responses", "replica_election_results"}
    | {"v3_and_below_topics"}  # of AddPartitionsToTxn
)
_PARTITIONS: Final = {"partitions", "partition_data", "partition_indexes", "partition_responses", "partition_result"}
_GROUPS: Final = {"groups", "group_ids", "groups_names", "coordinator_keys"}
_RESOURCES: Final = {"resources"}
_ABOVE_TOPICS: Final = {"dirs", "markers", "transactions"}
"""Lists of items that have topics."""
_TOPIC_RESOURCE: Final = 2
_GROUP_KEY: Final = 0
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")
_IDENTITY: Final = (*_TOPIC_NAMES, "topic_id", "group_id", "transactional_id", "producer_id")
"""The keys of items that have items."""
_PARTITION_NUMBERS: Final = ("index", "partition", "partition_index", "partition_id")
_ANSWERED_IN_DEPTH: Final = {"Metadata", "DescribeTopicPartitions"}
"""APIs with requests by topic and responses by partition. Clients need the brokers in the responses, so that these
requests are always served, and errors are written into the response."""
_ANSWERED_BY_DIRECTORY: Final = {"DescribeLogDirs"}

StructT = TypeVar("StructT", bound=Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A part of requests. None is any."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether it matches everything."""
        return self == EVERYTHING

    @classmethod
    def of(cls, api: type[Request[Any]]) -> frozenset[str]:
        """The kinds of scopes of an API's requests: some of ``topic``, ``partition`` and ``group``."""
        return _dimensions(api)

    def covers(self, topic: str, partition: int) -> bool:
        """Whether a partition matches."""
        return self.topic in {None, topic} and self.partition in {None, partition}


EVERYTHING: Final = Scope()
"""The scope that matches everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """A divided request: the matching part, and the rest; None if a part is empty.

    ``is_open``: the request is for all topics, or its response has other keys, so that the matching part is known only
    from the response. ``matching`` and ``rest`` are both the whole request then.
    """

    matching: Request[Any] | None
    rest: Request[Any] | None
    is_open: bool = False


def split_request(request: Request[Any], version: int, scope: Scope, names: TopicNames) -> SplitRequest:
    """Divide a request."""
    asked = {item.name for item in dataclasses.fields(scope) if getattr(scope, item.name) is not None}
    if not asked <= _dimensions(type(request)):
        return SplitRequest(matching=None, rest=request)
    if _must_be_served(type(request), version) or _asks_for_all(request, version, scope):
        if _asks_for_all(request, version, scope) or _is_concerned(request, version, scope, names):
            return SplitRequest(matching=request, rest=request, is_open=True)
        return SplitRequest(matching=None, rest=request)
    if scope.is_all:
        return SplitRequest(matching=request, rest=None)
    matching, rest = _Splitter(version, scope, names).split(request)
    return SplitRequest(matching=matching, rest=rest)


def _is_concerned(request: Request[Any], version: int, scope: Scope, names: TopicNames) -> bool:
    """Whether a part of a request that is always served matches."""
    topics = [getattr(request, spec.name) for spec in present(type(request), version) if spec.name in _TOPICS]
    return topics != [()] and _Splitter(version, scope, names).split(request)[0] is not None


def write_into(response: Response, version: int, scope: Scope, names: TopicNames, code: ErrorCode) -> Response:
    """The response with an error for every matching item."""
    if code is ErrorCode.REBOOTSTRAP_REQUIRED and has_code(type(response), version):
        return dataclasses.replace(response, error_code=code)  # type: ignore[type-var]  # every struct is a dataclass
    return _Writing(type(response), version, scope, names, code).into(response)


def join(first: StructT, second: StructT, version: int) -> StructT:
    """Merge two responses: the items of the second are appended to those of the first, or merged with equal topics."""
    changes: dict[str, object] = {}
    for spec in present(type(first), version):
        if spec.is_array and spec.struct is not None and spec.tag is None:
            joined = list(getattr(first, spec.name) or ())
            for item in getattr(second, spec.name) or ():
                place = next((at for at, known in enumerate(joined) if _is_same_item(known, item)), None)
                if place is None:
                    joined.append(item)
                else:
                    joined[place] = join(joined[place], item, version)
            changes[spec.name] = tuple(joined)
    return dataclasses.replace(first, **changes)  # type: ignore[type-var]  # every struct is a dataclass


def _is_same_item(first: Struct, second: Struct) -> bool:
    """Whether two items with items have the same topic, group or transaction."""
    identity = [name for name in _IDENTITY if hasattr(first, name)]
    nests = any(spec.is_array and spec.struct for spec in fields_of(type(first)))
    return nests and bool(identity) and all(getattr(first, name) == getattr(second, name) for name in identity)


def _dimensions(api: type[Request[Any]]) -> frozenset[str]:
    """The kinds of scopes of an API's requests, in any version."""
    known = _DIMENSIONS.get(api.api_key)
    if known is None:
        known = _DIMENSIONS[api.api_key] = frozenset(_find_dimensions(api))
    return known


_DIMENSIONS: Final[dict[int, frozenset[str]]] = {}


def _find_dimensions(api: type[Request[Any]]) -> set[str]:
    found: set[str] = set()
    specs = {spec.name: spec for spec in fields_of(api)}
    if specs.keys() & _GROUPS or {"group_id", "key_type"} & specs.keys():
        found.add("group")
    if _answers_by_topic(api) or specs.keys() & _RESOURCES:
        found.add("topic")
        if api.api_name in _ANSWERED_IN_DEPTH or _names_partitions(api):
            found.add("partition")
    return found


def _answers_by_topic(api: type[Request[Any]]) -> bool:
    """Whether a response can have an error of one topic."""
    if api.api_name in _ANSWERED_BY_DIRECTORY:
        return False
    asks = any(spec.name in _TOPICS | _ABOVE_TOPICS or _names_topics_below(spec) for spec in fields_of(api))
    versions = range(api.min_version, api.max_version + 1)
    return asks and any(_has_topic_items(api.response, version) for version in versions)


def _names_topics_below(spec: FieldSpec) -> bool:
    return spec.struct is not None and any(below.name in _TOPICS for below in fields_of(spec.struct))


def _has_topic_items(cls: type[Struct], version: int) -> bool:
    for spec in present(cls, version):
        if not spec.is_array or spec.struct is None:
            continue
        names = {below.name for below in fields_of(spec.struct)}
        if names & {*_TOPIC_NAMES, "topic_id"} and has_code_below(spec.struct, version):
            return True
        if _has_topic_items(spec.struct, version):
            return True
    return False


def _names_partitions(cls: type[Struct]) -> bool:
    return any(
        spec.name in _PARTITIONS or (spec.struct is not None and spec.is_array and _names_partitions(spec.struct))
        for spec in fields_of(cls)
    )


def _must_be_served(api: type[Request[Any]], version: int) -> bool:
    """Whether an error can be written only into the broker's response."""
    return api.api_name in _ANSWERED_IN_DEPTH or (api.api_name in _ANSWERED_BY_DIRECTORY and version < 3)


def _asks_for_all(request: Request[Any], version: int, scope: Scope) -> bool:
    """Whether the scope has a topic and the request is for all topics."""
    if scope.is_all and not _must_be_served(type(request), version):
        return False
    if type(request).api_name == "Metadata" and version == 0:
        return not request.topics  # type: ignore[attr-defined]  # it is a MetadataRequest
    return _has_no_list(request, version)


def _has_no_list(value: Struct, version: int) -> bool:
    for spec in present(type(value), version):
        if not spec.is_array:
            continue
        items = getattr(value, spec.name)
        if spec.name in _TOPICS and items is None:
            return True
        if spec.name in _GROUPS and spec.struct is not None and any(_has_no_list(item, version) for item in items):
            return True
    return False


class _Splitter:
    """Divides requests of one version by one scope."""

    def __init__(self, version: int, scope: Scope, names: TopicNames) -> None:
        self._version = version
        self._scope = scope
        self._names = names

    def split(self, request: Request[Any]) -> tuple[Any, Any]:
        """The matching part, and the rest."""
        scope = self._scope
        if scope.group is None:
            return self.by_topic(request)
        if getattr(request, "key_type", _GROUP_KEY) != _GROUP_KEY:
            return None, request
        groups = self._list_in(request, _GROUPS)
        if groups is None:
            named = getattr(request, "key" if hasattr(request, "key") else "group_id")
            return self._within_group().split(request) if named == scope.group else (None, request)
        return self._by_items(request, groups, self._split_group)

    def _within_group(self) -> "_Splitter":
        return _Splitter(self._version, dataclasses.replace(self._scope, group=None), self._names)

    def _split_group(self, group: object) -> tuple[object, object]:
        if isinstance(group, str):
            return (group, None) if group == self._scope.group else (None, group)
        if getattr(group, "group_id", None) != self._scope.group:
            return None, group
        return self._within_group().by_topic(group)

    def by_topic(self, value: Any) -> tuple[Any, Any]:
        """The matching part and the rest of a request or of a group in it, for any group."""
        if self._scope.topic is None and self._scope.partition is None:
            return value, None
        for lists, split in (
            (_TOPICS, self._split_topic),
            (_ABOVE_TOPICS, self.by_topic),
            (_RESOURCES, self._split_resource),
            (_GROUPS, self.by_topic),
        ):
            found = self._list_in(value, lists)
            if found is not None:
                return self._by_items(value, found, split)
        return value, None  # a group with a request for all topics

    def _split_topic(self, topic: object) -> tuple[object, object]:
        if self._scope.topic is not None and _topic_name(topic, self._names) != self._scope.topic:
            return None, topic
        partitions = self._list_in(topic, _PARTITIONS)
        if self._scope.partition is None or partitions is None:
            return topic, None
        return self._by_items(topic, partitions, self._split_partition)

    def _split_partition(self, partition: object) -> tuple[object, object]:
        return (partition, None) if _partition_number(partition) == self._scope.partition else (None, partition)

    def _split_resource(self, resource: Any) -> tuple[object, object]:
        is_matching = resource.resource_type == _TOPIC_RESOURCE and resource.resource_name == self._scope.topic
        return (resource, None) if is_matching else (None, resource)

    def _list_in(self, value: object, names: set[str]) -> str | None:
        """The name of the first of these lists that a struct has in this version, and that is not None."""
        if not isinstance(value, Struct):
            return None
        for spec in present(type(value), self._version):
            if spec.is_array and spec.name in names:
                return spec.name if getattr(value, spec.name) is not None else None
        return None

    def _by_items(self, value: Any, name: str, split: Callable[[Any], tuple[Any, Any]]) -> tuple[Any, Any]:
        """A struct divided by the items of one of its lists."""
        parts = [split(item) for item in getattr(value, name)]
        matching = tuple(part for part, _ in parts if part is not None)
        rest = tuple(part for _, part in parts if part is not None)
        if not matching or not rest:
            return (value, None) if matching else (None, value)
        return dataclasses.replace(value, **{name: matching}), dataclasses.replace(value, **{name: rest})


class _Writing:
    """Writes one error into responses of one version of an API."""

    def __init__(self, api: type[Response], version: int, scope: Scope, names: TopicNames, code: ErrorCode) -> None:
        self._api = api
        self._version = version
        self._scope = scope
        self._names = names
        self._code = code

    def into(self, value: StructT) -> StructT:
        """The response, or an item of it, with the error in all matching items."""
        changes = {
            spec.name: tuple(self._item(item) for item in getattr(value, spec.name))
            for spec in present(type(value), self._version)
            if spec.is_array
            and spec.struct is not None
            and has_code_below(spec.struct, self._version)
            and getattr(value, spec.name) is not None
        }
        return dataclasses.replace(value, **changes)  # type: ignore[type-var]  # every struct is a dataclass

    def _item(self, item: Any) -> Any:
        scope = self._scope
        number = _partition_number(item)
        if number is not None:
            return self._refused(item) if scope.partition in {None, number} else item
        if hasattr(item, "group_id"):
            return self.into(item) if scope.group in {None, item.group_id} else item
        if scope.topic is not None and _topic_name(item, self._names) != scope.topic:
            return item
        return self._refused(item) if scope.partition is None else self.into(item)

    def _refused(self, item: Any) -> Any:
        return refused_item(self._api, item, self._version, self._code)


def _topic_name(topic: object, names: TopicNames) -> str | None:
    """The name of a topic in a request or response, which may be a text, or a struct with a name or an id."""
    if isinstance(topic, str):
        return topic
    name = next((getattr(topic, name) for name in _TOPIC_NAMES if hasattr(topic, name)), None)
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    return name or names.get(topic_id)


def _partition_number(partition: object) -> int | None:
    """A partition's number, which may be in a struct; None if it is not a partition."""
    if isinstance(partition, int):
        return partition
    return next((getattr(partition, name) for name in _PARTITION_NUMBERS if hasattr(partition, name)), None)
