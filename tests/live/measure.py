"""How long an event of the Gateway takes to the page, and what a turn writes: python -m tests.live.measure [--quick]

A real Open WebUI with our Functions, beside its own replies in the same run. The Gateway and the model are played from
here, so that nothing of their own speed is in a figure: a word is timed from the moment it is handed to the socket until
a page's socket hears of it. Each word is unlike every other, and is looked for in whatever a page is told: added items,
growths and whole outputs. Writes of chats are counted by the Host's own database.

The figures go into docs/reference/performance.md; --quick takes smaller sizes and leaves the page alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.__main__ import conditions
from bench.render import PAGE, section
from bench.stats import spread
from rejoinder.openwebui.bundle import build
from tests.fake_gateway import TOKEN, FakeGateway
from tests.live.rig.ears import Ear
from tests.live.rig.host import Host
from tests.live.rig.own_model import OWN, OwnModel
from tests.live.rig.talk import Start, Told, Turn, spoken
from tests.support import assert_eventually
from tests.unit.turns.script import Frames

OURS = "openclaw_gateway.default"
BEGIN, END = "<!-- turns: written by python -m tests.live.measure -->", "<!-- end of turns -->"
T = TypeVar("T")
LIVE = 50
#: Chats beside the one that is busy.
OTHERS = 5
#: How often each kind of turns is played with many live ones.
ROUNDS = 2


@dataclass
class Size:
    """How much each turn says: words, and the seconds between two of them where one turn speaks and where many do."""

    live: int
    words: int
    alone: float
    many: float


@dataclass
class Figures:
    """What one kind of turns came to. waits: seconds of each word but a turn's first one. rows, bytes: what was written
    of chats for each turn; disk: what the Host's process wrote for each."""

    waits: list[float]
    rows: float
    row_bytes: float
    disk: float

    @property
    def p50(self) -> float:
        return float(spread(self.waits)["p50"])


class Stage:
    """The Host, the played Gateway and model, and a page's socket."""

    def __init__(self, host: Host, gateway: FakeGateway, model: OwnModel, told: Told, ear: Ear) -> None:
        self.host, self.gateway, self.model, self.told, self.ear = host, gateway, model, told, ear
        self._turns: dict[str, Turn] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._gate = asyncio.Semaphore(3)
        gateway.handlers |= {
            "chat.send": self._sent,
            "sessions.describe": lambda _: {"session": {"totalTokens": 10, "contextTokens": 128_000}},
            "usage.status": lambda _: {"providers": []},
            "artifacts.list": lambda _: {"artifacts": []},
        }

    async def chats(self, count: int, model: str) -> list[str]:
        return list(await asyncio.gather(*(self._gated(self.host.new_chat(model)) for _ in range(count))))

    async def agents(self, chats: Sequence[str], turns: Sequence[Turn]) -> None:
        """Runs of the agent's own, one a turn, in these chats in turn."""
        runs = [
            self._run(turn, Frames(str(uuid.uuid4()), self._key(chats[n % len(chats)])))
            for n, turn in enumerate(turns)
        ]
        await asyncio.gather(*runs)

    async def persons(self, chats: Sequence[str], turns: Sequence[Turn]) -> None:
        """Turns of a person, whose replies the Host's requests stream."""
        self._turns |= {turn.name: turn for turn in turns}
        await self._send(chats, OURS, turns)
        await assert_eventually(lambda: all(turn.over for turn in turns), "the turns did not end", 300)

    async def owns(self, chats: Sequence[str], turns: Sequence[Turn]) -> None:
        """The Host's own replies, by its own connection to a model."""
        self.model.turns |= {turn.name: turn for turn in turns}
        await self._send(chats, OWN, turns)
        await assert_eventually(lambda: all(turn.over for turn in turns), "the turns did not end", 300)

    async def _send(self, chats: Sequence[str], model: str, turns: Sequence[Turn]) -> None:
        sends = [self.host.send(chat, model, turn.name) for chat, turn in zip(chats, turns, strict=True)]
        await asyncio.gather(*map(self._gated, sends))

    async def _gated(self, call: Awaitable[T]) -> T:
        # Fifty at once would wait for each other's writes longer than the Host lets them.
        async with self._gate:
            return await call

    def _key(self, chat: str) -> str:
        return f"agent:main:openwebui-{self.host.user_id}-{chat}"

    def _sent(self, params: dict[str, Any]) -> dict[str, Any]:
        f = Frames(params["idempotencyKey"], params["sessionKey"])
        task = asyncio.get_running_loop().create_task(self._run(self._turns[params["message"]], f))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return {"runId": f.run, "status": "started"}

    async def _run(self, turn: Turn, f: Frames) -> None:
        self._tell(*f.begin(), f.row(f.asked()))
        whole = ""
        async for word in spoken(turn):
            whole += word
            self.told.say(word)
            self._tell(f.says(whole, word, "i"))
        known = self.gateway.histories.setdefault(
            f.key, {"sessionKey": f.key, "sessionId": f.session, "messages": []}
        )
        known["messages"] = [*known["messages"], f.asked(), f.said(whole)]
        self._tell(*f.final(whole), f.settled())
        turn.over = True

    def _tell(self, *frames: tuple[str, dict[str, Any]]) -> None:
        for name, payload in frames:
            self.gateway.broadcast(name, payload)


