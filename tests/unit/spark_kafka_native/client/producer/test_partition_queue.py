from typing import Self

import pytest

from spark_kafka_native._client.producer.partition_queue import MAX_EPOCH, BatchOutcome, OutgoingBatch, PartitionQueue
from spark_kafka_native._client.retry import Backoff
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.encode import EncodedBatch
from spark_kafka_native._records.batch import check_crc, read_header
from tests.support.records.record_batches import batch_of

NODE = 1
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class QueueDriver:
    """A queue and its script; batches go by the names that are their records' values."""

    def __init__(
        self,
        *,
        idempotent: bool = True,
        max_in_flight: int = 5,
        identity: ProducerIdAndEpoch | None = None,
        known: bool = True,
        transactional: bool = False,
    ) -> None:
        """``known``: the broker has acknowledged a batch of the producer before."""
        self.queue = PartitionQueue(
            TopicPartition("t", 0),
            idempotent=idempotent,
            max_in_flight=max_in_flight,
            backoff=Backoff(100, 100),
            transactional=transactional,
        )
        if idempotent:
            self.queue.identity = identity or ProducerIdAndEpoch(7, 0)
        self.queue._is_known = known
        self.now = 0.0
        self.names: dict[int, str] = {}
        self.proven: list[str] = []
        """The batches that the last acknowledgement has proven to be written, besides its own."""

    def add(self, *names: str, records: int = 2) -> None:
        for name in names:
            encoded = EncodedBatch(buffer=batch_of([name.encode()] * records), records_count=records, first_row=0)
            batch = OutgoingBatch(encoded=encoded, expires_at=self.now + 60)
            self.names[id(encoded)] = name
            self.queue.add(batch)

    def send(self) -> list[tuple[str, int, int]]:
        """Send all that may be sent: (name, epoch, base sequence) of each, as the bytes have it."""
        sent = []
        while self.queue.is_ready(self.now):
            batch = self.queue.take(NODE)
            header = read_header(batch.encoded.buffer)
            check_crc(batch.encoded.buffer, 0, header)
            sent.append((self.names[id(batch.encoded)], header.producer_epoch, header.base_sequence))
        return sent

    def add_and_send(self, *names: str, records: int = 2) -> None:
        self.add(*names, records=records)
        self.send()

    def lose_and_send_again(self, *names: str) -> None:
        self.lose(*names)
        self.wait().send()

    def named(self, name: str) -> OutgoingBatch:
        return next(batch for batch in self.queue.in_flight if self.names[id(batch.encoded)] == name)

    def response(self, name: str, code: ErrorCode = ErrorCode.NONE, *, log_start_offset: int = -1) -> BatchOutcome:
        batch = self.named(name)
        outcome = self.queue.outcome_of(batch, code, log_start_offset=log_start_offset)
        if outcome is BatchOutcome.DONE:
            self.proven = [self.names[id(known.encoded)] for known in self.queue.acknowledge(batch, self.now)][1:]
        elif outcome is BatchOutcome.RETRY:
            self.queue.fail(batch, self.now, code.name, answered=True)
        return outcome

    def lose(self, *names: str) -> None:
        for name in names:
            self.queue.fail(self.named(name), self.now, "lost", answered=False)

    def split(self, batch: OutgoingBatch, *records: int) -> None:
        """Replace a batch by pieces of so many records, named after it."""
        name = self.names[id(batch.encoded)]
        pieces = [EncodedBatch(buffer=batch_of([b"x"] * count), records_count=count, first_row=0) for count in records]
        self.queue.replace(batch, pieces, self.now)
        for number, piece in enumerate(pieces):
            self.names[id(piece)] = f"{name}-{number}"

    def wait(self) -> Self:
        self.now += 1
        return self


@pytest.fixture
def queue() -> QueueDriver:
    return QueueDriver()


def test_batches_are_sent_in_order_with_consecutive_sequences(queue: QueueDriver) -> None:
    queue.add("a", "b", records=3)
    queue.add("c")
    assert queue.send() == [("a", 0, 0), ("b", 0, 3), ("c", 0, 6)]


