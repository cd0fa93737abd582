"""EndTxn, from any process that has a transaction's handle, repeated until the result is known.

Responses of a coordinator to EndTxn, and what they prove:

    NONE                         ended as asked, now or at an earlier try: with an epoch per transaction (KIP-890) a
                                 repeated request is known by the epoch before, without by the state it led to
    INVALID_TXN_STATE            not open; it ended the other way, or nothing was ever part of it
    PRODUCER_FENCED              not open; the broker ended it when its time was up, or another producer came and
                                 aborted it. Only if it had been committed before that, then it still is
    INVALID_PRODUCER_ID_MAPPING  not open; the id was idle for transactional.id.expiration.ms and forgotten
    CONCURRENT_TRANSACTIONS      being ended, either way: retried
    no response                  nothing: retried

So a response says most if the transactional id is not initialised again, and all if it is used only once.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import at_coordinators
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._client.transactions.describe_transactions import (
    TransactionDescription,
    TransactionState,
    describe_known,
)
from spark_kafka_native._client.transactions.errors import FENCED
from spark_kafka_native._client.transactions.handle import TransactionalIdentity
from spark_kafka_native._client.transactions.requests import max_block_deadline
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError, RestatedError
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

_LAST_WITHOUT_NEW_EPOCH: Final = 4
_FORGOTTEN: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})
_CLOSED: Final = FENCED | _FORGOTTEN | {ErrorCode.INVALID_TXN_STATE}
_NOT_CARRIED_OUT: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
_IN_FLIGHT: Final = 20
"""EndTxn requests on one connection before the first response is taken: brokers read one after the other anyway."""


class EndTxnOutcome(Enum):
    """The result of a commit or an abort."""

    DONE = "done"
    """It has ended as requested, now or before."""
    ENDED_OTHERWISE = "ended otherwise"
    """It has ended, and not because of this: the broker or another producer ended it, or it was ended the other way."""
    UNKNOWN = "unknown"
    """No coordinator can tell, or not yet."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is known about the end of a transaction."""

    outcome: EndTxnOutcome
    code: ErrorCode
    """The coordinator's last error code; for ENDED_OTHERWISE and UNKNOWN the reason."""
    reason: str = ""
    committed: bool | None = None
    """Whether its records and offsets count; None where the coordinator cannot tell any more, or did not."""
    is_closed: bool = True
    """Whether it surely is not open, so that it holds up no readers for longer than its markers take."""
    identity: TransactionalIdentity | None = None
    """The producer id and epoch of the next transaction, if this one ended as requested."""

    @property
    def was_fenced(self) -> bool:
        """Whether the producer's epoch is an old one: the transaction's time was up, or another producer came."""
        return self.code in FENCED


def end_transaction(
    cluster: Cluster, handle: TransactionalIdentity, *, commit: bool, timeout_ms: float | None = None
) -> Ending:
    """Commit or abort a transaction. Any process that has the handle may do so, and may repeat it.

    Waits for at most ``timeout_ms`` (``max.block.ms``). Raises KafkaError: not allowed, or the broker does not
    support the handle's transaction.version. Errors that leave the end unknown are not raised: see ``Ending``.
    """
    (ending,) = end_transactions(cluster, [handle], commit=commit, timeout_ms=timeout_ms)
    return ending


def end_transactions(
    cluster: Cluster, handles: Iterable[TransactionalIdentity], *, commit: bool, timeout_ms: float | None = None
) -> list[Ending]:
    """As ``end_transaction`` for many, no two of one transactional id; in their order. Faster than one by one."""
    wanted = list(handles)
    by_id = {handle.transactional_id: handle for handle in wanted}
    if len(by_id) < len(wanted):
        raise ValueError("two transactions of one transactional id cannot be ended at the same time")
    deadline = max_block_deadline(cluster, timeout_ms)
    ends = _Ends(by_id, commit=commit)
    responses = at_coordinators(cluster, CoordinatorType.TRANSACTION, by_id, ends.ask, deadline)
    unclear = [
        key for key, response in responses.items() if isinstance(response, KafkaError) and response.code in _CLOSED
    ]
    described = describe_known(cluster, unclear, deadline) if unclear else {}
    return [
        _ending(handle, responses[key], described.get(key), commit=commit, maybe_before=key in ends.maybe)
        for key, handle in by_id.items()
    ]


