"""As much of Kafka as the exactly-once protocol sees, as values: coordinators, the topic of decisions, and time.

Rules are those of Apache Kafka 4.x: a transactional id has a producer with an epoch, InitProducerId aborts what is open
whatever epoch is claimed, EndTxn with an epoch that is not the present one is refused. ``tv`` 1 is transaction.version
0 and 1; with 2 every EndTxn raises the epoch, and a repetition of it is known by the old one (KIP-890). A response
CONCURRENT_TRANSACTIONS is no response here: the request waits until the markers are written, a step of its own.

Transactions of tasks have their markers at once; what a row in them is, and what became of it, stays with the id.
"""

from functools import cache
from typing import Final, NamedTuple

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.exactly_once.decision import last_decision
from spark_kafka_native._spark.exactly_once.effects import DecisionLog, DecisionRecord

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
_PREPARED: Final = {PREPARE_COMMIT, PREPARE_ABORT}
TICK_MS: Final = 1000

Row = tuple[int, int]
"""Batch and partition: every task writes one row."""


class Fate:
    """What became of a task's transaction: of the first, that is, for a late request may open an empty one."""

    NONE, COMMITTED, ABORTED, TIMED_OUT = range(4)


class Transaction(NamedTuple):
    """What a coordinator knows of an id."""

    producer_id: int
    epoch: int
    state: int = EMPTY
    last_epoch: int = -1
    raises_epochs: bool = False
    """Whether the last one who ended a transaction was of transaction.version 2."""
    started: int = 0
    timeout: int = 0
    row: Row | None = None
    fate: int = Fate.NONE


class Batch(NamedTuple):
    """Records that the driver has appended to the topic of decisions, all at once."""

    producer: ProducerIdAndEpoch
    sequence: int
    records: tuple[DecisionRecord, ...]
    status: int
    """0: open, 1: committed, 2: aborted."""


class Kafka(NamedTuple):
    """A state of the cluster."""

    ids: tuple[tuple[str, Transaction], ...] = ()
    log: tuple[Batch, ...] = ()
    now: int = 0


class Request(NamedTuple):
    """One request of one effect; the fields that it has no use for are None."""

    api: str
    name: str = ""
    producer: ProducerIdAndEpoch | None = None
    commit: bool = False
    timeout: int = 0
    sequence: int = 0
    records: tuple[DecisionRecord, ...] = ()
    row: Row | None = None
    high_watermark: int | None = None
    """For a read: where the log ended when it began; None: it begins now."""
    again: bool = False
    """Whether it has aborted something before. It does so once: who came in between would be aborted for ever."""


Response = object
"""A value, or an ErrorCode other than NONE; WAIT: not yet."""
WAIT: Final = "wait"
CHANGING: Final = frozenset({"init", "abort", "rows", "add", "produce", "end"})


@cache
def decided(records: tuple[DecisionRecord, ...]) -> tuple[str, ...] | None:
    """The ids that a batch of the topic decides to commit; None: it decides nothing new."""
    found = last_decision("decisions", DecisionLog(records, whole=True))
    return None if found is None or found.finished else tuple(handle.transactional_id for handle in found.handles)