def test_a_producer_continues_where_an_earlier_one_ended_and_its_first_batch_goes_alone() -> None:
    queue = QueueDriver(known=False)
    queue.queue.continue_at(ProducerIdAndEpoch(7, 2), 40)
    queue.add("a", "b", "c")
    assert queue.send() == [("a", 2, 40)]
    queue.response("a")
    assert queue.send() == [("b", 2, 42), ("c", 2, 44)]
    assert queue.queue.next_sequence == 46


@pytest.mark.parametrize(
    ("code", "log_start_offset"), [(GAP, -1), (ErrorCode.UNKNOWN_PRODUCER_ID, 5)], ids=["lost records", "forgotten"]
)
def test_a_broker_that_lacks_what_an_earlier_producer_wrote_gets_a_new_epoch(
    code: ErrorCode, log_start_offset: int
) -> None:
    queue = QueueDriver(known=False)
    queue.queue.continue_at(ProducerIdAndEpoch(7, 2), 40)
    queue.add_and_send("a", "b")
    queue.response("a", code, log_start_offset=log_start_offset)
    assert queue.wait().send() == [("a", 3, 0)]
    queue.response("a")
    assert queue.send() == [("b", 3, 2)]
    assert (queue.queue.identity, queue.queue.next_sequence) == (ProducerIdAndEpoch(7, 3), 4)


def test_no_more_than_five_are_in_flight(queue: QueueDriver) -> None:
    queue.add(*"abcdefg")
    assert len(queue.send()) == 5
    assert queue.send() == []
    queue.response("a")
    assert queue.send() == [("f", 0, 10)]


def test_the_first_batch_of_a_producer_goes_alone_until_it_is_acknowledged() -> None:
    """Or a broker that does not know the producer could write the second one after it refused the first."""
    queue = QueueDriver(known=False)
    queue.add("a", "b", "c")
    assert queue.send() == [("a", 0, 0)]
    queue.response("a", ErrorCode.NOT_ENOUGH_REPLICAS)
    assert queue.wait().send() == [("a", 0, 0)]
    queue.response("a")
    assert queue.send() == [("b", 0, 2), ("c", 0, 4)]


def test_without_idempotence_one_is_in_flight_and_carries_no_sequence() -> None:
    queue = QueueDriver(idempotent=False, max_in_flight=1)
    queue.add("a", "b")
    assert queue.send() == [("a", -1, -1)]
    assert queue.send() == []
    queue.response("a")
    assert queue.send() == [("b", -1, -1)]


