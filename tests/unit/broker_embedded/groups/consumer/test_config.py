"""Which moves a policy allows."""

from broker_embedded.groups.consumer.config import ConsumerConfig, ConsumerContext, MigrationPolicy


def test_policies() -> None:
    allowed = {policy.value: (policy.allows_upgrade, policy.allows_downgrade) for policy in MigrationPolicy}
    assert allowed == {
        "disabled": (False, False),
        "downgrade": (False, True),
        "upgrade": (True, False),
        "bidirectional": (True, True),
    }


def test_what_a_group_goes_by_unless_told_otherwise_is_kafkas() -> None:
    config = ConsumerContext().config("any")
    assert config == ConsumerConfig()
    assert (config.session_timeout_ms, config.heartbeat_interval_ms, config.assignment_interval_ms) == (
        45000,
        5000,
        1000,
    )
    assert (config.max_size, config.assignors) == (2**31 - 1, ("uniform", "range"))
    assert dict(ConsumerContext().topics().by_name) == {}
