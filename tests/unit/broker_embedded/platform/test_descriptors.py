import resource
from collections.abc import Callable

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._platform.open_files import connection_share, file_share, raise_limit
from broker_embedded._server.connection_quotas import ConnectionQuotas

INFINITE = resource.RLIM_INFINITY
Limits = tuple[int, int]


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], list[Limits]]:
    """Sets the soft and the hard limit; the list has what was set in their place."""

    def limit(soft: int, hard: int) -> list[Limits]:
        now = [(soft, hard)]
        monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
        monkeypatch.setattr(resource, "setrlimit", lambda _, limits: now.append(limits))
        return now

    return limit


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1024, 4096, 4096),
        (1024, 1 << 20, 65_536),
        (1024, INFINITE, 65_536),
        (100_000, 1 << 20, 100_000),
        (INFINITE, INFINITE, INFINITE),
    ],
)
def test_the_limit_is_raised_and_never_lowered(
    limited: Callable[[int, int], list[Limits]], soft: int, hard: int, raised: int
) -> None:
    limits = limited(soft, hard)
    raise_limit()
    assert limits[-1] == (raised, hard)


@pytest.mark.parametrize(
    ("soft", "files", "connections"), [(16, 16, 1), (128, 64, 48), (1024, 512, 448), (65_536, 4096, 61_376)]
)
def test_log_files_and_connections_have_shares(
    limited: Callable[[int, int], list[Limits]], soft: int, files: int, connections: int
) -> None:
    limited(soft, soft)
    assert (file_share(), connection_share()) == (files, connections)


def test_without_a_limit_connections_are_not_limited(limited: Callable[[int, int], list[Limits]]) -> None:
    limited(INFINITE, INFINITE)
    assert (file_share(), connection_share()) == (4096, None)


@pytest.mark.parametrize(
    ("configured", "allowed", "reason"), [(40, 40, "max.connections"), (60, 48, "their share of the open files")]
)
def test_the_smaller_limit_of_connections_counts(
    limited: Callable[[int, int], list[Limits]], configured: int, allowed: int, reason: str
) -> None:
    limited(128, 128)
    config = BrokerConfig.parse({"max.connections": configured})
    connection_quotas = ConnectionQuotas(lambda: config, lambda _: -1.0)
    assert connection_quotas.limit[0] == allowed
    assert connection_quotas.limit[1].startswith(reason)
