"""The plan of one request: its faults, in the order in which they were set.

A fault that affects a part of the request removes that part; the rest is passed to the next fault and, unless it is
empty, to the broker. Delays are added. The first drop ends the plan.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from broker_embedded._testing.refusals import refusal
from broker_embedded._testing.rules import AFTER, BEFORE, DELAY, FAIL, ActiveFault
from broker_embedded._testing.scopes import Scope, TopicNames, join, split_request, write_into
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.schema import Request, Response


@dataclass(slots=True, kw_only=True)
class RequestPlan:
    """The plan of one request.

    ``rest`` is the request to the broker, or None; ``refused`` are the responses of faults; ``written`` are errors to
    put into the broker's response. ``fault_ids`` are the ids of the applied faults.
    """

    version: int
    names: TopicNames
    rest: Request[Any] | None
    refused: list[Response] = field(default_factory=list)
    written: list[tuple[Scope, ErrorCode]] = field(default_factory=list)
    delay_before_ms: int = 0
    delay_after_ms: int = 0
    dropped: str | None = None
    fault_ids: list[int] = field(default_factory=list)

    def refuse(self, scope: Scope, code: ErrorCode, message: str | None = None) -> None:
        """Remove the affected part from the rest, and answer it with an error."""
        if self.rest is None:
            return
        parts = split_request(self.rest, self.version, scope, self.names)
        if parts.is_open:
            self.written.append((scope, code))
        elif parts.matching is not None:
            in_items = scope.topic is not None or scope.partition is not None
            self.refused.append(refusal(parts.matching, self.version, code, message, in_items=in_items))
            self.rest = parts.rest

    def concerns(self, scope: Scope) -> bool:
        """Whether a part of the rest is affected."""
        return self.rest is not None and split_request(self.rest, self.version, scope, self.names).matching is not None

    def response(self, served: Response | None) -> Response | None:
        """The complete response, with the broker's response to the rest; None if there is none."""
        whole = served
        for scope, code in self.written:
            if whole is not None:
                whole = write_into(whole, self.version, scope, self.names, code)
        for refused in self.refused:
            whole = refused if whole is None else join(whole, refused, self.version)
        return whole


def apply_faults(plan: RequestPlan, faults: Iterable[ActiveFault], client_id: str) -> RequestPlan:
    """Apply the faults, in their order."""
    for fault in faults:
        rule = fault.rule
        if plan.rest is None or plan.dropped is not None:
            break
        if not rule.is_about(type(plan.rest), client_id) or not plan.concerns(rule.scope) or not fault.count_call():
            continue
        plan.fault_ids.append(fault.id)
        if rule.action == FAIL:
            if fault.error is not ErrorCode.NONE:
                plan.refuse(rule.scope, fault.error, rule.message)
        elif rule.action == DELAY:
            plan.delay_before_ms += rule.ms if rule.when == BEFORE else 0
            plan.delay_after_ms += rule.ms if rule.when == AFTER else 0
        else:
            plan.dropped = rule.when
    return plan
