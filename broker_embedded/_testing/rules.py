"""Faults as values. Pure.

    {"action": "fail", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2, "topic": "t", "partition": 0}
    {"action": "delay", "api": "Fetch", "ms": 500}
    {"action": "drop", "api": "*", "when": "after", "on_call": 3}

A `Rule` is parsed from such a mapping. An `ActiveFault` is a rule with its counts.
"""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from broker_embedded._testing.fields import FieldError, Fields
from broker_embedded._testing.scopes import EVERYTHING, Scope
from spark_kafka_native._protocol import messages
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.nearest import did_you_mean
from spark_kafka_native._protocol.schema import Request

ANY_API: Final = "*"
FAIL: Final = "fail"
DELAY: Final = "delay"
DROP: Final = "drop"
_ACTIONS: Final = (FAIL, DELAY, DROP)
BEFORE: Final = "before"
AFTER: Final = "after"
_MOMENTS: Final = (BEFORE, AFTER)
_API_VERSIONS: Final = "ApiVersions"
_LONGEST_DELAY_MS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault and the requests that it affects.

    ``errors`` are used in order, one per request, and only by ``fail``. ``times`` None is unlimited. ``on_call`` is the
    number of the first affected request, from 1. ``probability`` selects the same requests in every run with the same
    ``seed``.
    """

    action: str
    api: str
    errors: tuple[ErrorCode, ...] = ()
    message: str | None = None
    ms: int = 0
    when: str = BEFORE
    scope: Scope = EVERYTHING
    client_id: str | None = None
    times: int | None = None
    on_call: int = 1
    probability: float = 1.0
    seed: int = 0

    @classmethod
    def parse(cls, given: Fields) -> Self:
        """Parse a rule. Raises FieldError."""
        action = given.one_of("action", _ACTIONS)
        api = given.text("api")
        if api != ANY_API:
            check_api(api)
        errors = _errors(given) if action == FAIL else ()
        once = 1 if "on_call" in given else None
        rule = cls(
            action=action,
            api=api,
            errors=errors,
            message=given.text("message", None) if action == FAIL else None,
            ms=given.integer("ms", least=0, most=_LONGEST_DELAY_MS) if action == DELAY else 0,
            when=given.one_of("when", _MOMENTS, BEFORE) if action != FAIL else BEFORE,
            scope=scope_of(given, api),
            client_id=given.text("client_id", None),
            times=given.integer("times", len(errors) if len(errors) > 1 else once, least=1),
            on_call=given.integer("on_call", 1, least=1),
            probability=given.probability("probability"),
            seed=given.integer("seed", 0),
        )
        given.refuse_rest(f"a fault of the kind {action}")
        rule._check()
        return rule

    def _check(self) -> None:
        if len(self.errors) > 1 and self.times != len(self.errors):
            raise FieldError("times", f"{len(self.errors)} errors are given one after the other, each once")
        if self.action == FAIL and self.api == _API_VERSIONS and ErrorCode.UNSUPPORTED_VERSION in self.errors:
            raise FieldError("error", "a broker of another release does this by itself: see the setting as.version")

    def to_fields(self) -> dict[str, Any]:
        """The fields of the rule, without defaults."""
        fields: dict[str, Any] = {"action": self.action, "api": self.api}
        if len(self.errors) == 1:
            fields["error"] = self.errors[0].name
        elif self.errors:
            fields["errors"] = [code.name for code in self.errors]
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if item.name not in {"action", "api", "errors", "scope"} and value != item.default:
                fields[item.name] = value
        if self.action == DELAY:
            fields["ms"] = self.ms
        for name in ("topic", "partition", "group"):
            if getattr(self.scope, name) is not None:
                fields[name] = getattr(self.scope, name)
        return fields

    def is_about(self, api: type[Request[Any]], client_id: str) -> bool:
        """Whether requests of an API from a client can match.

        Clients give up after an error in ApiVersions, so that ``fail`` with API ``*`` does not match it.
        """
        if self.api == ANY_API and self.action == FAIL and api.api_name == _API_VERSIONS:
            return False
        return self.api in {ANY_API, api.api_name} and self.client_id in {None, client_id}


class ActiveFault:
    """A rule with counts: ``calls`` of matching requests, ``hits`` of affected ones."""

    def __init__(self, id_: int, rule: Rule) -> None:
        self.id = id_
        self.rule = rule
        self.calls = 0
        self.hits = 0
        self._random = random.Random(rule.seed)

    @property
    def is_spent(self) -> bool:
        """Whether it has no effect any more."""
        return self.rule.times is not None and self.hits >= self.rule.times

    def count_call(self) -> bool:
        """Count a matching request; whether it is affected."""
        self.calls += 1
        if self.is_spent or self.calls < self.rule.on_call:
            return False
        if self.rule.probability < 1.0 and self._random.random() >= self.rule.probability:
            return False
        self.hits += 1
        return True

    @property
    def error(self) -> ErrorCode:
        """The error for the last affected request."""
        return self.rule.errors[min(self.hits, len(self.rule.errors)) - 1]

    def to_fields(self) -> dict[str, Any]:
        """The rule and its counts."""
        return {"id": self.id, **self.rule.to_fields(), "calls": self.calls, "hits": self.hits, "spent": self.is_spent}


def check_api(name: str) -> None:
    """Raise FieldError if there is no API of this name."""
    names = [request.api_name for request in messages.all_requests().values()]
    if name not in names:
        raise FieldError("api", f"{name!r} is not an API of Kafka{did_you_mean(name, names)}")


def scope_of(given: Fields, api: str = ANY_API) -> Scope:
    """The scope within requests of an API. Raises FieldError: the API has no such parts."""
    topic, group = given.text("topic", None), given.text("group", None)
    partition = given.integer("partition", None, least=0, most=2**31 - 1)
    known = {each.api_name: each for each in messages.all_requests().values()}.get(api)
    for name, value in (("topic", topic), ("partition", partition), ("group", group)):
        if value is not None and known is not None and name not in Scope.of(known):
            raise FieldError(name, f"{api} is not about single {name}s")
    return Scope(topic=topic, partition=partition, group=group)


def _errors(given: Fields) -> tuple[ErrorCode, ...]:
    """Error codes, one as ``error`` or several as ``errors``."""
    one, several = given.take("error"), given.take("errors")
    if (one is None) == (several is None):
        raise FieldError(
            "error",
            "the field error or errors is missing" if one is None else "only one of error and errors is allowed",
        )
    if several is None:
        return (_error("error", one),)
    if isinstance(several, str) or not isinstance(several, Sequence) or not several:
        raise FieldError("errors", f"{several!r} is not a list of errors")
    return tuple(_error("errors", each) for each in several)


def _error(field: str, value: Any) -> ErrorCode:
    """An error by its name or code."""
    if isinstance(value, int) and not isinstance(value, bool) and value in set(ErrorCode):
        return ErrorCode.of(value)
    if not isinstance(value, str) or value not in ErrorCode.__members__:
        hint = did_you_mean(value, ErrorCode.__members__) if isinstance(value, str) else ""
        raise FieldError(field, f"{value!r} is not an error of Kafka{hint}")
    return ErrorCode[value]
