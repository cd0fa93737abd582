import pickle
import re
from typing import Any

import pytest

from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._spark.exactly_once.batch import (
    LastBatch,
    TaskMessage,
    TaskOutcome,
    WritePlan,
    is_new,
    joined,
    summary,
)
from spark_kafka_native._spark.exactly_once.decision import Decision, Handle, Owner, OwnerKind
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from spark_kafka_native._spark.exactly_once.names import Names

FENCE = ProducerIdAndEpoch(1, 0)
QUERY = Owner(OwnerKind.QUERY, "q")
JOB = Owner(OwnerKind.JOB, "j")
NAMES = Names(prefix="orders")


def planned(last: LastBatch | None) -> WritePlan:
    return WritePlan("orders", FENCE, last)


@pytest.mark.parametrize(
    ("last", "owner", "batch_id", "new"),
    [
        (None, QUERY, 0, True),
        (None, QUERY, 57, True),
        (LastBatch(QUERY, 4), QUERY, 5, True),
        (LastBatch(QUERY, 4), QUERY, 4, False),
        (LastBatch(JOB, 0), Owner(OwnerKind.JOB, "k"), 0, True),
    ],
)
def test_last_batch_is_skipped_and_the_next_one_written(
    last: LastBatch | None, owner: Owner, batch_id: int, new: bool
) -> None:
    assert is_new(planned(last), owner, batch_id) is new


@pytest.mark.parametrize(
    ("last", "owner", "batch_id", "said"),
    [
        (
            LastBatch(QUERY, 4),
            QUERY,
            2,
            "Start from the newest checkpoint: no row is lost. If it does not exist any more, release the prefix",
        ),
        (
            LastBatch(QUERY, 4),
            QUERY,
            6,
            "is batch 4, and the query is at batch 6: the prefix has no decision of the batches in between. They ",
        ),
        (
            LastBatch(QUERY, 4),
            Owner(OwnerKind.QUERY, "r"),
            5,
            "streaming query q, and this is streaming query r: another query, or the same one with a new checkpoint. ",
        ),
        (LastBatch(JOB, 0), QUERY, 0, "is batch 0 of batch write j, and this is streaming query q. This run "),
        (LastBatch(QUERY, 4), JOB, 0, "Release this one only if streaming query q does not run again: "),
    ],
)
def test_other_batches_and_owners_are_refused(last: LastBatch, owner: Owner, batch_id: int, said: str) -> None:
    with pytest.raises(ExactlyOnceError, match=re.escape(said)) as caught:
        is_new(planned(last), owner, batch_id)
    assert caught.value.kind is ErrorKind.REFUSED
    assert "release orders" in str(caught.value)


def message(number: int | None = None, **changed: Any) -> TaskMessage:
    handle = None if number is None else Handle(f"orders.1.0.5.{number}.0", ProducerIdAndEpoch(number, 0), ())
    outcome = TaskOutcome.EMPTY if number is None else TaskOutcome.WRITTEN
    fields = {"fence": FENCE, "owner": QUERY, "batch_id": 5, "outcome": outcome, "rows": 0, "handle": handle}
    return TaskMessage(**{**fields, **changed})


def test_messages_of_one_batch_are_joined() -> None:
    batch = joined(NAMES, [message(1, rows=30), message(), message(2, rows=12)])
    assert [handle.producer.producer_id for handle in batch.handles] == [1, 2]
    assert (batch.fence, batch.owner, batch.batch_id, batch.skipped, batch.rows) == (FENCE, QUERY, 5, False, 42)
    assert joined(NAMES, [message(outcome=TaskOutcome.SKIPPED)]).skipped


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [message(1), message(2, fence=ProducerIdAndEpoch(1, 1))],
        [message(1), message(2, batch_id=6)],
        [message(1), message(2, owner=JOB)],
        [message(1), message(outcome=TaskOutcome.SKIPPED)],
        [message(1), message(1)],
    ],
)
def test_messages_of_several_batches_are_refused(messages: list[TaskMessage]) -> None:
    with pytest.raises(ExactlyOnceError, match=r"\.MIXED\] .*are not those of one batch"):
        joined(NAMES, messages)


def test_plans_and_messages_can_be_pickled() -> None:
    travelling = (planned(LastBatch(QUERY, 4)), message(1))
    assert pickle.loads(pickle.dumps(travelling)) == travelling


def test_plan_has_the_last_batch() -> None:
    assert summary(None) is None
    assert summary(Decision(FENCE, QUERY, 4, finished=True)) == LastBatch(QUERY, 4)


def test_text_of_a_producer_id_and_epoch() -> None:
    assert str(ProducerIdAndEpoch(4_294_967_296, 3)) == "4294967296 with epoch 3"
