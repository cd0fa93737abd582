"""Checks of arguments of the record clients. Errors name the argument."""

from spark_kafka_native._client.config_def import INT32_MAX
from spark_kafka_native._protocol.topic import TopicPartition, topic_name_problem


def check_topic(topic: object) -> str:
    """A topic name. Raises TypeError; ValueError."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be str, not {type(topic).__name__}")
    if (problem := topic_name_problem(topic)) is not None:
        raise ValueError(problem)
    return topic


def check_partition(partition: object) -> TopicPartition:
    """A pair of topic and partition number. Raises TypeError; ValueError."""
    if not (isinstance(partition, tuple) and len(partition) == 2):
        raise TypeError(f"a partition must be a tuple of topic and number, not {partition!r:.100}")
    topic, number = partition
    return TopicPartition(check_topic(topic), check_integer("partition", number, 0, INT32_MAX))


def check_integer(name: str, number: object, least: int, most: int) -> int:
    """An int within inclusive bounds. Raises TypeError; ValueError."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{name} must be int, not {type(number).__name__}")
    if not least <= number <= most:
        raise ValueError(f"{name} {number} is out of bounds: {least} to {most}")
    return number


def check_text(name: str, text: object) -> str:
    """A str that can be sent. Raises TypeError; ValueError."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} {text!r:.100} is no text: {error}") from error
    return text
