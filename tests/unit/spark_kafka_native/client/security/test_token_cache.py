import base64
import json

import pytest

from spark_kafka_native._client.security.config import SecurityConfig
from spark_kafka_native._client.security.token_cache import RETRY_S, TokenCache, expiry_of, refresh_at
from spark_kafka_native._net.sasl.oauthbearer import BearerToken
from spark_kafka_native._net.secret import Secret

CONFIG = SecurityConfig()


class Source:
    """Tokens that live for so long, counted; out of reach while ``down``."""

    def __init__(self, life_s: float | None) -> None:
        self.now = 1_000.0
        self.life_s = life_s
        self.asked = self.fetched = 0
        self.down = False
        self.cache = TokenCache(self._fetch, CONFIG, clock=lambda: self.now)

    def _fetch(self) -> BearerToken:
        self.asked += 1
        if self.down:
            raise OSError("down")
        self.fetched += 1
        ends = None if self.life_s is None else self.now + self.life_s
        return BearerToken(value=Secret(str(self.fetched)), expires_at=ends)

    def token(self) -> str:
        return self.cache.token().value.reveal()


def test_a_token_is_kept_until_most_of_its_life_is_over() -> None:
    source = Source(1_000)
    assert [source.token(), source.token()] == ["1", "1"]
    source.now += 690
    assert source.token() == "1"
    source.now += 20  # 300 s before its end
    assert source.token() == "2"


def test_a_valid_token_is_used_while_its_server_is_down() -> None:
    source = Source(1_000)
    source.token()
    source.now, source.down = source.now + 900, True
    assert source.token() == "1"
    source.now += 100
    with pytest.raises(OSError, match="down"):
        source.token()


def test_a_server_that_is_down_gets_no_request_for_every_connection(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(1_000)
    source.token()
    source.now, source.down = source.now + 900, True
    assert [source.token() for _ in range(5)] == ["1"] * 5
    assert source.asked == 2
    assert "no new token yet (OSError); the last one is good for 100 s" in caplog.text
    source.now, source.down = source.now + RETRY_S, False
    assert source.token() == "2"


def test_a_token_that_does_not_say_its_end_is_used_once() -> None:
    source = Source(None)
    assert [source.token(), source.token()] == ["1", "2"]


@pytest.mark.parametrize(
    ("life_s", "chance", "at"),
    [
        (3_600, 0.0, 2_880),
        (3_600, 1.0, 3_060),
        (1_000, 1.0, 700),
        (370, 1.0, 70),
        (100, 0.0, 80),
        (0, 0.0, 0),
        (-5, 0, 0),
    ],
)
def test_when_to_fetch_the_next(life_s: float, chance: float, at: float) -> None:
    assert refresh_at(0, life_s, CONFIG, chance) == pytest.approx(at)


@pytest.mark.parametrize("token", ["opaque", "a.b", "a.!.c", "a.e30.c", "a.W10.c", ""])
def test_tokens_that_do_not_say_their_end(token: str) -> None:
    assert expiry_of(token) is None


def test_a_tokens_own_end() -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 123}).encode()).rstrip(b"=").decode()
    assert expiry_of(f"x.{claims}.y") == 123.0
