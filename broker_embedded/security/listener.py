"""How clients log in on one listener."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_kafka_native.net.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """The mechanisms that it has, and what they need.

    ``max_reauth_ms``: how long a login lasts, by mechanism; 0 is for ever. ``max_receive_bytes``: the largest frame of
    a client that has not logged in.
    """

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, Secret] = field(default_factory=dict)
    max_reauth_ms: Mapping[str, int]
    max_receive_bytes: int