def test_a_failed_batch_goes_out_again_before_all_others_once_nothing_is_in_flight(queue: QueueDriver) -> None:
    queue.add_and_send("a", "b", "c")
    queue.response("a")
    queue.response("b", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    queue.add("d")
    assert queue.send() == [], "c has not been answered"
    assert queue.response("c", GAP) is BatchOutcome.RETRY, "as its predecessor is missing"
    assert queue.send() == [], "there is a pause"
    assert queue.wait().send() == [("b", 0, 2), ("c", 0, 4), ("d", 0, 6)]


def test_a_broken_connection_sends_everything_again_as_it_was(queue: QueueDriver) -> None:
    queue.add("a", "b", "c")
    first = queue.send()
    queue.lose("a", "b", "c")
    assert queue.wait().send() == first
    assert queue.response("a", ErrorCode.DUPLICATE_SEQUENCE_NUMBER) is BatchOutcome.DONE
    assert queue.response("b") is BatchOutcome.DONE


def test_acknowledged_batches_leave_the_queue(queue: QueueDriver) -> None:
    queue.add_and_send("a", "b")
    queue.response("a")
    assert len(queue.queue) == 1
    queue.response("b")
    assert len(queue.queue) == 0


def test_a_confirmed_gap_starts_an_epoch_with_sequences_from_0(queue: QueueDriver) -> None:
    queue.add_and_send("a", "b", "c")
    queue.response("a")
    assert queue.response("b", GAP) is BatchOutcome.RETRY
    assert queue.response("c", GAP) is BatchOutcome.RETRY
    queue.add("d")
    assert queue.wait().send() == [("b", 1, 0)]
    queue.response("b")
    assert queue.send() == [("c", 1, 2), ("d", 1, 4)]


def test_an_out_of_order_error_before_the_response_to_the_first_batch_proves_nothing(queue: QueueDriver) -> None:
    queue.add_and_send("a", "b")
    assert queue.response("b", GAP) is BatchOutcome.RETRY
    queue.response("a")
    assert queue.wait().send() == [("b", 0, 2)]


def test_an_acknowledged_batch_proves_an_earlier_one_that_the_broker_has_forgotten(queue: QueueDriver) -> None:
    """A broker takes a batch only if it has those before it, and remembers the last five."""
    queue.add_and_send("a", "b", "c")
    queue.lose_and_send_again("a", "b", "c")
    queue.response("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert queue.response("b", ErrorCode.DUPLICATE_SEQUENCE_NUMBER) is BatchOutcome.DONE
    assert queue.proven == [], "a is asked about once more"
    queue.response("c", ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert queue.wait().send() == [("a", 0, 0)]
    assert queue.response("a", GAP) is BatchOutcome.DONE
    assert len(queue.queue) == 0


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER, None])
def test_acknowledgements_without_out_of_order_errors_prove_nothing(queue: QueueDriver, code: ErrorCode | None) -> None:
    queue.add_and_send("a", "b")
    if code is None:
        queue.lose("a")
    else:
        queue.queue.fail(queue.named("a"), queue.now, code.name, answered=code is not ErrorCode.REQUEST_TIMED_OUT)
    queue.response("b")
    assert queue.proven == []
    assert queue.wait().send() == [("a", 0, 0)]


def test_a_duplicate_of_the_last_batch_proves_the_batches_before_it(queue: QueueDriver) -> None:
    queue.add_and_send("a", "b", "c", "d")
    queue.lose_and_send_again("a", "b", "c", "d")
    assert queue.response("a", GAP) is BatchOutcome.RETRY
    assert queue.response("b", GAP) is BatchOutcome.RETRY
    assert queue.response("c", ErrorCode.DUPLICATE_SEQUENCE_NUMBER) is BatchOutcome.DONE
    assert queue.proven == ["a", "b"]
    assert queue.response("d") is BatchOutcome.DONE, "no new epoch, in which all would be there twice"
    assert len(queue.queue) == 0


def test_before_a_new_epoch_every_batch_that_may_be_written_is_sent_again() -> None:
    queue = QueueDriver(max_in_flight=2)
    queue.add_and_send("a", "b")
    queue.lose("a", "b")
    queue.queue._max_in_flight = 1
    queue.add("c")
    assert queue.wait().send() == [("a", 0, 0)]
    assert queue.response("a", GAP) is BatchOutcome.RETRY
    assert queue.send() == [("b", 0, 2)], "b, and not c, which was never sent"
    assert queue.response("b", GAP) is BatchOutcome.RETRY
    assert queue.wait().send() == [("a", 1, 0)]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, None])
def test_a_gap_that_not_all_responses_confirm_is_retried(queue: QueueDriver, code: ErrorCode | None) -> None:
    queue.add_and_send("a", "b")
    queue.lose_and_send_again("a", "b")
    queue.response("a", GAP)
    if code is None:
        queue.lose("b")
    else:
        queue.response("b", code)
    assert queue.wait().send() == [("a", 0, 0), ("b", 0, 2)]


def test_a_gap_before_an_acknowledged_batch_is_fatal(queue: QueueDriver) -> None:
    """Only a broker that forgot the producer takes b without a; to write a now would put it after b."""
    queue.add_and_send("a", "b")
    queue.response("a", ErrorCode.NOT_ENOUGH_REPLICAS)
    assert queue.response("b") is BatchOutcome.DONE
    assert queue.proven == []
    queue.wait().send()
    assert queue.response("a", GAP) is BatchOutcome.FATAL


def test_without_idempotence_nothing_is_proven() -> None:
    queue = QueueDriver(idempotent=False, max_in_flight=1)
    queue.add_and_send("a", "b")
    queue.lose_and_send_again("a")
    queue.response("a")
    assert queue.proven == []


def test_a_new_epoch_that_is_refused_is_fatal(queue: QueueDriver) -> None:
    queue.add_and_send("a")
    assert queue.response("a", GAP) is BatchOutcome.RETRY
    assert queue.wait().send() == [("a", 1, 0)]
    assert queue.response("a", GAP) is BatchOutcome.FATAL


def test_progress_allows_another_epoch(queue: QueueDriver) -> None:
    for epoch, name in enumerate("abc"):
        queue.add(name, f"after {name}")
        queue.wait().send()
        queue.response(name)
        queue.response(f"after {name}", GAP)
        assert queue.wait().send() == [(f"after {name}", epoch + 1, 0)]
        queue.response(f"after {name}")


