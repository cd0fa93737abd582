import pytest
from dirty_equals import Contains

from tests.support.tools import Tool
from tests.support.waiting import eventually


def described_as(on_broker: Tool, named: tuple[str, ...], *lines: str) -> None:
    eventually(lambda: on_broker("kafka-configs", "--describe", *named).lines, list(lines))


@pytest.mark.parametrize(
    ("named", "entity", "shown"),
    [
        (("--user", "quota-u"), "config for user quota-u", "user-principal 'quota-u'"),
        (("--entity-type", "clients", "--entity-name", "quota-c"), "config for client quota-c", "client-id 'quota-c'"),
        (("--client-defaults",), "default config for clients in the cluster", "the default client-id"),
        (
            ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "quota-d"),
            "config for client quota-d",
            "the default user-principal, client-id 'quota-d'",
        ),
        (
            ("--entity-type", "clients", "--entity-name", "quota-e", "--entity-type", "users", "--entity-name", "q-u"),
            "config for client quota-e",
            "user-principal 'q-u', client-id 'quota-e'",
        ),
    ],
)
def test_quotas_are_set_and_deleted(on_broker: Tool, named: tuple[str, ...], entity: str, shown: str) -> None:
    changed = on_broker("kafka-configs", "--alter", *named, "--add-config", "producer_byte_rate=5000")
    assert (changed.status, changed.out) == (0, f"Completed updating {entity}.\n")
    described_as(on_broker, named, f"Quota configs for {shown} are producer_byte_rate=5000.0")
    assert on_broker("kafka-configs", "--alter", *named, "--delete-config", "producer_byte_rate").status == 0
    described_as(on_broker, named)


def test_quotas_of_addresses(on_broker: Tool) -> None:
    changed = on_broker("kafka-configs", "--alter", "--ip", "127.9.9.9", "--add-config", "connection_creation_rate=5")
    assert (changed.status, changed.out) == (0, "Completed updating config for ip 127.9.9.9.\n")
    line = "Quota configs for ip '127.9.9.9' are connection_creation_rate=5.0"
    eventually(lambda: on_broker("kafka-configs", "--describe", "--entity-type", "ips").lines, Contains(line))
    assert (
        on_broker("kafka-configs", "--alter", "--ip", "127.9.9.9", "--delete-config", "connection_creation_rate").status
        == 0
    )


def test_users_of_scram(on_broker: Tool) -> None:
    named = ("--entity-type", "users", "--entity-name", "scram-u")
    made = on_broker("kafka-configs", "--alter", *named, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=a,b]")
    assert (made.status, made.out) == (0, "Completed updating config for user scram-u.\n")
    assert on_broker("kafka-configs", "--alter", *named, "--add-config", "SCRAM-SHA-512=[password=c]").status == 0
    line = (
        "SCRAM credential configs for user-principal 'scram-u' are "
        "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    )
    described_as(on_broker, named, line)
    assert line in on_broker("kafka-configs", "--describe", "--entity-type", "users").lines
    both = on_broker("kafka-configs", "--alter", *named, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    assert (both.status, "altered twice" in both.err) == (1, True)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert on_broker("kafka-configs", "--alter", *named, "--delete-config", mechanism).status == 0
    described_as(on_broker, named)
    again = on_broker("kafka-configs", "--alter", *named, "--delete-config", "SCRAM-SHA-512")
    assert (again.status, "user credential" in again.err) == (1, True)
