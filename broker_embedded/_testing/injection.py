"""Interception of requests before their handlers: recording, faults, moves and pauses."""

import dataclasses
import functools
import inspect
from collections.abc import Awaitable, Iterator
from typing import Any, Final

from broker_embedded._broker import Broker
from broker_embedded._handlers.support.registry import CloseConnection, Result
from broker_embedded._server.dispatch import Call, Intercept
from broker_embedded._testing.fetches import SESSION_REFUSED, Pauses, continues_session, without_session
from broker_embedded._testing.moves import Moves
from broker_embedded._testing.planning import RequestPlan, apply_faults
from broker_embedded._testing.recording import Recorder
from broker_embedded._testing.rules import BEFORE, FAIL, ActiveFault, Rule
from spark_kafka_native._protocol.messages.fetch import FetchRequest, FetchResponse
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.schema import Request, Response

_NO_RESPONSE: Final = 0


class Injector:
    """The faults, moves, pauses and recorded requests of a broker.

    Belongs to its event loop, and survives its restarts.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.moves = Moves()
        self.pauses = Pauses()
        self._faults: dict[int, ActiveFault] = {}
        self._last_id = 0

    # --- faults ------------------------------------------------------------------------------------------------------

    def add(self, rule: Rule) -> ActiveFault:
        """Add a fault, after the existing ones."""
        self._last_id += 1
        fault = self._faults[self._last_id] = ActiveFault(self._last_id, rule)
        return fault

    def get(self, id_: int) -> ActiveFault | None:
        """A fault, spent or not, that has not been removed."""
        return self._faults.get(id_)

    def remove(self, id_: int) -> ActiveFault | None:
        """Remove and return a fault."""
        return self._faults.pop(id_, None)

    def clear(self) -> None:
        """Remove all faults, pauses and moves."""
        self._faults.clear()
        self.pauses.clear()
        self.moves.clear()

    @property
    def faults(self) -> Iterator[ActiveFault]:
        """All faults that have not been removed, in the order in which they were set."""
        return iter(self._faults.values())

    # --- requests ----------------------------------------------------------------------------------------------------

    def interceptor(self, broker: Broker) -> Intercept:
        """A function that intercepts the calls of ``broker``."""
        return functools.partial(self._response, broker)

    def _response(self, broker: Broker, call: Call) -> Result:
        request, client_id = call.request, call.context.client_id
        name = type(request).api_name
        fault_ids = self.recorder.add(
            call.frame, at_ms=broker.timers.now_ms(), api=name, version=call.version, client_id=client_id
        )
        if not (self._faults or self.moves or self.pauses):
            response = call.api.handler(request, call.context)
            if isinstance(request, FetchRequest) and inspect.isawaitable(response):
                return self._finish_fetch(response, broker)
            return response
        if isinstance(request, FetchRequest) and self._looks_into_fetches(client_id):
            if continues_session(request):
                return SESSION_REFUSED
            request = without_session(request)
        plan = RequestPlan(version=call.version, names=broker.image.names, rest=request)
        self.moves.apply(plan, name, client_id)
        apply_faults(plan, self._faults.values(), client_id)
        fault_ids += plan.fault_ids
        return self._carry_out(plan, call, request, broker)

    def _looks_into_fetches(self, client_id: str) -> bool:
        """Whether a fault, pause or move affects single partitions of a client's fetches."""
        return (
            bool(self.pauses)
            or self.moves.hide_partitions_from(client_id)
            or any(
                not fault.is_spent
                and fault.rule.is_about(FetchRequest, client_id)
                and (fault.rule.action == FAIL or not fault.rule.scope.is_all)
                for fault in self._faults.values()
            )
        )

    async def _carry_out(self, plan: RequestPlan, call: Call, request: Request[Any], broker: Broker) -> Response | None:
        name = call.api.request.api_name
        if plan.delay_before_ms:
            await broker.delayed.pause(plan.delay_before_ms)
        if plan.dropped == BEFORE:
            raise CloseConnection(f"a fault drops it before {name} is processed")
        served: Response | None = None
        if plan.rest is not None:
            served = await self._serve(plan, call, broker)
        if plan.dropped is not None:
            raise CloseConnection(f"a fault drops it after {name} was processed")
        if plan.delay_after_ms:
            await broker.delayed.pause(plan.delay_after_ms)
        if isinstance(request, ProduceRequest) and request.acks == _NO_RESPONSE:
            if plan.refused:
                raise CloseConnection("a Produce with acks=0 is to fail, and is not answered")
            return None
        return plan.response(served)

    async def _finish_fetch(self, work: Awaitable[Response | None], broker: Broker) -> Response | None:
        """The response to a delayed fetch, whose partitions may have been paused meanwhile."""
        response = await work
        if self.pauses and isinstance(response, FetchResponse):
            return self.pauses.empty(response, broker.image.names)
        return response

    async def _serve(self, plan: RequestPlan, call: Call, broker: Broker) -> Response | None:
        """The broker's response to the rest."""
        rest = plan.rest
        if isinstance(rest, FetchRequest):
            if plan.refused:
                rest = dataclasses.replace(rest, max_wait_ms=0)  # as after any other error, the response is not delayed
            if self.pauses:
                return await self._fetch_unpaused(rest, call, broker)
            return await self._finish_fetch(_handled(call, rest), broker)
        return await _handled(call, rest)

    async def _fetch_unpaused(self, request: FetchRequest, call: Call, broker: Broker) -> Response | None:
        rest, nothing_new, paused = self.pauses.take_out(request, call.version, broker)
        if rest is not None:
            served = await self._finish_fetch(_handled(call, rest), broker)
            assert isinstance(served, FetchResponse)
            return dataclasses.replace(served, responses=served.responses + nothing_new.responses)
        keys = [partition.id for partition in paused]
        await broker.delayed.wait(keys, request.max_wait_ms, lambda id_: not self.pauses.cover(*id_))
        return nothing_new


async def _handled(call: Call, request: Request[Any] | None) -> Response | None:
    response = call.api.handler(request, call.context)
    return await response if inspect.isawaitable(response) else response
