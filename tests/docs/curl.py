"""As much of curl as the pages use, for machines that have none: ``-s``, ``-N``, ``-X``, ``-H``, ``-d`` and one address."""

from __future__ import annotations

import sys

import httpx2


def main(words: list[str]) -> int:
    method, headers, body, address = None, {}, None, ""
    given = iter(words)
    for word in given:
        if word == "-X":
            method = next(given)
        elif word == "-H":
            name, _, value = next(given).partition(":")
            headers[name.strip()] = value.strip()
        elif word == "-d":
            body = next(given)
        elif word in ("-s", "-N"):
            pass
        elif word.startswith("-"):
            print(f"curl: option {word} is not known here", file=sys.stderr)
            return 2
        else:
            address = word
    method = method or ("GET" if body is None else "POST")
    response = httpx2.request(method, address, headers=headers, content=body, timeout=120, trust_env=False)
    sys.stdout.write(response.text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
