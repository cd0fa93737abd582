"""The quota of a client: the most specific one, in Apache Kafka's order. Pure.

1  this user with this client id            5  any user with any client id
2  this user with any client id             6  any user
3  this user                                7  this client id
4  any user with this client id             8  any client id
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from broker_embedded._quotas.entities import CLIENT_ID, USER, ClientQuotaEntity

Owner: TypeAlias = tuple[str | None, str | None]
"""User and client id, of an entity or of the clients that share an allowance: None is any, empty is ignored."""

_ANY: Final = None
_UNSAID: Final = ""
NOT_LIMITED: Final = float("inf")


class QuotaLimits:
    """The values of one kind of quota."""

    def __init__(self, values: Mapping[ClientQuotaEntity, float]) -> None:
        self._values = {(entity.get(USER), entity.get(CLIENT_ID)): value for entity, value in values.items()}

    def owner(self, user: str, client_id: str) -> Owner:
        """The clients that share an allowance: one, all clients of the user, or all users of the client id."""
        values = self._values
        if (user, client_id) in values or (user, _ANY) in values:
            return user, client_id
        if (user, _UNSAID) in values:
            return user, _UNSAID
        if (_ANY, client_id) in values or (_ANY, _ANY) in values:
            return user, client_id
        if (_ANY, _UNSAID) in values:
            return user, _UNSAID
        return _UNSAID, client_id

    def of(self, owner: Owner) -> float:
        """The quota of an owner, infinity if there is none."""
        user, client_id = owner
        if user and client_id:
            candidates = [(user, client_id), (user, _ANY), (_ANY, client_id), (_ANY, _ANY)]
        elif user:
            candidates = [(user, _UNSAID), (_ANY, _UNSAID)]
        elif client_id:
            candidates = [(_UNSAID, client_id), (_UNSAID, _ANY)]
        else:
            candidates = []
        return next((self._values[key] for key in candidates if key in self._values), NOT_LIMITED)
