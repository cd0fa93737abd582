"""What must hold in every state of the simulated cluster, whatever Spark and the protocol have done.

No row is readable twice, or of a batch that is not decided; what is decided is not aborted, but by time; and it is
decided only while it has long enough to live.
"""

from spark_kafka_native._spark.exactly_once.timing import Timing
from tests.support.exactly_once.model_kafka import ONGOING, PREPARE_COMMIT, TICK_MS, Fate, Kafka, Row, decided


class Violation(Exception):
    """A state that must not be."""


class Promises:
    """Those of one scenario. ``driver`` is the id that decides; ``repairs``: what is decided may be taken back."""

    def __init__(self, driver: str, timing: Timing, *, repairs: bool) -> None:
        self._driver = driver
        self._left = (timing.margin_ms - timing.decision_timeout_ms) // TICK_MS
        self._repairs = repairs

    def check(self, kafka: Kafka) -> None:
        """Raise Violation where a state must not be."""
        named = self._decided(kafka)
        readable: set[Row] = set()
        for name, known in kafka.ids:
            if known.fate == Fate.COMMITTED:
                assert known.row is not None
                if known.row in readable:
                    raise Violation(f"row {known.row} is readable twice")
                readable.add(known.row)
                if name not in named:
                    raise Violation(f"row {known.row} is readable, and not decided")
            if known.fate == Fate.ABORTED and name in named and not self._repairs:
                raise Violation(f"{name} is decided, and aborted")

    def check_decision(self, before: Kafka, after: Kafka) -> None:
        """Raise Violation: what is decided by this step does not live, or not for as long as is promised."""
        was, is_now = (dict(kafka.ids).get(self._driver) for kafka in (before, after))
        if was is None or is_now is None or was.state != ONGOING or is_now.state != PREPARE_COMMIT:
            return
        ids = dict(after.ids)
        for name in self._decided(after) - self._decided(before):
            known = ids[name]
            if known.state != ONGOING or known.started + known.timeout - after.now < self._left:
                raise Violation(f"{name} is decided, and has not long enough to live")

    def is_lost(self, kafka: Kafka) -> bool:
        """Whether a decided transaction has timed out."""
        named = self._decided(kafka)
        return any(known.fate == Fate.TIMED_OUT for name, known in kafka.ids if name in named)

    def _decided(self, kafka: Kafka) -> set[str]:
        driver = dict(kafka.ids).get(self._driver)
        prepared = driver is not None and driver.state == PREPARE_COMMIT
        batches = (batch for batch in kafka.log if batch.status == 1 or (batch.status == 0 and prepared))
        return {name for batch in batches for name in decided(batch.records) or ()}