class Ledger:
    """Every write of a chat's row, noted by the Host's own database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as db:
            db.execute("CREATE TABLE measured (chat TEXT, bytes INTEGER)")
            db.execute(
                "CREATE TRIGGER measured_writes AFTER UPDATE OF chat ON chat WHEN new.chat IS NOT old.chat "
                "BEGIN INSERT INTO measured VALUES (new.id, length(new.chat)); END"
            )

    def clear(self) -> None:
        with self._open() as db:
            db.execute("DELETE FROM measured")

    async def idle(self, chats: Sequence[str]) -> None:
        """Until every reply of the chats is finished."""

        def over() -> bool:
            with self._open() as db:
                told = db.execute(
                    "SELECT chat_id, done FROM chat_message WHERE role = 'assistant'"
                ).fetchall()
            found = [(chat, done) for chat, done in told if chat in set(chats)]
            return {chat for chat, _ in found} == set(chats) and all(done for _, done in found)

        await assert_eventually(lambda: asyncio.to_thread(over), "the chats did not come to rest", 300)

    def rows(self, chats: Sequence[str]) -> list[int]:
        """The bytes of each write of these chats."""
        with self._open() as db:
            found = db.execute("SELECT chat, bytes FROM measured").fetchall()
        return [int(size or 0) for chat, size in found if chat in set(chats)]

    @contextlib.contextmanager
    def _open(self) -> Any:
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as db:
            yield db
            db.commit()


Play = Callable[[Sequence[str], Sequence[Turn]], Awaitable[None]]


async def measured(stage: Stage, ledger: Ledger, play: Play, model: str, turns: Sequence[Turn]) -> Figures:
    """Play these turns, each in a chat of its own."""
    chats = await stage.chats(len(turns), model)
    ledger.clear()
    before = written(stage.host.pid)
    await play(chats, turns)
    await ledger.idle(chats)
    # What comes after the end of a reply is part of what it writes.
    await asyncio.sleep(1)
    rows = ledger.rows(chats)
    disk = (written(stage.host.pid) - before) / len(turns)
    return Figures(stage.told.waits(turns), len(rows) / len(turns), sum(rows) / len(turns), disk)


def many(size: Size, count: int, start: Start | None = None) -> list[Turn]:
    """Turns that speak at the same pace, one after the other, from the moment on in which all are live, in {ROUNDS} rounds of each kind in turn."""
    start = start or Start(count)
    return [Turn(size.words, size.many, n / count, start) for n in range(count)]


def together(rounds: Sequence[Figures]) -> Figures:
    """Several rounds as one."""
    count = len(rounds)
    return Figures(
        [wait for one in rounds for wait in one.waits],
        sum(one.rows for one in rounds) / count,
        sum(one.row_bytes for one in rounds) / count,
        sum(one.disk for one in rounds) / count,
    )


def written(pid: int) -> int:
    """Bytes that a process had written to disk."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


