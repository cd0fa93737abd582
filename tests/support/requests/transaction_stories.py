"""Transactional producers in conversations: what they ask, and are answered, is remembered and compared."""

import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

from dirty_equals import IsStr

from spark_kafka_native._protocol.messages.describe_transactions import DescribeTransactionsRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.produce import PartitionProduceResponse
from spark_kafka_native._protocol.schema import Request, Response
from tests.support.requests.conversation import Conversation
from tests.support.requests.transactions import NOT_YET, TransactionalRequests
from tests.support.waiting import eventually, last_of

ResponseT = TypeVar("ResponseT", bound=Response)

_TRANSACTION = 1
_NOW_MS = int(time.time() * 1000)


class ToldProducer(TransactionalRequests):
    """A producer in a conversation. Its topics and its id are of the conversation, so their names are the test's."""

    def __init__(self, broker: Conversation, name: str, *, level: int = 2, timeout_ms: int = 60_000) -> None:
        super().__init__(broker.topic(name), level=level, timeout_ms=timeout_ms)
        self._broker = broker
        self._note = ""
        find = FindCoordinatorRequest(key=self.transactional_id, key_type=_TRANSACTION)
        eventually(lambda: broker.response(find, 3).error_code, 0)

    def says(self, note: str) -> Self:
        """The same, with a note to what it asks next."""
        self._note = note
        return self

    def produce(self, topic: str, *values: str, **others: Any) -> PartitionProduceResponse:
        """As any producer, at a time that is the same on all brokers."""
        return super().produce(topic, *values, **({"timestamps": _NOW_MS} | others))

    def settle(self) -> None:
        """Wait until the transaction that was ended is over."""
        request = DescribeTransactionsRequest(transactional_ids=(self.transactional_id,))

        def state() -> str:
            (found,) = self._broker.response(request, 0).transaction_states
            return found.transaction_state

        eventually(state, ~IsStr(regex="Prepare.*"))

    def _ask(self, request: Request[ResponseT], version: int, code: Callable[[Any], int], patient: bool) -> ResponseT:
        response = last_of(
            lambda: self._broker.response(request, version),
            lambda response: isinstance(response, str) or not patient or code(response) not in NOT_YET,
        )
        self._broker.remember(f"{request.api_name} v{version} {self._note}".strip(), response)
        self._note = ""
        return response


def second_epoch(broker: Conversation, name: str, level: int) -> ToldProducer:
    """A producer of epoch 1, so that there is an older one."""
    producer = ToldProducer(broker, name, level=level)
    producer.begin()
    producer.begin()
    return producer
