"""The SCRAM credentials of users. `_metadata.store` has the steps of a change."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from broker_embedded._metadata.files.credentials import CREDENTIALS
from broker_embedded._metadata.store import MetadataStore
from broker_embedded._platform.platform import FileSystem
from broker_embedded._security.alterations import Results, altered, described
from broker_embedded._security.credentials import Credentials, ScramCredential, ScramUser
from broker_embedded._security.first_users import FirstUser
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

logger = logging.getLogger(__name__)


class ScramUsers:
    """All SCRAM credentials. Belongs to the event loop."""

    def __init__(self, store: MetadataStore, first_users: Iterable[FirstUser]) -> None:
        """Create the first users that do not exist. Blocks. Raises OSError."""
        self._store = store
        store.commit_at_start(CREDENTIALS, lambda now: _with_users(now, first_users))

    @property
    def _credentials(self) -> Credentials:
        return self._store.current.credentials

    def credential(self, user: ScramUser) -> ScramCredential | None:
        """The credential of a user for a mechanism, or None."""
        return self._credentials.get(user)

    def names(self) -> tuple[ScramUser, ...]:
        """The credentials that exist: pairs of a user and a mechanism."""
        return tuple(self._credentials)

    def describe(self, names: Iterable[str] | None) -> dict[str, dict[str, int] | KafkaError]:
        """The iterations of each mechanism, or an error, by user; of all users for None or no names."""
        return described(self._credentials, names)

    async def alter(
        self, deletions: Sequence[ScramCredentialDeletion], upsertions: Sequence[ScramCredentialUpsertion]
    ) -> Results:
        """Change credentials, each user independently; the error or None, by user.

        Raises KafkaError KAFKA_STORAGE_ERROR: the file has the old ones, or if the last step failed, the new ones.
        """
        results: Results = {}

        def planned(now: Credentials) -> Credentials:
            credentials, found = altered(now, deletions, upsertions)
            results.update(found)
            return credentials

        await self._store.commit(CREDENTIALS, planned)
        return results

    async def use_registered(self, name: str, registered: Mapping[str, ScramCredential]) -> None:
        """Replace a user's credentials of ZooKeeper, by mechanism. Those that clients have created are kept.

        Raises KafkaError KAFKA_STORAGE_ERROR: as ``alter``.
        """

        def planned(now: Credentials) -> Credentials:
            kept = {user: each for user, each in now.items() if user.name != name or not each.is_registered}
            return kept | {ScramUser(name, mechanism): each for mechanism, each in registered.items()}

        await self._store.commit(CREDENTIALS, planned)


def add_users(file_system: FileSystem, data_dir: str, users: Iterable[FirstUser]) -> Credentials:
    """All credentials of a data directory without a running broker, after creating those of ``users`` that are missing.

    Raises OSError, MetadataFileError.
    """
    found = CREDENTIALS.read(file_system, data_dir)
    credentials = _with_users(found, users)
    if credentials is not found:
        CREDENTIALS.write(file_system, data_dir, credentials)
    return credentials


def _with_users(found: Credentials, users: Iterable[FirstUser]) -> Credentials:
    """The credentials with those of ``users`` that do not exist; ``found`` itself if all do."""
    new = {user.user: user.credential() for user in users if user.user not in found}
    if not new:
        return found
    logger.info("created SCRAM users: %s", ", ".join(f"{user.name} ({user.mechanism})" for user in new))
    return {**found, **new}
