"""Runs a page as a reader would: its blocks in order, in one folder, with one shell's variables, beside a server.

What a reader puts in by hand is put in here: ``ID`` is the open question, ``RUN`` the newest run, and the default
port is the one that the page's server has.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from rejoinder.launch.embedded import EmbeddedServer
from rejoinder.launch.paths import DataFolder
from tests.docs.pages import ROOT, Block, Page
from tests.support import clean_environment, free_port, wait_until

DEFAULT_PORT = "8642"
PATIENCE = 60.0
BIN = Path(sys.executable).parent
CURL = ROOT / "tests" / "docs" / "curl.py"
SHARED_MANIFEST = ROOT / "examples" / "housekeeping" / "manifest.yaml"


class Server:
    """A ``rejoinder up`` or ``serve`` of a page. Its output, both streams, is in ``log``."""

    def __init__(self, words: list[str], folder: Path, environment: dict[str, str], data: Path) -> None:
        self.port = free_port()
        while "=" in words[0]:
            name, _, value = words[0].partition("=")
            environment, words = {**environment, name: value.replace(DEFAULT_PORT, str(self.port))}, words[1:]
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = DataFolder(data)
        self._log = folder / f".served-{self.port}"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(BIN / words[0]), *words[1:], "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        wait_until(self._ready, "the server was not ready", PATIENCE)

    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _ready(self) -> bool:
        assert self._process.poll() is None, self.output()
        try:
            ready = httpx2.get(f"{self.url}/ready", timeout=5, trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False
        return ready and self.data.read_owner_key() is not None

    def get(self, path: str) -> Any:
        key = self.data.read_owner_key()
        headers = {"authorization": f"Bearer {key}"}
        response = httpx2.get(f"{self.url}{path}", headers=headers, timeout=30, trust_env=False)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def stop(self) -> None:
        """Ctrl-C, and wait; what does not stop is killed."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def remove_data(folder: Path) -> None:
    """Remove a data folder, and stop its database where nobody is left who would."""
    server = EmbeddedServer(DataFolder(folder))
    if server.pid is not None:
        server.start()
        server.stop()
    # Started by root, a database can be elsewhere.
    for link in folder.rglob("pg"):
        if link.is_symlink():
            shutil.rmtree(link.resolve(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shared_server() -> Iterator[Server]:
    """For all pages that start none of their own."""
    folder = Path(tempfile.mkdtemp(prefix="rjd-", dir="/tmp"))
    folder.chmod(0o711)
    data = folder / ".data"
    words = ["rejoinder", "up", "--manifest", str(SHARED_MANIFEST), "--no-demo", "--data", str(data)]
    try:
        server = Server(words, folder, clean_environment(), data)
        try:
            yield server
        finally:
            server.stop()
    finally:
        remove_data(data)
        shutil.rmtree(folder, ignore_errors=True)


class Reader:
    """Somebody who follows one page."""

    def __init__(self, page: Page, folder: Path, server: Server | None) -> None:
        self.page = page
        self.folder = folder
        self._server = server
        self._own: Server | None = None
        self._variables = folder / ".variables"
        self._background: subprocess.Popen[str] | None = None
        self._last: Block | None = None
        self._printed = ""

    def follow(self) -> None:
        try:
            for block in self.page.blocks:
                self._do(block)
            assert self._background is None, "a background block's output is never shown"
        finally:
            self._end()

    def _do(self, block: Block) -> None:
        if "file" in block.options:
            target = self.folder / block.options["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        if "serve" in block.words:
            self._serve(block)
        elif "background" in block.words and block.language == "sh":
            self._background = self._start(block)
        elif "run" in block.words:
            self._run(block)
        elif block.language == "text" and "plain" not in block.words:
            self._expect(block)

    def _serve(self, block: Block) -> None:
        if self._own is not None:
            self._own.stop()
        words = _server_words(block.text)
        data = self.folder / ".data"
        self._own = self._server = Server(words, self.folder, self._environment(), data)

    def _run(self, block: Block) -> None:
        self._last = block
        if block.language == "python":
            (self.folder / "page_block.py").write_text(self._filled(block.text), encoding="utf-8")
            done = self._shell(f"{shlex.quote(sys.executable)} page_block.py")
        else:
            done = self._shell(self._filled(block.text, block.options.get("tool")))
        self._printed = done.stdout
        wanted = int(block.options.get("exit", 0))
        assert done.returncode == wanted, f"{block}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        if wanted:
            self._printed += done.stderr

    def _start(self, block: Block) -> subprocess.Popen[str]:
        assert self._background is None, f"{block}: the one before is still running"
        return subprocess.Popen(
            ["bash", "-c", self._script(self._filled(block.text))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(),
            cwd=self.folder,
            start_new_session=True,
        )

    def _expect(self, block: Block) -> None:
        if "background" in block.words:
            assert self._background is not None, f"{block}: nothing runs in the background"
            self._printed, errors = self._background.communicate(timeout=PATIENCE)
            code, self._background = self._background.returncode, None
            assert code == 0, f"{block}: exit code {code}\n{self._printed}{errors}"
        if "served" in block.words:
            server = self._server
            assert server is not None
            wait_until(
                lambda: matches(f"...\n{block.text}...", server.output()),
                f"{block}: the server printed\n{server.output()}",
                PATIENCE,
            )
            return
        if "eventually" in block.words:
            again = self._last
            assert again is not None, f"{block}: nothing was run before"
            wait_until(lambda: self._again(again, block), f"{block}: it printed\n{self._printed}", PATIENCE)
        assert matches(block.text, self._printed), f"{block}: it printed\n{self._printed}"

    def _again(self, run: Block, wanted: Block) -> bool:
        if not matches(wanted.text, self._printed):
            self._run(run)
        return matches(wanted.text, self._printed)

    def _shell(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", self._script(script)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment(),
            cwd=self.folder,
            timeout=PATIENCE,
        )

    def _script(self, script: str) -> str:
        kept = shlex.quote(str(self._variables))
        return f'[ ! -e {kept} ] || . {kept}\nset -e\n{script}\n(export -p; echo cd "$PWD") > {kept}\n'

    def _environment(self) -> dict[str, str]:
        path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
        if shutil.which("curl") is None:
            path = f"{self._curl()}{os.pathsep}{path}"
        # What a page's own tests make is in its folder too, to be cleared away with it.
        temporary = f"--basetemp={self.folder / '.tmp'}"
        return clean_environment({"PATH": path, "COLUMNS": "120", "TZ": "UTC", "PYTEST_ADDOPTS": temporary})

    def _curl(self) -> Path:
        """A folder with a command of that name."""
        made = self.folder / ".bin"
        made.mkdir(exist_ok=True)
        command = made / "curl"
        command.write_text(f"#!{sys.executable}\n{CURL.read_text(encoding='utf-8')}", encoding="utf-8")
        command.chmod(0o755)
        return made

    def _filled(self, text: str, tool: str | None = None) -> str:
        """The text with what a reader puts in."""
        server = self._server
        if server is None:
            return text
        text = text.replace(DEFAULT_PORT, str(server.port))
        if re.search(r"\bID\b", text):
            text = re.sub(r"\bID\b", self._question(server, tool), text)
        if re.search(r"\bRUN\b", text):
            text = re.sub(r"\bRUN\b", server.get("/api/tool-runs?limit=1")["items"][0]["run_id"], text)
        return text

    def _question(self, server: Server, tool: str | None) -> str:
        def found() -> str | None:
            items = [i for i in server.get("/api/interactions")["items"] if tool in (None, i["tool"])]
            newest = max(items, key=lambda item: str(item["created_at"]), default=None)
            return None if newest is None else str(newest["interaction_id"])

        identifier = wait_until(found, f"{self.page.name}: no question is open", PATIENCE)
        assert identifier is not None
        return identifier

    def _end(self) -> None:
        if self._background is not None:
            os.killpg(self._background.pid, signal.SIGTERM)
            self._background.communicate()
        if self._own is not None:
            self._own.stop()


def _server_words(text: str) -> list[str]:
    """The command, and for ``make up`` the one that it starts."""
    words = shlex.split(text.replace("\\\n", " "))
    if words[:2] != ["make", "up"]:
        return words
    given = dict(word.split("=", 1) for word in words[2:])
    return ["rejoinder", "up", "--data", given.get("DATA", ".data"), *shlex.split(given.get("ARGS", ""))]


def matches(wanted: str, printed: str) -> bool:
    """Whether ``printed`` is ``wanted``, word by word. ``...`` stands for any words, and inside a word for anything."""
    pattern = "".join(
        r"(?: \S+)*?" if word == "..." else " " + ".*?".join(re.escape(part) for part in word.split("..."))
        for word in wanted.split()
    )
    return re.fullmatch(pattern, "".join(f" {word}" for word in printed.split())) is not None
