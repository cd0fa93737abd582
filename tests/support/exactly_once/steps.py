"""Steps of the exactly-once protocol that end before their end, as in a process that is killed."""

from spark_kafka_native.spark.exactly_once.effects import EndTransactions, Steps


class Killed(Exception):
    """The process ends here."""


def killed_after_decision(steps: Steps[None]) -> Steps[None]:
    """The steps of a commit, up to where the first transaction of a task is to be committed. Raises Killed then."""
    effect = next(steps)
    while not (isinstance(effect, EndTransactions) and not effect.ends[0].transactional_id.endswith(".driver")):
        effect = steps.send((yield effect))
    raise Killed
