"""Ask a person before a deployment goes on. For a CI job: exit code 0 is a yes, 1 a no, 2 is no answer.

approve.py "Deploy 2.4.0 to production?" [--minutes 30]

Reads REJOINDER_SERVER and REJOINDER_API_KEY. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(description="Ask a person, and wait for the answer.")
    parser.add_argument("question")
    parser.add_argument("--minutes", type=float, default=30, help="how long the person has")
    given = parser.parse_args()
    try:
        result = run_tool("ask_approval", {"question": given.question, "minutes": given.minutes})
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        # 504: nobody answered in time. 409: the question was withdrawn.
        print(f"No answer: {problem['error']} ({problem['code']})", file=sys.stderr)
        return 2
    print("Approved." if result["approved"] else "Refused.", result["remark"])
    return 0 if result["approved"] else 1


def run_tool(name: str, arguments: dict[str, Any]) -> Any:
    """Run a tool and wait for it; the connection stays open for as long as its question does."""
    request = urllib.request.Request(
        f"{os.environ['REJOINDER_SERVER'].rstrip('/')}/api/run-tool",
        data=json.dumps({"tool_name": name, "arguments": arguments}).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['REJOINDER_API_KEY']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["data"]["result"]


if __name__ == "__main__":
    sys.exit(main())