@pytest.mark.parametrize(("log_start_offset", "epoch"), [(50, 1), (-1, 0)], ids=["retention", "no log start"])
def test_unknown_producer_id_starts_an_epoch_only_after_retention(
    queue: QueueDriver, log_start_offset: int, epoch: int
) -> None:
    queue.add_and_send("a")
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    assert queue.response("a", code, log_start_offset=log_start_offset) is BatchOutcome.RETRY
    assert queue.wait().send() == [("a", epoch, 0)]


def test_an_unknown_producer_whose_batch_may_be_written_must_not_write_it_again(queue: QueueDriver) -> None:
    queue.add_and_send("a")
    queue.lose_and_send_again("a")
    assert queue.response("a", ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset=50) is BatchOutcome.FATAL


def test_after_the_last_epoch_comes_a_new_producer_id() -> None:
    queue = QueueDriver(identity=ProducerIdAndEpoch(7, MAX_EPOCH))
    queue.add_and_send("a")
    queue.response("a", GAP)
    assert queue.queue.identity is None
    assert queue.queue.used_up_producer_id == 7
    queue.queue.identity = ProducerIdAndEpoch(8, 0)
    assert queue.wait().send() == [("a", 0, 0)]
    assert read_header(queue.named("a").encoded.buffer).producer_id == 8


def test_sequence_numbers_wrap_around() -> None:
    queue = QueueDriver()
    queue.queue._next_sequence = 2**31 - 1
    queue.add("a", "b")
    assert queue.send() == [("a", 0, 2**31 - 1), ("b", 0, 1)]


def test_pieces_of_a_batch_share_its_sequence_numbers_and_are_sent_without_a_pause(queue: QueueDriver) -> None:
    queue.add_and_send("a", "big", "c", records=4)
    queue.response("a")
    big = queue.named("big")
    assert queue.response("big", ErrorCode.MESSAGE_TOO_LARGE) is BatchOutcome.SPLIT
    big.last_error = "NOT_LEADER_OR_FOLLOWER"
    queue.split(big, 1, 3)
    assert queue.queue.last_error == "NOT_LEADER_OR_FOLLOWER"
    queue.response("c", GAP)
    assert queue.send() == [("big-0", 0, 4), ("big-1", 0, 5), ("c", 0, 8)]


def test_batches_as_large_as_a_refused_one_are_split_before_they_are_sent(queue: QueueDriver) -> None:
    queue.add_and_send("a", "b", "c", records=100)
    a, b, c = queue.queue.in_flight
    queue.response("a", ErrorCode.MESSAGE_TOO_LARGE)
    assert queue.queue.pieces_of(a) == 2
    queue.split(a, 50, 50)
    queue.response("b", ErrorCode.MESSAGE_TOO_LARGE)
    queue.split(b, 50, 50)
    queue.response("c", GAP)
    assert queue.queue.next_too_large is None
    refused = queue.queue.take(NODE)
    assert queue.response("a-0", ErrorCode.MESSAGE_TOO_LARGE) is BatchOutcome.SPLIT
    queue.split(refused, 25, 25)
    queue.queue.take(NODE)
    queue.queue.take(NODE)
    waiting = queue.queue.next_too_large
    assert waiting is not None
    assert queue.names[id(waiting.encoded)] == "a-1", "it is as large as a-0"
    assert (queue.queue.pieces_of(waiting), queue.queue.pieces_of(c)) == (2, 4)


def test_a_batch_that_waits_is_split_before_it_has_sequence_numbers(queue: QueueDriver) -> None:
    queue.add("a", records=20)
    queue.queue.too_large_bytes = 80
    waiting = queue.queue.next_too_large
    assert waiting is not None
    queue.split(waiting, 5, 15)
    queue.add("b")
    assert queue.send() == [("a-0", 0, 0), ("a-1", 0, 5), ("b", 0, 20)]


def test_batches_that_must_stay_as_they_are_are_not_too_large(queue: QueueDriver) -> None:
    """One that may be written is a duplicate for the broker only if it is sent unchanged."""
    queue.add_and_send("lost", records=20)
    queue.lose("lost")
    queue.queue.too_large_bytes = 1
    assert queue.queue.next_too_large is None
    queue.wait().send()
    queue.add("single", records=1)
    assert queue.queue.next_too_large is None


