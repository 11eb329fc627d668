"""The whole flow on this machine: the product, the outside system, an operator, an agent and a customer.

python -m examples.confirmations     from the project's folder, or: python . in this one
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

HERE = Path(__file__).resolve().parent
REJOINDER = str(Path(sys.executable).with_name("rejoinder"))
TOPIC, PRESET = "confirmations", "confirm_order_7"
PATIENCE = 120.0


class Flow:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port, outside_port = free_port(), free_port()
        self.url, self.outside_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{outside_port}"
        self.environment = {
            **os.environ,
            "REJOINDER_DATA": str(folder / "data"),
            "REJOINDER_SERVER": self.url,
            "INTERACTIONS_PUBLIC_BASE_URL": self.url,
            "TAI_BRIDGE_CALLBACK_SECRET": secrets.token_urlsafe(),
            "CONFIRM_API_BASE": self.outside_url,
            "CONFIRM_API_KEY": secrets.token_urlsafe(),
            "CONFIRM_SIGNING_SECRET": secrets.token_urlsafe(),
        }
        self.environment.pop("REJOINDER_API_KEY", None)
        self.system = [
            *(sys.executable, str(HERE / "outside.py"), "--port", str(outside_port)),
            *("--webhook", f"{self.url}/universal_webhook/{TOPIC}"),
        ]
        self.product = [
            *(REJOINDER, "up", "--manifest", str(HERE / "manifest.yaml"), "--no-demo"),
            *("--data", str(folder / "data"), "--port", str(port)),
        ]
        headers = {"authorization": f"Bearer {self.environment['CONFIRM_API_KEY']}"}
        self.outside = httpx2.Client(base_url=self.outside_url, headers=headers, timeout=30, trust_env=False)

    @contextlib.contextmanager
    def process(self, words: list[str], name: str) -> Iterator[subprocess.Popen[bytes]]:
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            started = subprocess.Popen(
                words, stdout=output, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True
            )
        try:
            yield started
        except BaseException:
            print(log.read_text(errors="replace"), file=sys.stderr)
            raise
        finally:
            started.send_signal(signal.SIGINT)
            try:
                started.wait(60)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()

    def command(self, *words: str, show: bool = True) -> str:
        """Run a ``rejoinder`` command in this folder, and show both."""
        print(f"$ rejoinder {shlex.join(words)}")
        done = subprocess.run(
            [REJOINDER, *words],
            cwd=HERE,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}{done.stderr}\nit ended with {done.returncode}")
        if show and done.stdout.strip():
            print(done.stdout.strip())
        return done.stdout

    def ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        for url in (f"{self.url}/ready", f"{self.outside_url}/control"):
            while True:
                with contextlib.suppress(httpx2.TransportError):
                    if self.outside.get(url).status_code == 200:
                        break
                if time.monotonic() > deadline:
                    raise SystemExit(f"{url} was not ready in time")
                time.sleep(0.1)

    def ask(self) -> tuple[subprocess.Popen[str], str]:
        """The agent calls the tool; returns the call, and the id of the page that it made."""
        known = len(self.pages())
        words = ["tools", "run", PRESET, "--arg", "question=Did the customer confirm?"]
        print(f"$ rejoinder {shlex.join(words)}    (it waits)")
        call = subprocess.Popen(
            [REJOINDER, *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + PATIENCE
        while len(pages := self.pages()) == known:
            if call.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"no page was made: {call.communicate()[1]}")
            time.sleep(0.1)
        return call, pages[-1]

    def pages(self) -> list[str]:
        return [one["id"] for one in self.outside.get("/control").json()["confirmations"]]

    def press(self, page: str) -> None:
        print("The customer opens the page and presses Confirm.")
        assert "Confirm" in self.outside.get(f"/c/{page}").text
        assert self.outside.post(f"/c/{page}", data={"decision": "confirmed"}).status_code == 303

    def told(self, call: subprocess.Popen[str]) -> None:
        printed, problem = call.communicate(timeout=PATIENCE)
        if call.returncode:
            raise SystemExit(problem)
        print(f"The agent's call returns:\n{printed.strip()}")

    def play(self) -> None:
        print("Bind: nothing reaches the topic that the outside system has not signed.")
        self.command("scopes", "public", "pin", f"/universal_webhook/{TOPIC}", show=False)
        self.command(
            *("hooks", "set-verifier", TOPIC, "--verifier", "stripe", "--config-file", "verifier.json"),
            show=False,
        )
        print("\nRegister: the hook that carries a confirmation to the question.")
        self.command("keys", "create", "bridge", "--grant", "read", show=False)
        self.command("hooks", "register", "--params-file", "hook.json", show=False)
        print("\nBake: what the agent is given, with everything fixed that it must not choose.")
        self.command("presets", "create", "--params-file", "preset.json", show=False)
        print("\nRecover: what no webhook told is looked up every 15 minutes.")
        self.command(
            *("schedules", "add", "reconcile_confirmations", "--tool-kw", "lookback_hours=26"),
            *("--every", "900"),
            show=False,
        )
        print("\nA confirmation.")
        call, page = self.ask()
        self.press(page)
        self.told(call)
        print("\nA confirmation whose webhook is lost.")
        assert self.outside.post("/control", json={"drop": 1}).status_code == 200
        call, page = self.ask()
        self.press(page)
        self.command("tools", "run", "reconcile_confirmations")
        self.told(call)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="confirmations-"))
    # The embedded Postgres does not run as root, and must get in all the same.
    folder.chmod(0o711)
    try:
        flow = Flow(folder)
        with flow.outside, flow.process(flow.system, "outside"), flow.process(flow.product, "product"):
            flow.ready()
            flow.play()
    finally:
        for link in folder.rglob("pg"):
            if link.is_symlink():
                shutil.rmtree(link.resolve(), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
