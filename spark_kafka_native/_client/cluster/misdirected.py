"""Responses of a broker that is not the one that a request is for.

With ``broker.addresses=bootstrap`` a connection ends at any of the brokers, which a layer-4 load balancer chooses. The
error code shows that it is another one than the leader, coordinator or controller. Pure.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from spark_kafka_native._protocol.errors import ErrorCode

MISDIRECTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_CONTROLLER})


def is_misdirected(response: object) -> bool:
    """Whether a response, or any item in it, has one of these error codes."""
    return any(code in MISDIRECTED for code in _error_codes(response))


def _error_codes(value: Any) -> Iterator[int]:
    if isinstance(value, tuple):
        for item in value:
            yield from _error_codes(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found = getattr(value, field.name)
            if field.name == "error_code":
                yield found
            elif isinstance(found, tuple) or dataclasses.is_dataclass(found):
                yield from _error_codes(found)