@pytest.mark.parametrize("code", [GAP, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_pieces_of_a_batch_that_may_be_written_do_not_begin_a_new_epoch(queue: QueueDriver, code: ErrorCode) -> None:
    """The broker may have written it before max.message.bytes was lowered, and does not know its pieces."""
    queue.add_and_send("a", records=20)
    a = queue.named("a")
    queue.lose_and_send_again("a")
    queue.response("a", ErrorCode.MESSAGE_TOO_LARGE)
    queue.split(a, 10, 10)
    (first, *_) = queue.send()
    assert first == ("a-0", 0, 0)
    assert queue.response("a-0", code, log_start_offset=50) is BatchOutcome.FATAL


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.MESSAGE_TOO_LARGE]
)
def test_errors_of_a_single_record_that_are_not_retriable_are_fatal(queue: QueueDriver, code: ErrorCode) -> None:
    queue.add_and_send("a", records=1)
    assert queue.response("a", code) is BatchOutcome.FATAL


def test_while_batches_are_in_flight_none_goes_to_another_broker(queue: QueueDriver) -> None:
    assert queue.queue.may_go_to(2)
    queue.add_and_send("a")
    assert queue.queue.may_go_to(NODE)
    assert not queue.queue.may_go_to(2)
    queue.response("a")
    assert queue.queue.may_go_to(2)


def test_the_earliest_deadline_is_that_of_the_oldest_batch(queue: QueueDriver) -> None:
    queue.add("a")
    queue.now = 5
    queue.add("b")
    assert queue.queue.expires_at() == 60
    queue.send()
    queue.response("a")
    assert queue.queue.expires_at() == 65
    queue.lose("b")
    assert queue.queue.expires_at() == 65


def test_wakes_at_is_the_end_of_a_pause(queue: QueueDriver) -> None:
    queue.add("a")
    queue.queue.postpone(queue.now, "no leader")
    wakes_at = queue.queue.wakes_at()
    assert wakes_at is not None
    assert 0.07 < wakes_at < 0.13
    assert queue.queue.last_error == "no leader"
    assert queue.send() == []
    queue.now = wakes_at
    assert len(queue.send()) == 1
    assert queue.queue.wakes_at() is None


def test_the_last_error_is_of_the_first_batch_that_is_not_acknowledged(queue: QueueDriver) -> None:
    queue.add_and_send("a", "b")
    queue.response("a", ErrorCode.NOT_ENOUGH_REPLICAS)
    queue.response("b", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert queue.queue.last_error == "NOT_ENOUGH_REPLICAS"
    queue.wait().send()
    queue.response("a")
    assert queue.queue.last_error == "NOT_LEADER_OR_FOLLOWER"
    queue.response("b")
    assert queue.queue.last_error == ""


def test_attempts_are_those_of_the_batch_in_flight_before_those_that_wait() -> None:
    queue = QueueDriver(max_in_flight=1)
    queue.add_and_send("a", "b")
    assert queue.queue.attempts == 1
    queue.lose("a")
    assert queue.queue.attempts == 1, "a waits for its retry"
    queue.wait().send()
    queue.response("a")
    assert queue.queue.attempts == 0


def test_a_transaction_has_the_epoch_that_it_began_with() -> None:
    queue = QueueDriver(transactional=True, identity=ProducerIdAndEpoch(7, 3))
    queue.queue.continue_at(ProducerIdAndEpoch(7, 3), 40)
    queue.add("a", "b")
    assert queue.send() == [("a", 3, 40), ("b", 3, 42)]
    assert all(read_header(batch.encoded.buffer).is_transactional for batch in queue.queue.in_flight)
    queue.response("a")
    assert queue.queue.outcome_of(queue.named("b"), GAP) is BatchOutcome.FATAL


def test_pieces_of_a_transactional_batch_are_transactional_too() -> None:
    queue = QueueDriver(transactional=True)
    queue.add_and_send("a", records=2)
    queue.split(queue.named("a"), 1, 1)
    assert queue.send() == [("a-0", 0, 0), ("a-1", 0, 1)]
    assert all(read_header(batch.encoded.buffer).is_transactional for batch in queue.queue.in_flight)
