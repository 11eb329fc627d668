"""Every page in every state, width and scheme: nothing sideways, nothing for axe to report, targets one can hit."""

from __future__ import annotations

from importlib.resources import files

import pytest
from playwright.async_api import Page

from rejoinder.contract.identity import LOCAL_OWNER, Identity
from tests.live.conftest import Visit
from tests.live.demo import AGENT, Live
from tests.support import assert_eventually

BOB = Identity(name="bob", grants=frozenset(("read", "write")))
LONG = "annemarie.von-der-heide@example.org"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


async def violations(page: Page, within: str = "html") -> list[str]:
    """What axe has to say, a line each. Evaluated, not injected: the pages' own policy stays on."""
    if not await page.evaluate("typeof window.axe === 'object'"):
        await page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = await page.evaluate("([within, tags]) => axe.run(within, {runOnly: tags})", [within, TAGS])
    return [
        f"{one['id']}: {node['target']} {node.get('failureSummary', '')}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


async def pages_of(live: Live) -> dict[str, str]:
    """The paths of every page in every state."""
    await live.fill()

    async def all_asked() -> bool:
        return len(await live.node.asks.page(by=AGENT, limit=50)) == 10

    await assert_eventually(all_asked, "not every question was asked")
    paths = {q.question[:24]: f"/inbox/{q.id}" for q in await live.node.asks.page(by=AGENT, limit=50)}
    answered, withdrawn = await live.ask("Done?"), await live.ask("Off?")
    await live.node.asks.answer(answered.id, "yes " * 500, by=BOB, via="cli")
    await live.node.asks.cancel(withdrawn.id, by=BOB, via="http")
    paths |= {
        "answered": f"/inbox/{answered.id}?done=1",
        "withdrawn": f"/inbox/{withdrawn.id}",
        "list": "/inbox",
        "ended": "/inbox?state=answered",
        "nothing": "/inbox?q=nothing+matches&tool=x",
        "runs": "/runs",
        "run": f"/runs/{answered.run_id}",
        "hooks": "/hooks",
        "trigger": await hooked(live),
        "presets": "/presets",
        "schedules": await scheduled(live),
        "preset": await preset(live),
        "audit": "/audit",
        "keys": "/keys",
        "missing": "/inbox/00000000-0000-0000-0000-000000000000",
    }
    return paths


async def hooked(live: Live) -> str:
    """A topic that stands open and one that does not, with a hook each, a link, and an event that is held. Returns the
    link's path."""
    node, name = live.node, f"key-{len(await live.node.access.keys())}"
    key, _ = await node.access.create_key(name=name, grants=["read", "write"], by=LOCAL_OWNER)
    binding = {"verifier": "stripe", "config": {"secret_env": "VENDOR_SECRET"}}
    await node.hook_records.bind("payments-of-the-shop", binding, by=LOCAL_OWNER)
    tool = next(iter(node.registry)).tool.name
    for topic in ("payments-of-the-shop", "anybodys"):
        body = {"name": f"on-{topic}", "topic": topic, "tool": tool, "execution_key": key.name}
        await node.hook_records.register(
            body | {"condition": '.type == "payment.completed"', "start_expr": "{event: .}"}, by=LOCAL_OWNER
        )
    link = {"topic": "anybodys", "execution_key": key.name, "ttl_seconds": None}
    _, token = await node.trigger_links.mint(link, by=LOCAL_OWNER)
    await node.public_routes.pin("/trigger/*", by=LOCAL_OWNER)
    body = {"name": "cannot-read-what-comes", "topic": "held", "tool": tool, "execution_key": key.name}
    await node.hook_records.register(body | {"start_expr": "1"}, by=LOCAL_OWNER)
    await node.deliveries.accept("held", {"event": name})

    async def held() -> bool:
        return bool((await node.kept_runs.page("failed", limit=1)).items)

    await assert_eventually(held, "the event was not held")
    return f"/trigger/{token}"


async def scheduled(live: Live) -> str:
    """A schedule with a long name, one by a crontab, and one that is off. Returns the list's path."""
    order = {"tool_name": "ask", "tool_kwargs": {"question": "Is it done?"}, "cadence": None}
    when = {"kind": "crontab", "expression": "30 3 * * mon-fri"}
    for name in ("the nightly sweep of everything old on the third volume", "off"):
        cadence = {"kind": "interval", "every": 900}
        await live.node.schedules.create(
            order | {"schedule_name": name, "cadence": cadence}, by=LOCAL_OWNER, via="http"
        )
    await live.node.schedules.create(order | {"cadence": when}, by=LOCAL_OWNER, via="http")
    await live.node.schedules.enable("off", False, by=LOCAL_OWNER, via="http")
    return "/schedules"


async def preset(live: Live) -> str:
    """A preset in two versions that fixes an argument, and one whose base is gone. Returns the first one's path."""
    presets = live.node.presets
    if "asks_the_team_lead" not in live.node.registry:
        body = {"name": "asks_the_team_lead", "base_tool": "ask", "description": "Asks the lead. " * 20}
        fixed = {"question": "May it go out?", "answer_format": "confirm", "audience": "lead@example.org"}
        for name in ("asks_the_team_lead", "broken"):
            await presets.create(body | {"name": name, "fixed_kwargs": fixed}, by=LOCAL_OWNER)
        await presets.save("asks_the_team_lead", {"tags": ["reviewed"]}, by=LOCAL_OWNER)
        await presets.tag("asks_the_team_lead", "reviewed", 1, by=LOCAL_OWNER)
        # Its base is gone: as a later manifest would leave it.
        await live.node.database.execute(
            """WITH made AS (
                   INSERT INTO rejoinder.preset_version (id, preset_id, number, document, pins, created_at, created_by)
                   SELECT gen_random_uuid(), id, 2, '{"base_tool": "gone", "description": "."}', false, now(), 'x'
                     FROM rejoinder.preset WHERE name = 'broken' RETURNING preset_id)
               UPDATE rejoinder.preset p SET current = 2, last = 2 FROM made WHERE p.id = made.preset_id"""
        )
        await live.node.preset_book.refresh()
    return "/presets/asks_the_team_lead"


@pytest.mark.parametrize(
    ("width", "dark"), [(320, False), (320, True), (768, False), (1440, False), (1440, True)]
)
# Some twenty pages, each of them read by axe.
@pytest.mark.timeout(240)
async def test_every_page_is_accessible_and_fits(live: Live, visit: Visit, width: int, dark: bool) -> None:
    paths = await pages_of(live)
    ann = await visit(width=width, dark=dark, name=LONG)
    wrong: list[str] = []
    for name, path in paths.items():
        page = await ann.open(path)
        if await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wrong.append(f"{name}: wider than the window")
        wrong += [f"{name}: {one}" for one in await violations(page)]
        wrong += [f"{name}: small target {one}" for one in await small_targets(page)]
    assert wrong == []


@pytest.mark.parametrize(("width", "menu"), [(320, True), (768, True), (1024, True), (1025, False)])
async def test_every_page_can_be_gone_to_without_a_script(
    live: Live, visit: Visit, width: int, menu: bool
) -> None:
    """In German, whose words are longer, and under a long name."""
    ann = await visit(width=width, height=568, scripts=False, name=LONG, grants=("read", "write", "admin"))
    page = await ann.open("/schedules?lang=de")
    titles = ["Posteingang", "Läufe", "Hooks", "Presets", "Zeitpläne", "Protokoll", "Schlüssel"]
    for place in range(len(titles)):
        top, main = page.locator(".top"), page.locator("#main")
        heights = [await top.bounding_box(), await main.bounding_box()]
        here = page.locator("details.pages summary" if menu else ".top nav a[aria-current]:visible")
        assert await here.is_visible()
        if menu:
            await here.click()
        assert await page.locator(".top nav a:visible").all_inner_texts() == titles
        assert [await top.bounding_box(), await main.bounding_box()] == heights
        assert await sideways(page) == []
        for link in await page.locator(".top nav a:visible").all():
            box = await link.bounding_box()
            assert box is not None
            assert box["height"] >= 44
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["y"] + box["height"] <= 568
        await page.locator(".top nav a:visible").nth(place).click()
        await page.wait_for_load_state()
        named = page.locator("details.pages summary" if menu else ".top nav a[aria-current]:visible")
        assert await named.inner_text() == titles[place]
    assert heights[0] is not None
    assert heights[0]["height"] <= 54


async def test_the_menu_of_pages_is_accessible_and_closes(live: Live, visit: Visit) -> None:
    ann = await visit(width=320, height=568, dark=True)
    page = await ann.open("/runs")
    menu = page.locator("details.pages")
    await menu.locator("summary").press("Enter")
    assert await menu.get_by_role("link", name="Schedules").is_visible()
    # What lies under the menu is partly covered; it is looked at where the menu is closed.
    assert await violations(page, ".top") == []
    await page.locator("details.me summary").click()
    assert not await menu.get_by_role("link", name="Schedules").is_visible()
    await menu.locator("summary").click()
    await page.keyboard.press("Escape")
    assert not await menu.get_by_role("link", name="Schedules").is_visible()
    assert await page.evaluate("document.activeElement.matches('details.pages summary')")


async def test_the_few_pages_of_a_restricted_key_stand_beside_each_other(live: Live, visit: Visit) -> None:
    await live.key("ann")
    ann = await visit(width=320, height=568, scripts=False, name=LONG, owner="ann")
    page = await ann.open("/inbox?lang=de")
    assert await page.locator(".top nav a:visible").all_inner_texts() == ["Posteingang", "Läufe", "Protokoll"]
    assert await sideways(page) == []


async def sideways(page: Page) -> list[str]:
    """What can be moved sideways: the page, or anything in its frame."""
    found: list[str] = await page.evaluate(
        """() => [document.documentElement, ...document.querySelectorAll('.top, .top *')]
            .filter(e => e.scrollWidth > e.clientWidth && (e === document.documentElement
                || ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)))
            .map(e => e.outerHTML.slice(0, 120))"""
    )
    return found


async def test_the_sign_in_page_and_faults_are_accessible(live: Live, visit: Visit) -> None:
    paths = await pages_of(live)
    ann = await visit(width=320, height=640)
    page = await ann.open(paths["Release 4.2: who reviews"])
    await page.get_by_role("button", name="Send the answer").last.click()
    await page.locator("#faults").wait_for()
    assert await violations(page) == []
    await page.keyboard.press("?")
    assert await violations(page) == []
    guest = await visit(name=None, width=320)
    page = await guest.open("/sign-in")
    assert await violations(page) == []
    await page.get_by_label("API key").fill("rjk_nonsense")
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("alert").wait_for()
    assert await violations(page) == []


async def test_a_yes_or_no_fits_the_first_screen_of_a_phone(live: Live, visit: Visit) -> None:
    asked = await live.ask(
        "Delete the branch feature/old-login? It was merged 41 days ago.", answer_format="confirm"
    )
    page = await (await visit(width=320, height=568)).open(f"/inbox/{asked.id}")
    box = await page.get_by_role("button", name="Yes").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 568


async def test_nothing_shifts_while_a_page_loads(live: Live, visit: Visit) -> None:
    paths = await pages_of(live)
    ann = await visit(width=320, height=640)
    for path in paths.values():
        page = await ann.open(path)
        shift = await page.evaluate(
            "() => new Promise(done => { let sum = 0; new PerformanceObserver(list => { for (const e of list.getEntries())"
            " if (!e.hadRecentInput) sum += e.value; }).observe({type: 'layout-shift', buffered: true});"
            " requestAnimationFrame(() => setTimeout(() => done(sum), 50)); })"
        )
        assert shift < 0.01, path


async def small_targets(page: Page) -> list[str]:
    """Controls that are lower than 44 px. Links inside a sentence may be."""
    found: list[str] = await page.evaluate(
        """() => [...document.querySelectorAll('button, input:not([type=hidden]), select, textarea, summary, .button, nav a, .queue a')]
            .filter(e => e.offsetParent && !e.classList.contains('unseen'))
            .map(e => e.matches('input[type=radio], input[type=checkbox]') ? e.closest('label') : e)
            .filter(e => e.getBoundingClientRect().height < 43.5)
            .map(e => e.outerHTML.slice(0, 120))"""
    )
    return found
