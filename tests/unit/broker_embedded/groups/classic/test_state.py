"""The words that classic groups are described with."""

from broker_embedded.groups.classic.state import JOIN_TIMER, SYNC_TIMER, ClassicConfig, ClassicState, session_timer


def test_states_are_called_as_kafka_calls_them() -> None:
    assert [state.value for state in ClassicState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
    ]


def test_timers_do_not_meet() -> None:
    assert len({JOIN_TIMER, SYNC_TIMER, session_timer("join"), session_timer("sync"), session_timer("m")}) == 5


def test_defaults_are_kafkas() -> None:
    config = ClassicConfig()
    assert (config.initial_rebalance_delay_ms, config.max_size) == (3000, 2**31 - 1)
    assert (config.min_session_timeout_ms, config.max_session_timeout_ms) == (6000, 1_800_000)
