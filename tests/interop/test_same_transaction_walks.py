"""Producers, fenced ones too, do whatever comes to mind; the bundled broker answers each as Apache Kafka does.

A walk takes place under one transactional id. Each producer id and epoch of a response may be used again.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from dirty_equals import IsStr

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_transactions import TransactionState
from tests.support.requests.transaction_views import described
from tests.support.requests.transactions import RawProducer
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

WALKS = 40
STEPS = 20
KINDS = ("take over", "begin again", "add", "add", "commit", "abort", "commit", "abort")

Identity = tuple[int, int]
Response = tuple[ErrorCode, Identity | None]


@dataclass(slots=True, kw_only=True)
class Walker:
    """One broker's side of a walk. ``given`` has every producer of a response, in order."""

    producer: RawProducer
    topic: str
    given: list[Identity] = field(default_factory=list)

    def step(self, kind: str, who: int) -> Response:
        """Send as one of the given producers; the response, and the producer from then on."""
        if kind == "take over":
            return self._remember(self.producer.init())
        producer_id, epoch = self.given[who]
        claim: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch}
        if kind == "begin again":
            return self._remember(self.producer.init(**claim))
        if kind == "add":
            version = 3 if self.producer.level == 1 else 5
            return self.producer.add((self.topic, 0), version=version, **claim)[0], None
        return self._remember(self.producer.end(commit=kind == "commit", **claim))

    def _remember(self, response: Any) -> Response:
        code = ErrorCode.of(response.error_code)
        given = (response.producer_id, response.producer_epoch)
        if code is not ErrorCode.NONE or given[0] < 0:
            return code, None
        if given not in self.given:
            self.given.append(given)
        return code, given

    def state(self) -> tuple[str, Identity]:
        """The id's state, once it rests, and who has it."""
        while (found := self._described()).transaction_state.startswith("Prepare"):
            eventually(lambda: self._described().transaction_state, ~IsStr(regex="Prepare.*"))
        return found.transaction_state, (found.producer_id, found.producer_epoch)

    def _described(self) -> TransactionState:
        return described(self.producer.client, self.producer.transactional_id)


class Names:
    """Both brokers' producer ids for the same producer."""

    def __init__(self) -> None:
        self._theirs: dict[int, int] = {}

    def same(self, ours: Identity | None, theirs: Identity | None) -> bool:
        if ours is None or theirs is None:
            return ours is theirs
        return (self._theirs.setdefault(ours[0], theirs[0]), ours[1]) == theirs


def is_kafkas_own(kind: str, claimed: Identity, state: tuple[str, Identity], level: int) -> bool:
    """Whether a fenced producer begins again; only Kafka aborts the transaction of the new producer then."""
    name, present = state
    begun = name == "Ongoing" or (level == 1 and name != "Empty")
    return kind == "begin again" and claimed != present and begun


@pytest.mark.parametrize("level", [1, 2])
def test_responses_to_producers_are_the_same(
    kafka_broker: EmbeddedBroker, apache_kafka: ApacheKafka, level: int, seed: int
) -> None:
    dice = random.Random(seed)
    topic = f"walked-{level}-{seed}"
    for broker in (kafka_broker, apache_kafka):
        broker.create_topic(topic)
    for number in range(WALKS):
        name = f"{topic}-{number}"
        with (
            RawProducer(kafka_broker.bootstrap_servers, name, level=level) as our_producer,
            RawProducer(apache_kafka.bootstrap_servers, name, level=level) as their_producer,
        ):
            ours = Walker(producer=our_producer, topic=topic)
            walk(ours, Walker(producer=their_producer, topic=topic), level, dice)


def walk(ours: Walker, theirs: Walker, level: int, dice: random.Random) -> None:
    names, past = Names(), []
    for _ in range(STEPS):
        kind = dice.choice(KINDS) if ours.given else "take over"
        who = dice.choice((-1, -1, -1, *range(-len(ours.given), 0)))
        if kind != "take over" and is_kafkas_own(kind, ours.given[who], ours.state(), level):
            continue
        our_response, their_response = ours.step(kind, who), theirs.step(kind, who)
        past.append((kind, who, our_response, their_response))
        assert our_response[0] is their_response[0], past
        assert names.same(our_response[1], their_response[1]), past
        (our_state, our_identity), (their_state, their_identity) = ours.state(), theirs.state()
        assert our_state == their_state, past
        assert names.same(our_identity, their_identity), past
