"""The users of SCRAM: in force, on the disk, and changed without a moment in which they are neither.

Changing credentials:

1. The changes are checked against what there is. Crash here: nothing has happened.
2. ``scram-credentials.json`` is replaced by one that has them. Crash here: the next start reads it.
3. They hold from here on; the request is answered.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Sequence

from broker_embedded.metadata import credentials_file
from broker_embedded.platform.finishing import Finishing
from broker_embedded.platform.platform import FileSystem, write_file
from broker_embedded.platform.stored_files import OnDisk, read_private_file, remove_unfinished, replace_file
from broker_embedded.security.alterations import Results, altered, described
from broker_embedded.security.credentials import Credentials, ScramCredential, ScramUser
from broker_embedded.security.first_users import FirstUser
from spark_kafka_native.protocol.errors import KafkaError
from spark_kafka_native.protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

logger = logging.getLogger(__name__)


class ScramUsersError(Exception):
    """The file of credentials cannot be understood, so that nobody could log in; ``str()`` names it."""


class ScramUsers:
    """All credentials. Changes take turns; each one that has begun is brought to its end."""

    def __init__(
        self,
        first_users: Iterable[FirstUser],
        *,
        data_dir: str,
        file_system: FileSystem,
        on_disk: OnDisk,
        finishing: Finishing,
    ) -> None:
        """Read the file, if there is one, and make the first users that are not in it. Blocks, in a locked directory.

        Raises OSError, ScramUsersError.
        """
        self._path = os.path.join(data_dir, credentials_file.FILE_NAME)
        self._file_system = file_system
        self._on_disk = on_disk
        self._finishing = finishing
        self._turn = asyncio.Lock()
        remove_unfinished(file_system, self._path)
        self._credentials = add_users(file_system, data_dir, first_users)

    def credential(self, user: ScramUser) -> ScramCredential | None:
        """What is known of a user of a mechanism; None: there is no such user."""
        return self._credentials.get(user)

    def names(self) -> tuple[ScramUser, ...]:
        """The credentials that exist: pairs of a user and a mechanism."""
        return tuple(self._credentials)

    def describe(self, names: Iterable[str] | None) -> dict[str, dict[str, int] | KafkaError]:
        """By user the iterations of each of its mechanisms, or what was wrong; of all users for None or no names."""
        return described(self._credentials, names)

    async def alter(
        self, deletions: Sequence[ScramCredentialDeletion], upsertions: Sequence[ScramCredentialUpsertion]
    ) -> Results:
        """Change credentials, each user by itself; what was wrong, by user.

        Raises KafkaError KAFKA_STORAGE_ERROR: the old ones stand, or if the last step of writing failed, the new.
        """
        return await self._finishing.finish(self._alter(deletions, upsertions))

    async def _alter(
        self, deletions: Sequence[ScramCredentialDeletion], upsertions: Sequence[ScramCredentialUpsertion]
    ) -> Results:
        async with self._turn:
            credentials, results = altered(self._credentials, deletions, upsertions)
            if credentials != self._credentials:
                raw = credentials_file.encode(credentials)
                await replace_file(self._on_disk, self._file_system, self._path, raw, private=True)
                self._credentials = credentials
            return results


def add_users(file_system: FileSystem, data_dir: str, users: Iterable[FirstUser]) -> Credentials:
    """All credentials of a data directory in which no broker runs, those of ``users`` made if they are not there.

    Raises OSError, ScramUsersError.
    """
    path = os.path.join(data_dir, credentials_file.FILE_NAME)
    found = _read(file_system, path)
    new = {user.user: user.credential() for user in users if user.user not in found}
    if not new:
        return found
    credentials = {**found, **new}
    write_file(file_system, path, credentials_file.encode(credentials), private=True)
    logger.info("made users of SCRAM: %s", ", ".join(f"{user.name} ({user.mechanism})" for user in new))
    return credentials


def _read(file_system: FileSystem, path: str) -> Credentials:
    if not file_system.exists(path):
        return {}
    try:
        return credentials_file.decode(read_private_file(file_system, path))
    except credentials_file.CredentialsFileError as error:
        raise ScramUsersError(f"{path}: {error}") from error
