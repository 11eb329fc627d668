"""The owner's key of a data folder: made on the first start, found by this machine's command line ever after."""

from __future__ import annotations

import secrets

from rejoinder.contract.errors import AuthenticationError, ConfigurationError
from rejoinder.contract.identity import GRANTS, LOCAL_OWNER, Identity
from rejoinder.contract.settings import Settings
from rejoinder.launch.migration import database_of
from rejoinder.launch.paths import DataFolder
from rejoinder.node import Node
from rejoinder.runs.manifest import Registry
from rejoinder.store.migrate import pending


async def owner_of(node: Node, data: DataFolder) -> Identity:
    """The identity that ``up`` acts as. Writes a key into the folder where there is none that is valid.

    Whoever may read the folder or name the database may do everything to it already, so a lost key is made anew.
    """
    if not node.access.enabled:
        return LOCAL_OWNER
    secret = data.read_owner_key()
    if secret is not None:
        try:
            identity = await node.access.identify(secret)
            if identity.may("admin"):
                return identity
        except AuthenticationError:
            pass
    secret = await _made(node)
    data.write_owner_key(secret)
    return await node.access.identify(secret)


async def new_owner_key() -> str:
    """Make an admin key in the database that REJOINDER_DATABASE_URL names. Returns its secret."""
    settings = Settings.load()
    lacking = await pending(database_of(settings))
    if lacking:
        raise ConfigurationError("The database is not up to date. Run: rejoinder migrate")
    node = Node(settings, Registry(), "server")
    await node.database.open()
    try:
        return await _made(node)
    finally:
        await node.database.close()


async def _made(node: Node) -> str:
    secret = await node.access.ensure_owner_key()
    if secret is None:
        name = f"owner-{secrets.token_hex(3)}"
        _, secret = await node.access.create_key(
            name=name, identity="owner", grants=list(GRANTS), by=LOCAL_OWNER
        )
    return secret