class Cluster:
    """How requests change a state of the cluster. ``driver`` is the id whose transactions go to the topic."""

    def __init__(self, driver: str, tv: int) -> None:
        self.driver = driver
        self.tv = tv
        self._producer_ids: dict[str, int] = {}

    def carry_out(self, kafka: Kafka, request: Request) -> tuple[Kafka, Response]:
        """The state after a request, and its response."""
        if request.api in {"read", "list", "now"}:
            return kafka, self._look(kafka, request)
        known = dict(kafka.ids).get(request.name)
        if request.api == "describe":
            return kafka, known
        if request.api == "produce":
            return self._produce(kafka, known, request)
        changed, response = self._ask(known, request, kafka.now)
        return self._with(kafka, request.name, known, changed), response

    def _ask(self, known: Transaction | None, request: Request, now: int) -> tuple[Transaction | None, Response]:
        """What a coordinator makes of a request, and answers."""
        match request.api:
            case "init":
                return self._init(known, request)
            case "end":
                return self._end(known, request)
            case "add":
                return self._add(known, request, now)
            case "rows":
                changed, response = self._add(known, request, now)
                if response is None and changed is not None and request.row is not None:
                    batch, partition = request.row
                    return changed._replace(row=request.row), (TopicPartition("rows", partition), batch, batch + 1)
                return changed, response
            case "abort":  # InitProducerId too; its response does not matter
                open_yet = known is not None and known.state == ONGOING
                return self._fenced(request.name, known, Fate.ABORTED) if known and open_yet else known, None
        raise AssertionError(request.api)

    def settle(self, kafka: Kafka) -> Kafka | None:
        """Markers of the driver's decided transaction; None: there is none."""
        known = dict(kafka.ids).get(self.driver)
        if known is None or known.state not in _PREPARED:
            return None
        status = 1 if known.state == PREPARE_COMMIT else 2
        log = tuple(batch if batch.status else batch._replace(status=status) for batch in kafka.log)
        return self._with(kafka._replace(log=log), self.driver, known, known._replace(state=known.state + 2))

    def tick(self, kafka: Kafka) -> Kafka:
        """A second later: what was open for too long is aborted."""
        now = kafka.now + 1
        ids = []
        for name, known in kafka.ids:
            timed_out = known.state == ONGOING and now >= known.started + known.timeout
            ids.append((name, self._fenced(name, known, Fate.TIMED_OUT) if timed_out else known))
        return kafka._replace(ids=tuple(ids), now=now)

    def _with(self, kafka: Kafka, name: str, known: Transaction | None, changed: Transaction | None) -> Kafka:
        if changed is None or changed == known:
            return kafka
        return kafka._replace(ids=tuple(sorted({**dict(kafka.ids), name: changed}.items())))

    def _look(self, kafka: Kafka, request: Request) -> Response:
        if request.api == "now":
            return kafka.now
        if request.api == "list":
            return tuple(name for name, known in kafka.ids if known.state == ONGOING)
        below = kafka.log[: request.high_watermark]
        if request.name != "hasty" and any(batch.status == 0 for batch in below):
            return WAIT
        committed = [batch for batch in below if batch.status == 1]
        # As little as there is to know: histories that differ in what is past then come to the same state.
        return DecisionLog(committed[-1].records if committed else (), whole=len(committed) <= 1)

    def _init(self, known: Transaction | None, request: Request) -> tuple[Transaction | None, Response]:
        claimed = request.producer
        if known is None:
            producer_id = self._producer_ids.setdefault(request.name, len(self._producer_ids) + 1)
            return Transaction(producer_id, 0, timeout=request.timeout), ProducerIdAndEpoch(producer_id, 0)
        if claimed is not None and claimed.producer_id != known.producer_id:
            return known, ErrorCode.PRODUCER_FENCED
        if known.state in _PREPARED:
            return known, WAIT
        if known.state == ONGOING:
            if request.again:
                return known, ErrorCode.CONCURRENT_TRANSACTIONS
            fenced = self._fenced(request.name, known, Fate.ABORTED)
            if request.name == self.driver:
                return fenced, WAIT
            known = fenced
        epoch, last_epoch = known.epoch + 1, -1
        if claimed is not None:
            if claimed.epoch == known.epoch:
                last_epoch = known.epoch
            elif claimed.epoch == known.last_epoch:
                epoch, last_epoch = known.epoch, known.last_epoch
            else:
                return known, ErrorCode.PRODUCER_FENCED
        begun = known._replace(
            epoch=epoch, last_epoch=last_epoch, state=EMPTY, raises_epochs=False, started=0, timeout=request.timeout
        )
        return begun, ProducerIdAndEpoch(known.producer_id, epoch)

    def _fenced(self, name: str, known: Transaction, fate: int) -> Transaction:
        aborted = known._replace(
            epoch=known.epoch + 1, last_epoch=-1, state=PREPARE_ABORT, raises_epochs=self.tv == 2, started=0
        )
        return aborted if name == self.driver else aborted._replace(state=COMPLETE_ABORT, fate=known.fate or fate)

    def _add(self, known: Transaction | None, request: Request, now: int) -> tuple[Transaction | None, Response]:
        assert request.producer is not None
        if known is None or known.producer_id != request.producer.producer_id:
            return known, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if known.epoch != request.producer.epoch:
            return known, ErrorCode.PRODUCER_FENCED
        if known.state in _PREPARED:
            return known, WAIT
        if known.state == ONGOING:
            return known, None
        return known._replace(state=ONGOING, started=now, raises_epochs=False), None

    def _produce(self, kafka: Kafka, known: Transaction | None, request: Request) -> tuple[Kafka, Response]:
        """Partitions join by being written to with transaction.version 2; else the broker asks whether they have."""
        assert request.producer is not None
        changed, response = self._add(known, request, kafka.now)
        if response is not None:
            return kafka, response
        if self.tv == 1 and (known is None or known.state != ONGOING):
            return kafka, ErrorCode.INVALID_TXN_STATE
        kafka = self._with(kafka, request.name, known, changed)
        sequences = sum(1 for batch in kafka.log if batch.producer == request.producer)
        if request.sequence < sequences:
            return kafka, None  # a repetition, as far as the broker can tell
        if request.sequence > sequences:
            return kafka, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        batch = Batch(request.producer, request.sequence, request.records, 0)
        return kafka._replace(log=(*kafka.log, batch)), None

    def _end(self, known: Transaction | None, request: Request) -> tuple[Transaction | None, Response]:
        claimed = request.producer
        assert claimed is not None
        if known is None or known.producer_id != claimed.producer_id:
            return known, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if self.tv == 2 and not request.commit and known.epoch == claimed.epoch and known.state not in _PREPARED:
            # Whatever is on its way is refused from now on, also where nothing is known to be open.
            return self._ended(known, request)
        expected = claimed.epoch
        if known.raises_epochs and known.state not in {EMPTY, ONGOING}:
            expected += 1  # a repetition
        if known.epoch != expected:
            return known, ErrorCode.PRODUCER_FENCED
        if known.state == ONGOING:
            return self._ended(known, request)
        if known.state == (PREPARE_COMMIT if request.commit else PREPARE_ABORT):
            return known, WAIT
        if known.state == (COMPLETE_COMMIT if request.commit else COMPLETE_ABORT):
            return known, ProducerIdAndEpoch(known.producer_id, known.epoch)
        return known, ErrorCode.INVALID_TXN_STATE

    def _ended(self, known: Transaction, request: Request) -> tuple[Transaction, Response]:
        state = PREPARE_COMMIT if request.commit else PREPARE_ABORT
        epoch, last_epoch = (known.epoch + 1, known.epoch) if self.tv == 2 else (known.epoch, known.last_epoch)
        ended = known._replace(state=state, epoch=epoch, last_epoch=last_epoch, raises_epochs=self.tv == 2, started=0)
        if request.name != self.driver:
            fate = Fate.COMMITTED if request.commit else Fate.ABORTED
            ended = ended._replace(state=state + 2, fate=known.fate or fate)
        return ended, ProducerIdAndEpoch(known.producer_id, epoch)
