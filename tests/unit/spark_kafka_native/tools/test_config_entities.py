import click
import pytest

from spark_kafka_native._command_line.commands import Options, ToolCommand
from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._command_line.parameters import flag
from spark_kafka_native._tools.config_entities import Entity, entity_options, read_entities


def read(*arguments: str, alter: bool = False) -> tuple[Entity, ...]:
    @click.command("kafka-configs", cls=ToolCommand)
    @flag("--alter")
    @entity_options
    def command(**_: object) -> None:
        """Not called."""

    given = [*arguments, *(["--alter"] if alter else [])]
    return read_entities(Options(**command.make_context("kafka-configs", given).params))


@pytest.mark.parametrize(
    ("arguments", "entities"),
    [
        (["--entity-type", "topics"], [Entity("topics")]),
        (["--entity-type", "brokers", "--entity-name", "1"], [Entity("brokers", "1")]),
        (["--broker", "1"], [Entity("brokers", "1")]),
        (["--entity-default", "--entity-type", "brokers"], [Entity("brokers", None, True)]),
        (["--entity-type", "users", "--entity-name", ""], [Entity("users", None, True)]),
        (["--ip-defaults"], [Entity("ips", None, True)]),
        (["--client", "c", "--user-defaults"], [Entity("users", None, True), Entity("clients", "c")]),
        (
            ["--entity-type", "clients", "--entity-type", "users", "--entity-default", "--entity-name", "u"],
            [Entity("users", "u"), Entity("clients", None, True)],
        ),
        (
            ["--entity-type", "users", "--entity-name", "u", "--entity-type", "clients"],
            [Entity("users", "u"), Entity("clients")],
        ),
    ],
)
def test_config_entities_of_options(arguments: list[str], entities: list[Entity]) -> None:
    assert read(*arguments) == tuple(entities)


def test_all_entities_cannot_be_altered() -> None:
    assert read("--entity-type", "users")[0].is_all
    with pytest.raises(InvalidOption, match="--entity-name is required with --alter"):
        read("--entity-type", "users", alter=True)
    assert read("--entity-type", "users", "--entity-default", alter=True) == (Entity("users", None, True),)


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        (Entity("users", "u"), "config for user u"),
        (Entity("clients", None, True), "default config for clients in the cluster"),
    ],
)
def test_names_of_entities(entity: Entity, text: str) -> None:
    assert str(entity) == text