async def run(size: Size) -> dict[str, Any]:
    """All of it; the figures by their names."""
    with tempfile.TemporaryDirectory(prefix="rj-measure-") as folder:
        async with stage_of(Path(folder)) as (stage, ledger):
            kinds: dict[str, tuple[Play, str]] = {
                "own": (stage.owns, OWN),
                "person": (stage.persons, OURS),
                "agent": (stage.agents, OURS),
            }
            found: dict[str, Any] = {}
            for name, (play, model) in kinds.items():
                # The first turn of a kind loads what it needs.
                await measured(stage, ledger, play, model, [Turn(3, size.alone)])
                found[f"{name} alone"] = await measured(
                    stage, ledger, play, model, [Turn(size.words * 3, size.alone)]
                )
                print(f"{name} alone: {told_as(found[f'{name} alone'])}", flush=True)
            # In turn, so that whatever else the machine does is in all of them.
            rounds: dict[str, list[Figures]] = {name: [] for name in kinds}
            for _ in range(ROUNDS):
                for name, (play, model) in kinds.items():
                    turns = many(size, size.live)
                    rounds[name].append(await measured(stage, ledger, play, model, turns))
            for name, figures in rounds.items():
                found[f"{name} many"] = together(figures)
                print(f"{name}, {size.live} live: {told_as(found[f'{name} many'])}", flush=True)
            for name in ("quiet", "busy"):
                found[name] = await beside(stage, ledger, size, busy=name == "busy")
                print(f"others, one chat {name}: {spread(found[name])}", flush=True)
            return found


async def beside(stage: Stage, ledger: Ledger, size: Size, *, busy: bool) -> list[float]:
    """What the words of other chats take while one chat has many live turns, and while it has none."""
    (one,) = await stage.chats(1, OURS)
    others = await stage.chats(OTHERS, OURS)
    start = Start(OTHERS + (size.live if busy else 0))
    turns = many(size, OTHERS, start)
    crowd = many(size, size.live, start) if busy else []
    await asyncio.gather(stage.agents([one], crowd), stage.agents(others, turns))
    await ledger.idle([*others, *([one] if busy else [])])
    return stage.told.waits(turns)


@contextlib.asynccontextmanager
async def stage_of(folder: Path) -> AsyncIterator[tuple[Stage, Ledger]]:
    """Everything started, the Functions installed and a page's socket open."""
    told = Told()
    async with FakeGateway() as gateway, OwnModel.serving(told) as model:
        host = Host(
            folder / "host",
            environment={
                "ENABLE_OPENAI_API": "true",
                "OPENAI_API_BASE_URL": model.url,
                "OPENAI_API_KEY": "none",
                # A slow disk and fifty turns that begin at once: nobody may give up.
                "DATABASE_SQLITE_PRAGMA_BUSY_TIMEOUT": "60000",
            },
        )
        try:
            # The model must answer while the Host starts.
            await asyncio.to_thread(host.start)
            valves = {"GATEWAY_URL": gateway.url, "GATEWAY_TOKEN": TOKEN, "AUTO_TITLE": False}
            valves["STATE_DIR"] = str(host.data / "oc")
            models = await host.install("openclaw_gateway", build()["openclaw_gateway"], valves)
            assert {OURS, OWN} <= set(models), models
            await gateway.connected()
            async with Ear.listening(host.url, host.token, told) as ear:
                yield Stage(host, gateway, model, told, ear), Ledger(host.data / "webui.db")
        finally:
            host.kill()