class _Ends:
    """EndTxn of several transactions for ``at_coordinators``. ``maybe``: of which a response was lost."""

    def __init__(self, handles: Mapping[str, TransactionalIdentity], *, commit: bool) -> None:
        self.maybe: set[str] = set()
        self._handles = handles
        self._commit = commit

    def ask(
        self, connection: Connection, keys: Sequence[str], timeout_ms: float
    ) -> dict[str, EndTxnResponse | KafkaError]:
        results: dict[str, EndTxnResponse | KafkaError] = {}
        deadline = Deadline.after_ms(timeout_ms)
        for start in range(0, len(keys), _IN_FLIGHT):
            chunk = keys[start : start + _IN_FLIGHT]
            sent: list[str] = []
            try:
                for key in chunk:
                    # As the transaction was begun: what a repeated request means depends on it.
                    epochs_rise = self._handles[key].has_epoch_per_transaction
                    version = None if epochs_rise else _LAST_WITHOUT_NEW_EPOCH
                    connection.enqueue(self._request(key), max_version=version, deadline=deadline)
                    sent.append(key)
                for key in sent:
                    _, response = connection.receive(deadline.at_most_ms(connection.options.request_timeout_ms))
                    assert isinstance(response, EndTxnResponse)
                    results[key] = self._result(key, response)
            except KafkaError as error:
                unanswered = [key for key in sent if key not in results]
                self.maybe.update(unanswered)
                return results | dict.fromkeys([key for key in keys if key not in results], error)
        return results

    def _request(self, key: str) -> EndTxnRequest:
        handle = self._handles[key]
        return EndTxnRequest(
            transactional_id=key,
            producer_id=handle.producer_id,
            producer_epoch=handle.producer_epoch,
            committed=self._commit,
        )

    def _result(self, key: str, response: EndTxnResponse) -> EndTxnResponse | KafkaError:
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.NONE:
            return response
        if code.retriable and code not in _NOT_CARRIED_OUT:
            self.maybe.add(key)
        return KafkaError(code, operation="WRITE")


def _ending(
    handle: TransactionalIdentity,
    response: EndTxnResponse | KafkaError,
    described: TransactionDescription | None,
    *,
    commit: bool,
    maybe_before: bool,
) -> Ending:
    """What a response means. Raises KafkaError: it is about the request rather than the transaction."""
    if isinstance(response, EndTxnResponse):
        return Ending(
            outcome=EndTxnOutcome.DONE, code=ErrorCode.NONE, committed=commit, identity=_following(handle, response)
        )
    reason = f"{'commit' if commit else 'abort'} of {handle}: {response}"
    if described is not None:
        reason += f"; its coordinator now has {described}"
    if response.code is ErrorCode.INVALID_TXN_STATE:
        committed = False if commit else _says_committed(handle, described)
        done = committed is commit
        return Ending(
            outcome=EndTxnOutcome.DONE if done else EndTxnOutcome.ENDED_OTHERWISE,
            code=response.code,
            reason=reason,
            committed=committed,
            identity=_following(handle) if done else None,
        )
    if response.code in FENCED:
        # An earlier try may have ended it before the epoch was raised.
        outcome = EndTxnOutcome.UNKNOWN if maybe_before else EndTxnOutcome.ENDED_OTHERWISE
        return Ending(outcome=outcome, code=response.code, reason=reason)
    if response.code in _FORGOTTEN:
        return Ending(outcome=EndTxnOutcome.UNKNOWN, code=response.code, reason=reason)
    if response.retriable or response.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return Ending(outcome=EndTxnOutcome.UNKNOWN, code=response.code, reason=reason, is_closed=False)
    raise RestatedError(response.code, reason) from response


def _following(handle: TransactionalIdentity, response: EndTxnResponse | None = None) -> TransactionalIdentity:
    own = handle.identity
    if response is None or response.producer_id < 0:
        return own
    return dataclasses.replace(own, producer_id=response.producer_id, producer_epoch=response.producer_epoch)


def _says_committed(handle: TransactionalIdentity, described: TransactionDescription | None) -> bool | None:
    """Whether a transaction that was not open to be aborted had been committed; None: no coordinator tells."""
    if described is None or described.producer_id != handle.producer_id:
        return None
    if described.producer_epoch not in {handle.producer_epoch, handle.producer_epoch + 1}:
        return None
    return described.state in {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}
