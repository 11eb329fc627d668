"""What may be wrong with a preset."""

from __future__ import annotations

from rejoinder.contract.errors import RejoinderError


class PresetNotFoundError(RejoinderError):
    """No preset of this name is there."""

    code = "preset-not-found"
    status = 404


class PresetVersionNotFoundError(RejoinderError):
    """The preset has no version of this number, or no such tag."""

    code = "preset-version-not-found"
    status = 404


class PresetExistsError(RejoinderError):
    """A tool, an agent or a preset of this name is there already."""

    code = "preset-exists"
    status = 409


class PresetMovedError(RejoinderError):
    """The preset was changed meanwhile; look at it again."""

    code = "preset-moved"
    status = 409


class PresetInUseError(RejoinderError):
    """Hooks, schedules or agents name this preset; change those first."""

    code = "preset-in-use"
    status = 409


class PresetLockedError(RejoinderError):
    """This preset fixes arguments, so only an admin may change what it does."""

    code = "preset-locked"
    status = 403
