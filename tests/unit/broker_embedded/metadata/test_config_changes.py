import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._metadata.config_changes import changed, incremental, unsupported
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.refusals import refused

SET, DELETE, APPEND, SUBTRACT = range(4)
KNOWN = LogConfig.settings()


def after(current: dict[str, str], *entries: tuple[str, int, str | None]) -> dict[str, str]:
    return changed(current, incremental(entries), KNOWN)


def test_settings_are_set_and_deleted() -> None:
    assert after({}, ("retention.ms", SET, "5")) == {"retention.ms": "5"}
    assert after({"retention.ms": "5"}, ("retention.ms", SET, "6"), ("segment.ms", SET, "7")) == {
        "retention.ms": "6",
        "segment.ms": "7",
    }
    assert after({"retention.ms": "5", "segment.ms": "7"}, ("retention.ms", DELETE, None)) == {"segment.ms": "7"}
    assert after({}, ("retention.ms", DELETE, "5"), ("no.such", DELETE, None)) == {}


def test_changes_do_not_alter_the_current_configs_in_place() -> None:
    current = {"cleanup.policy": "compact"}
    after(current, ("cleanup.policy", APPEND, "delete"), ("retention.ms", SET, "1"))
    assert current == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("current", "operation", "value", "result"),
    [
        ({}, APPEND, "compact", "delete,compact"),
        ({}, APPEND, "delete", "delete"),
        ({}, SUBTRACT, "delete", ""),
        ({"cleanup.policy": "compact"}, APPEND, "compact,delete", "compact,delete"),
        ({"cleanup.policy": ""}, APPEND, "compact", "compact"),
        ({"cleanup.policy": "compact,delete"}, SUBTRACT, "compact", "delete"),
        ({"cleanup.policy": "delete"}, SUBTRACT, "compact", "delete"),
    ],
)
def test_lists_grow_and_shrink_from_what_they_are_or_from_the_default(
    current: dict[str, str], operation: int, value: str, result: str
) -> None:
    assert after(current, ("cleanup.policy", operation, value)) == {"cleanup.policy": result}


@pytest.mark.parametrize("key", ["retention.ms", "no.such"])
@pytest.mark.parametrize(("operation", "named"), [(APPEND, "APPEND"), (SUBTRACT, "SUBTRACT")])
def test_append_and_subtract_of_a_setting_that_is_no_list_are_refused(key: str, operation: int, named: str) -> None:
    error = refused(after, {}, (key, operation, "1"))
    assert error.code is ErrorCode.INVALID_CONFIG
    assert error.detail == f"Can't {named} to key {key} because its type is not LIST."


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([("a", SET, "1"), ("a", DELETE, None)], "Error due to duplicate config keys"),
        ([("a", SET, None), ("b", APPEND, None), ("c", SUBTRACT, "1")], "Null value not supported for : a, b"),
        ([("a", 9, "1")], "a: there is no operation 9."),
    ],
)
def test_invalid_config_changes_are_refused(entries: list[tuple[str, int, str | None]], said: str) -> None:
    error = refused(incremental, entries)
    assert (error.code, error.detail) == (ErrorCode.INVALID_REQUEST, said)


def test_settings_are_replaced() -> None:
    assert unsupported([("a", "1"), ("b", "")]) == {"a": "1", "b": ""}
    with pytest.raises(KafkaError, match="duplicate config keys"):
        unsupported([("a", "1"), ("a", "2")])
    with pytest.raises(KafkaError, match="Null value not supported for : b"):
        unsupported([("a", "1"), ("b", None)])
