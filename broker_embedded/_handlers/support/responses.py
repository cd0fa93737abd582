"""Parts that responses of several APIs share: distinct entries, altered resources, authorized operations, error codes.

An entry that a request repeats is answered once. A response is therefore bounded by a multiple of its request plus the
size of the resources that it describes. Apache Kafka answers each repetition of most of these entries; its clients do
not send repetitions.

Authorized operations (KIP-430) are bits at the positions of Kafka's codes. Without an authorizer, as here, they are all
operations of a resource.
"""

import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from broker_embedded._metadata.config_resources import resource_key
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    EntryT = TypeVar("EntryT", bound=DataclassInstance)
else:
    EntryT = TypeVar("EntryT")

NOT_ASKED: Final = -(2**31)
"""The value if the client did not request authorized operations."""
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe, describe and alter configs."""
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write."""
GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe and alter configs."""


def merge_repeated(entries: Iterable[EntryT], key: Callable[[EntryT], Hashable], *, joined: str) -> tuple[EntryT, ...]:
    """Merge the entries with equal keys, in the order in which the keys occur first.

    The field ``joined`` of a merged entry has the distinct items of all its entries. It is None, which requests
    everything, if it is None in one of them.
    """
    lists: dict[Hashable, dict[Any, None] | None] = {}
    first: dict[Hashable, EntryT] = {}
    for entry in entries:
        name = key(entry)
        first.setdefault(name, entry)
        items, known = getattr(entry, joined), lists.setdefault(name, {})
        if items is None or known is None:
            lists[name] = None
        else:
            known.update(dict.fromkeys(items))
    return tuple(
        dataclasses.replace(entry, **{joined: None if (items := lists[name]) is None else tuple(items)})
        for name, entry in first.items()
    )


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


ResourceT = TypeVar("ResourceT", bound=_Resource)
ResponseT = TypeVar("ResponseT")


async def alter_each(
    resources: Iterable[ResourceT],
    response: Callable[..., ResponseT],
    alter: Callable[[ResourceT], Awaitable[None]],
) -> tuple[ResponseT, ...]:
    """Alter the settings of each resource: a response for each. A resource that a request repeats is not altered."""
    resources = tuple(resources)
    times = Counter(resource_key(each.resource_type, each.resource_name) for each in resources)
    responses = []
    for each in resources:
        kind, name = each.resource_type, each.resource_name
        code, message = ErrorCode.NONE, None
        try:
            if times[resource_key(kind, name)] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await alter(each)
        except KafkaError as error:
            code, message = error.code, error.message
        responses.append(response(error_code=code, error_message=message, resource_type=kind, resource_name=name))
    return tuple(responses)


def producer_error_code(error: KafkaError, version: int, *, fenced_since: int) -> ErrorCode:
    """The error code in ``version``. Before ``fenced_since``, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH."""
    if error.code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
