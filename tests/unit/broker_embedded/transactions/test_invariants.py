"""Whatever producers, time and crashes do: an outcome stands, a fenced producer changes nothing, a repeated request is
answered as before.

A world is what the coordinator knows of one id, and the producers of its responses. Every possible step is
taken, to some depth; beyond it steps are drawn. Clients act as any producer that they ever were, so that fenced ones
stay about forever, and replies get lost. Every decision is also read from its record: there are crashes everywhere.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from broker_embedded._transactions import decisions
from broker_embedded._transactions.records import read_transaction_record, transaction_record
from broker_embedded._transactions.state import LAST_EPOCH, Transaction, TransactionState, TransactionVersion
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition

PARTITIONS = frozenset({TopicPartition("t", 0)})
TV_0, TV_1, TV_2 = TransactionVersion
CLIENTS = range(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is known of the id; and the producer ids and epochs that were answered, in order."""

    known: Transaction | None = None
    next_id: int = 100
    given: tuple[tuple[ProducerIdAndEpoch, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of a client; ``claimed`` is None where InitProducerId claims nothing."""

    kind: str
    client: int
    claimed: ProducerIdAndEpoch | None
    version: TransactionVersion


class Coordinator:
    """One request at a time, as the shell carries them out; a crash may come between decision and completion."""

    def __init__(self, known: Transaction | None, next_id: int, level: TransactionVersion) -> None:
        self.known = known
        self.next_id = next_id
        self.level = level

    def fresh(self, needed: bool) -> int | None:
        if not needed:
            return None
        self.next_id += 1
        return self.next_id

    def ask(self, request: Request) -> ProducerIdAndEpoch | ErrorCode:
        """The response; NONE where it names no producer."""
        try:
            return self._begin(request) if request.kind == "init" else self._use(request)
        except KafkaError as error:
            return error.code

    def _begin(self, request: Request) -> ProducerIdAndEpoch:
        known = self.known
        if known is None:
            known = decisions.new_transaction("t", self.fresh(True) or 0, 1, 0)
        decisions.check_claim(known, request.claimed)
        if known.state is TransactionState.ONGOING:
            self.fence(request.claimed)
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "it was aborted")
        fresh = self.fresh(decisions.needs_producer_id_to_begin(known, request.claimed))
        self.known = decisions.begin_producer(known, request.claimed, 1, 0, fresh_producer_id=fresh)
        return self.known.producer

    def _use(self, request: Request) -> ProducerIdAndEpoch | ErrorCode:
        assert request.claimed is not None
        if request.kind == "add":
            known = decisions.check_producer(self.known, request.claimed, "t")
            self.known = decisions.add_partitions(known, PARTITIONS, request.version, 0)
            return ErrorCode.NONE
        needed = self.known is not None and decisions.needs_producer_id_to_end(self.known, request.version)
        self.known = decisions.end(
            self.known,
            request.claimed,
            transactional_id="t",
            commit=request.kind == "commit",
            version=request.version,
            now_ms=0,
            fresh_producer_id=self.fresh(needed),
        )
        return decisions.producer_after(self.known) if request.version is TV_2 else ErrorCode.NONE

    def fence(self, claimed: ProducerIdAndEpoch | None) -> None:
        assert self.known is not None
        fresh = self.fresh(decisions.needs_producer_id_to_end(self.known, self.level))
        fenced = decisions.fence(self.known, self.level, 0, claimed=claimed, fresh_producer_id=fresh)
        assert fenced.producer_epoch == self.known.producer_epoch + 1
        self.known = fenced

    def complete(self) -> None:
        if self.known is not None and self.known.state.is_prepared:
            self.known = decisions.complete(self.known, 0)

    def reload(self) -> None:
        if self.known is not None:
            read = read_transaction_record(transaction_record(self.known, flexible=self.level > TV_0))
            assert read is not None
            self.known = read[1]


AFTER = {
    "Empty": {"Empty", "Ongoing", "PrepareAbort"},
    "Ongoing": {"Ongoing", "PrepareCommit", "PrepareAbort"},
    "PrepareCommit": {"PrepareCommit", "CompleteCommit"},
    "PrepareAbort": {"PrepareAbort", "CompleteAbort"},
    "CompleteCommit": {"CompleteCommit", "Empty", "Ongoing", "PrepareAbort"},
    "CompleteAbort": {"CompleteAbort", "Empty", "Ongoing", "PrepareAbort"},
}


def check_step(before: World, after: World) -> None:
    """An outcome stands; epochs never fall, and restart only with a new producer id."""
    old, new = before.known, after.known
    if old is None or new is None:
        return
    assert new.state.label in AFTER[old.state.label]
    assert new.producer_epoch <= 32_767
    if old.producer_id == new.producer_id:
        assert new.producer_epoch >= old.producer_epoch
    else:
        assert new.producer_epoch == 0
        assert new.producer_id > max(producer.producer_id for producer, _ in before.given)
    assert bool(new.partitions) is (new.state is TransactionState.ONGOING) or new.state.is_prepared


def check_response(
    world: World, request: Request, response: ProducerIdAndEpoch | ErrorCode, known: Transaction | None
) -> None:
    """A producer id and epoch is answered once; only the last one that was answered changes anything."""
    if isinstance(response, ProducerIdAndEpoch):
        assert response.epoch <= LAST_EPOCH
        assert all(client == request.client for producer, client in world.given if producer == response)
    is_ongoing = world.known is not None and world.known.state is TransactionState.ONGOING
    if known != world.known and request.claimed is not None and (is_ongoing or request.kind != "init"):
        assert world.given[-1] == (request.claimed, request.client)


def check_repeated(world: World, request: Request, response: ProducerIdAndEpoch | ErrorCode, done: Coordinator) -> None:
    """The response got lost: the request is sent again at once, after completion, or after a crash."""
    if request.claimed is None or not (isinstance(response, ProducerIdAndEpoch) or response is ErrorCode.NONE):
        return
    for crashes in (False, True):
        for completes in (False, True):
            again = Coordinator(done.known, done.next_id, done.level)
            if crashes:
                again.reload()
            if completes:
                again.complete()
            before = again.known
            repeated = again.ask(request)
            if before is not None and before.state.is_prepared:
                assert repeated is ErrorCode.CONCURRENT_TRANSACTIONS
            elif crashes and request.kind == "init":
                assert repeated in {response, ErrorCode.PRODUCER_FENCED}, "the epoch before is not in the log"
            else:
                assert repeated == response


def requests(world: World, versions: tuple[TransactionVersion, ...]) -> Iterator[Request]:
    for client in CLIENTS:
        yield Request(kind="init", client=client, claimed=None, version=TV_0)
        had = {producer for producer, whose in world.given if whose == client}
        for claimed in sorted(had, key=lambda producer: (producer.producer_id, producer.epoch))[-3:]:
            yield Request(kind="init", client=client, claimed=claimed, version=TV_0)
            for version in versions:
                for kind in ("add", "commit", "abort"):
                    yield Request(kind=kind, client=client, claimed=claimed, version=version)


def by_requests(world: World, level: TransactionVersion, versions: tuple[TransactionVersion, ...]) -> Iterator[World]:
    """The worlds after each request, whether its reply arrives or not."""
    for request in requests(world, versions):
        coordinator = Coordinator(world.known, world.next_id, level)
        response = coordinator.ask(request)
        check_response(world, request, response, coordinator.known)
        check_repeated(world, request, response, coordinator)
        after = replace(world, known=coordinator.known, next_id=coordinator.next_id)
        if isinstance(response, ProducerIdAndEpoch) and (response, request.client) not in world.given:
            after = replace(after, given=(*world.given, (response, request.client)))
        check_step(world, after)
        yield after


def by_themselves(world: World, level: TransactionVersion) -> Iterator[World]:
    """The worlds after a timeout, completion, a crash, and expiry."""
    known = world.known
    if known is None:
        return
    coordinator = Coordinator(known, world.next_id, level)
    if known.state is TransactionState.ONGOING:
        coordinator.fence(None)
    else:
        coordinator.complete()
    yield replace(world, known=coordinator.known, next_id=coordinator.next_id)
    crashed = Coordinator(known, world.next_id, level)
    crashed.reload()
    yield replace(world, known=crashed.known)
    if known.expires(0, 0):
        yield replace(world, known=None)


def explore(
    start: World, level: TransactionVersion, versions: tuple[TransactionVersion, ...], depth: int
) -> set[World]:
    """All worlds that can follow from one in so many steps."""
    seen, edge = {start}, {start}
    for _ in range(depth):
        edge = {
            after for world in edge for after in (*by_requests(world, level, versions), *by_themselves(world, level))
        }
        edge -= seen
        seen |= edge
    return seen


def near_the_end(level: TransactionVersion) -> World:
    known = Transaction(
        transactional_id="t",
        producer_id=7,
        previous_producer_id=7,
        producer_epoch=LAST_EPOCH - 1,
        timeout_ms=1,
        updated_ms=0,
        client_version=level,
    )
    return World(known=known, given=((known.producer, 0),))


@pytest.mark.parametrize(
    ("level", "versions", "depth"),
    [(TV_0, (TV_0,), 5), (TV_1, (TV_0,), 5), (TV_2, (TV_2,), 6), (TV_2, (TV_0, TV_2), 5)],
)
@pytest.mark.parametrize("old", [False, True])
def test_all_invariants_hold_in_every_reachable_world(
    level: TransactionVersion, versions: tuple[TransactionVersion, ...], depth: int, old: bool
) -> None:
    seen = explore(near_the_end(level) if old else World(), level, versions, depth)
    states = {world.known.state for world in seen if world.known is not None}
    assert states == set(TransactionState)
    assert old is any(world.known is not None and world.known.producer_epoch >= LAST_EPOCH for world in seen)
    assert len(seen) > 400


@pytest.mark.parametrize("seed", range(8))
def test_invariants_hold_after_random_transaction_events(seed: int) -> None:
    draw = random.Random(seed)
    level = draw.choice(list(TransactionVersion))
    world = near_the_end(level) if seed % 2 else World()
    for step in range(200):
        if step % 20 == 0:
            level = draw.choice(list(TransactionVersion))
        steps = (*by_requests(world, level, (TV_0, TV_2)), *by_themselves(world, level))
        world = draw.choice([after for after in steps if after != world])
        world = replace(world, given=world.given[-8:])
