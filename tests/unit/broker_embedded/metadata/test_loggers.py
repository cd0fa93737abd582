import logging
from collections.abc import Iterator

import pytest

from broker_embedded._metadata.config_changes import ConfigChange, Operation
from broker_embedded._metadata.loggers import change_levels, logger_levels
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

NAME = "broker_embedded.test_of_loggers"


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """A logger to play with, and the levels as they were afterwards."""
    loggers = [logging.getLogger(name) for name in ("broker_embedded", NAME)]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def set_to(name: str, level: str | None, operation: Operation = Operation.SET) -> tuple[ConfigChange, ...]:
    return (ConfigChange(key=name, operation=operation, value=level),)


@pytest.mark.parametrize(
    ("level", "number"), [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)]
)
def test_a_level_goes_in_and_comes_out(level: str, number: int) -> None:
    change_levels(set_to(NAME, level), validate_only=False)
    assert logging.getLogger(NAME).level == number
    assert logger_levels()[NAME] == level


def test_root_is_the_logger_of_the_broker_only() -> None:
    around = logging.getLogger().level
    change_levels(set_to("root", "FATAL"), validate_only=False)
    assert (logger_levels()["root"], logger_levels()[NAME]) == ("FATAL", "FATAL")
    assert logging.getLogger().level == around
    assert not any(name == "spark_kafka_native" or name.startswith("tests") for name in logger_levels())


def test_without_a_level_of_its_own_a_logger_goes_by_the_one_above() -> None:
    change_levels((*set_to("root", "ERROR"), *set_to(NAME, "DEBUG")), validate_only=False)
    change_levels(set_to(NAME, None, Operation.DELETE), validate_only=False)
    assert logger_levels()[NAME] == "ERROR"


def test_a_level_without_a_name_in_kafka() -> None:
    logging.getLogger(NAME).setLevel(25)
    assert logger_levels()[NAME] == "INFO"
    logging.getLogger(NAME).setLevel(1)
    assert logger_levels()[NAME] == "TRACE"


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        (set_to("unknown", "INFO"), ErrorCode.INVALID_CONFIG, "Logger unknown does not exist!"),
        (set_to("unknown", None, Operation.DELETE), ErrorCode.INVALID_CONFIG, "Logger unknown does not exist!"),
        (set_to(NAME, "NOISY"), ErrorCode.INVALID_CONFIG, "NOISY is not a log level"),
        (set_to(NAME, "info"), ErrorCode.INVALID_CONFIG, "info is not a log level"),
        (set_to(NAME, "INFO", Operation.APPEND), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        (
            set_to("root", None, Operation.DELETE),
            ErrorCode.INVALID_REQUEST,
            "The level of the root logger cannot be deleted",
        ),
    ],
)
def test_invalid_level_changes_change_no_level(changes: tuple[ConfigChange, ...], code: ErrorCode, said: str) -> None:
    before = logging.getLogger(NAME).level
    with pytest.raises(KafkaError, match=said) as caught:
        change_levels((*set_to(NAME, "TRACE"), *changes), validate_only=False)
    assert caught.value.code is code
    assert logging.getLogger(NAME).level == before


def test_checking_alone_changes_nothing() -> None:
    before = logging.getLogger(NAME).level
    change_levels(set_to(NAME, "TRACE"), validate_only=True)
    assert logging.getLogger(NAME).level == before
