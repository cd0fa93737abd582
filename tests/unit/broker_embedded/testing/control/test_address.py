import pytest

from broker_embedded._config.settings import SettingError
from broker_embedded._platform.clocks import ManualClock, MovableClock, ShiftedClock, SystemClock
from broker_embedded._testing.clocks import format_clock, parse_clock
from broker_embedded._testing.control.address import LISTENER_OPTION, LOOPBACK, ControlAddress


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (LOOPBACK, "127.0.0.1", 0),
        ("localhost:8123", "localhost", 8123),
        ("[::1]:1", "::1", 1),
        ("127.9.9.9:5", "127.9.9.9", 5),
    ],
)
def test_loopback_hosts_are_allowed(text: str, host: str, port: int) -> None:
    assert ControlAddress.parse("--x", text) == ControlAddress(host=host, port=port)


@pytest.mark.parametrize("text", ["0.0.0.0:1", ":1", "[::]:1", "192.0.2.1:1"])
def test_other_hosts_are_allowed_only_if_configured(text: str) -> None:
    with pytest.raises(SettingError, match=r"^--x: other machines can reach .* could stop the broker; listen on 127"):
        ControlAddress.parse("--x", text)
    assert ControlAddress.parse("--x", text, allow_remote=True).port == 1


def test_the_option_that_allows_other_hosts_is_named() -> None:
    with pytest.raises(SettingError, match=r"listen on 127\.0\.0\.1:0, or allow it with --control-from-anywhere$"):
        ControlAddress.parse(LISTENER_OPTION, "0.0.0.0:0")


def test_a_host_without_an_address_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^--x: the host name 'no-such-host\.invalid' has no address$"):
        ControlAddress.parse("--x", "no-such-host.invalid:1")


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:x", "::1:5"])
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"is not HOST:PORT"):
        ControlAddress.parse("--x", text)


def test_a_manual_clock_starts_at_the_current_time_by_default() -> None:
    before = SystemClock().now_ms()
    clock = ManualClock()
    assert before <= clock.now_ms() <= SystemClock().now_ms()
    assert ManualClock(5).now_ms() == 5


@pytest.mark.parametrize("clock", [ManualClock(5), ShiftedClock(), ShiftedClock(7)])
def test_a_clock_can_be_written_down(clock: MovableClock) -> None:
    clock.advance(1000)
    read = parse_clock("--clock", format_clock(clock))
    assert type(read) is type(clock)
    assert format_clock(read) == format_clock(clock)


@pytest.mark.parametrize("text", ["manual", "manual:", "manual:-1", "ahead:x", "slow:5", ""])
def test_other_clocks_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"--clock.*must be manual:MS or ahead:MS"):
        parse_clock("--clock", text)
