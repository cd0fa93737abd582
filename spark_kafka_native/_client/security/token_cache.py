"""A token that is kept until it has to be fetched again."""

import base64
import json
import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from spark_kafka_native._client.security.config import SecurityConfig
from spark_kafka_native._net.sasl.oauthbearer import BearerToken

RETRY_S: Final = 10.0
"""Pause before another try to fetch a token while the last one is valid."""

_log = logging.getLogger(__name__)


class TokenCache:
    """The token of new connections, fetched as rarely as the ``sasl.login.refresh.*`` properties allow.

    A token whose end is not known is used once. Threads may share it.
    """

    def __init__(
        self, fetch: Callable[[], BearerToken], config: SecurityConfig, *, clock: Callable[[], float] = time.time
    ) -> None:
        """``clock`` gives seconds since 1970."""
        self._fetch = fetch
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._token: BearerToken | None = None
        self._refresh_at = 0.0

    def token(self) -> BearerToken:
        """A valid token. Raises the error of ``fetch`` if none is left."""
        with self._lock:
            now = self._clock()
            if self._token is not None and now < self._refresh_at:
                return self._token
            try:
                token = self._fetch()
            except Exception as error:  # a user's function may raise anything
                # The token server may rest for a while: the old token counts until its end, and not every connection
                # has to find out.
                good_for_s = 0.0 if self._token is None else (self._token.expires_at or 0.0) - now
                if self._token is None or good_for_s <= 0:
                    raise
                _log.warning("no new token yet (%s); the last one is good for %d s", type(error).__name__, good_for_s)
                self._refresh_at = now + RETRY_S
                return self._token
            self._token = token
            self._refresh_at = refresh_at(now, token.expires_at, self._config, random.random())
            return token


def refresh_at(now: float, expires_at: float | None, config: SecurityConfig, chance: float) -> float:
    """When to fetch the token after one that ends at ``expires_at``; ``chance`` is from 0 to 1."""
    if expires_at is None or expires_at <= now:
        return now
    life = expires_at - now
    share = config.sasl_login_refresh_window_factor + config.sasl_login_refresh_window_jitter * chance
    at = now + life * min(share, 1.0)
    least, buffer = config.sasl_login_refresh_min_period_seconds, config.sasl_login_refresh_buffer_seconds
    if life > least + buffer:
        at = max(min(at, expires_at - buffer), now + least)
    return at


def expiry_of(token: str) -> float | None:
    """When a JSON web token ends, in seconds since 1970; None if the text is no such token, or has no end."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None
