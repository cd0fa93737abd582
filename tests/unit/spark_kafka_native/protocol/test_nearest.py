import pytest

from spark_kafka_native.protocol.nearest import did_you_mean, nearest_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [("--lst", "--list"), ("--TOPICS", "--topic"), ("FECTH", None), ("", None)],
)
def test_the_nearest_known_name(name: str, expected: str | None) -> None:
    assert nearest_name(name, ["--list", "--topic"]) == expected
    assert did_you_mean(name, ["--list", "--topic"]) == ("" if expected is None else f"; did you mean {expected}?")


def test_a_name_keeps_its_case() -> None:
    assert did_you_mean("includeheader", ["includeHeaders"]) == "; did you mean includeHeaders?"
