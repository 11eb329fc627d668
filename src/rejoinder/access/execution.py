"""Whose key may be bound to work that runs later: a hook, a link, a schedule.

Such work acts as the key's identity with the rights that the key has when the work runs, so binding a key hands those
rights to whoever wrote the work. What is stored is the key's id: a key that is revoked and made again under the same
name is another one, and what was bound to the first fails instead of running under the second.
"""

from __future__ import annotations

from uuid import UUID

from rejoinder.contract.identity import Identity


def may_bind(bound: Identity, owner_id: UUID | None, by: Identity) -> bool:
    """Whether ``by`` may bind the key whose live identity is ``bound`` and which ``owner_id`` owns.

    An admin may bind any. Everybody else binds keys of its own identity with at most its own grants, and the keys that
    its own key owns. A restricted identity binds no key that is less restricted than itself.
    """
    if by.may("admin") and not by.restricted:
        return True
    if by.key_id is not None and owner_id == by.key_id:
        # Its rights end where its owner's end.
        return True
    if by.restricted and not bound.restricted:
        return False
    return bound.name == by.name and all(by.may(grant) for grant in bound.grants)