def told_as(found: Figures) -> str:
    wait = spread(found.waits)
    return f"{wait}; {found.rows:.1f} writes, {found.row_bytes:.0f} bytes of rows, {found.disk:.0f} of disk a turn"


def lines(found: dict[str, Any], size: Size) -> list[tuple[str, str, str, str, str]]:
    """The rows of the table: what, a run of the agent's own, a person's turn, the Host's own reply, the budget."""

    def wait(waits: list[float]) -> str:
        told = spread(waits)
        return f"{told['p50']:.1f} / {told['p99']:.1f}"

    def row(
        what: str, kind: str, value: Callable[[Figures], str], budget: str = ""
    ) -> tuple[str, str, str, str, str]:
        one = [value(found[f"{name} {kind}"]) for name in ("agent", "person", "own")]
        return (what, f"**{one[0]}**", f"**{one[1]}**", one[2], budget)

    many = [found[f"{name} many"] for name in ("agent", "person", "own")]
    added = [one.p50 - many[2].p50 for one in many[:2]]
    verdict = "< 5" + (" ✓" if max(added) < 5 else " ✗ not met")
    writes = "≤ 2" + (" ✓" if many[0].rows <= 2 and many[1].rows - many[2].rows <= 2 else " ✗ not met")
    quiet, busy = found["quiet"], found["busy"]
    return [
        row("a word, one live turn (ms, p50 / p99)", "alone", lambda one: wait(one.waits)),
        row(f"a word, {size.live} live turns (ms, p50 / p99)", "many", lambda one: wait(one.waits)),
        (
            "the same, more than the Host's own (ms, p50)",
            f"**{added[0]:+.1f}**",
            f"**{added[1]:+.1f}**",
            "",
            verdict,
        ),
        (
            f"a word of another chat while one chat has {size.live} live turns / has none (ms, p50 / p99)",
            f"**{wait(busy)}** / {wait(quiet)}",
            "",
            "",
            "",
        ),
        row("writes of the chat's row a turn", "many", lambda one: f"{one.rows:.1f}", f"of ours {writes}"),
        row("bytes of the rows so written a turn", "many", lambda one: f"{one.row_bytes:,.0f}"),
        row("bytes that the Host's process wrote to disk a turn", "many", lambda one: f"{one.disk:,.0f}"),
    ]


def page(found: dict[str, Any], size: Size, where: dict[str, Any]) -> str:
    """The page's part about turns."""
    head = ("what", "a run of the agent's own", "a person's turn", "the Host's own reply", "budget")
    rows = [head, ("---",) * len(head), *lines(found, size)]
    table = "\n".join("| " + " | ".join(cell or " " for cell in row) + " |" for row in rows)
    return (
        f"Measured on {where['at']} with Rejoinder {where['rejoinder']}, Open WebUI {where['host']}, Python {where['python']}, "
        f"{where['cores']} cores ({where['cpu']}) shared by the Host, the played Gateway and model, and the page's socket. "
        f"The machine's load when the run began: {where['load']}. Each of the live turns says "
        f"{size.words} words, one every {size.many:g} s, from the moment on in which all are live, in {ROUNDS} rounds of each kind in turn.\n\n{table}"
    )


def main() -> int:
    from tests.live.rig import places

    parser = argparse.ArgumentParser(prog="python -m tests.live.measure", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes; the page is left alone")
    quick = parser.parse_args().quick
    if missing := places.missing():
        print(f"{', '.join(missing)} is not installed; make live installs it", file=sys.stderr)
        return 1
    size = Size(5, 5, 0.05, 0.2) if quick else Size(LIVE, 15, 0.05, 0.5)
    where = {**conditions(), "host": places.host_version()}
    began = time.monotonic()
    found = asyncio.run(run(size))
    text = page(found, size, where)
    print(text)
    if not quick:
        section(PAGE, BEGIN, END, text)
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
