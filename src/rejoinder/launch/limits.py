"""How many files this process may open: each blocked caller and each open stream holds one."""

from __future__ import annotations

import sys

#: What 1,000 blocked callers, their streams and the pool need, with room to spare.
ENOUGH = 4096
_CEILING = 1 << 20


def raise_open_files() -> int | None:
    """Raise the soft limit as far as the hard one allows. Returns the limit now in force; None where there is none."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CEILING if hard == resource.RLIM_INFINITY else min(hard, _CEILING)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            # macOS refuses more than its own ceiling, which the hard limit does not tell.
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 10_240), hard))
            except (ValueError, OSError):
                pass
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft
