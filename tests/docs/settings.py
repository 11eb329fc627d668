"""Every environment variable that the product reads."""

from __future__ import annotations

import re
from functools import lru_cache

from rejoinder.contract.settings import Settings
from tests.docs.pages import ROOT

#: Read outside Settings: by the command line and the launcher, or by the tests.
_ELSEWHERE = re.compile(r'"((?:REJOINDER|OPENCLAW|OPENWEBUI|TAI_BRIDGE)_[A-Z_]*[A-Z]|FORWARDED_ALLOW_IPS)"')


def settings_variables() -> dict[str, object]:
    """``{NAME: default}`` of what ``Settings`` reads."""
    return {name.upper(): field.default for name, field in Settings.model_fields.items()}


@lru_cache
def other_variables() -> frozenset[str]:
    found: set[str] = set()
    for path in [*(ROOT / "src" / "rejoinder").rglob("*.py"), ROOT / "tests" / "conftest.py"]:
        found.update(_ELSEWHERE.findall(path.read_text(encoding="utf-8")))
    return frozenset(found)


@lru_cache
def known_variables() -> frozenset[str]:
    return frozenset(settings_variables()) | other_variables() | {"REJOINDER_CACHE"}
