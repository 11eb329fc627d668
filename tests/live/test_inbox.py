"""The inbox in a real browser, with its script: live, by keyboard, on a phone, and nothing that should not run."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from rejoinder.contract.identity import LOCAL_OWNER, Identity
from tests.live.conftest import Visit
from tests.live.demo import FORM, Live
from tests.support import assert_eventually

BOB = Identity(name="bob", grants=frozenset(("read", "write")))


async def test_a_one_time_link_signs_in_once(live: Live, visit: Visit) -> None:
    await live.ask("Ready?", answer_format="confirm")
    key = await live.key("eve")
    token = await live.node.access.create_sign_in(await live.node.access.identify(key))
    ann = await visit(name=None)
    page = await ann.open(f"/sign-in?token={token}")
    assert token not in await page.content()
    await page.get_by_role("button", name="Open the inbox").click()
    await expect(page.get_by_role("heading", name="Ready?")).to_be_visible()
    other = await visit(name=None)
    page = await other.open(f"/sign-in?token={token}")
    await page.get_by_role("button", name="Open the inbox").click()
    await expect(page.get_by_role("alert")).to_contain_text("used already")
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Ready?")).to_be_visible()


async def test_signing_out_ends_the_session_and_forgets_drafts(live: Live, visit: Visit) -> None:
    asked = await live.ask("Why?")
    ann = await visit()
    page = await ann.open(f"/inbox/{asked.id}")
    await page.get_by_label("Your answer").fill("half a thought")
    await page.get_by_text("ann", exact=True).first.click()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert await page.evaluate("localStorage.length") == 0
    await page.goto(live.url + "/inbox")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_a_new_question_appears_without_a_reload(live: Live, visit: Visit) -> None:
    page = await (await visit()).open("/inbox")
    await expect(page.locator("#queue")).to_contain_text("Nothing waits")
    await live.ask("Are you there?", answer_format="confirm")
    await expect(page.get_by_role("heading", name="Are you there?")).to_be_visible()
    await expect(page).to_have_title("(1) Inbox · Rejoinder")
    await page.get_by_role("button", name="Yes").click()
    await expect(page.locator(".outcome")).to_contain_text("You answered")
    await expect(page.locator(".outcome")).to_be_focused()
    assert await live.result() is True


async def test_nothing_moves_under_the_readers_eyes(live: Live, visit: Visit) -> None:
    asked = await live.ask("Write something", timeout=5000)
    page = await (await visit()).open(f"/inbox/{asked.id}")
    # What is asked before the stream is open comes with the look that the page then takes, without a bar.
    async with page.expect_response(lambda response: "/inbox/queue" in response.url):
        await page.reload()
    field = page.get_by_label("Your answer")
    await field.fill("I am typ")
    await live.ask("Sooner than that", timeout=60)
    bar = page.get_by_role("button", name="1 new question: show")
    await expect(bar).to_be_visible()
    await expect(page.locator("#queue li")).to_have_count(1)
    await expect(field).to_be_focused()
    await expect(field).to_have_value("I am typ")
    await bar.click()
    await expect(page.locator("#queue li")).to_have_count(2)
    await expect(page.locator("#queue li").first).to_contain_text("Sooner than that")
    await expect(field).to_have_value("I am typ")


async def test_an_answer_given_elsewhere_closes_the_open_question(live: Live, visit: Visit) -> None:
    asked = await live.ask("Who is faster?")
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await page.get_by_label("Your answer").fill("me, nearly")
    await live.node.asks.answer(asked.id, "bob is", by=BOB, via="cli")
    await expect(page.get_by_role("heading", name="Answered by bob")).to_be_visible()
    await expect(page.locator(".outcome")).to_contain_text("on the command line")
    await expect(page.locator(".outcome")).to_contain_text("me, nearly")
    await expect(page.locator("#announcer")).to_have_text("Answered by bob.")
    await expect(page.locator(".outcome")).to_be_focused()
    await expect(page.get_by_role("button", name="Send the answer")).to_have_count(0)


async def test_a_withdrawn_question_says_so(live: Live, visit: Visit) -> None:
    asked = await live.ask("Still there?", answer_format="confirm")
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await live.node.asks.cancel(asked.id, by=BOB, via="http")
    await expect(page.get_by_role("heading", name="Withdrawn by bob")).to_be_visible()


async def test_the_list_catches_up_after_the_stream_was_cut(live: Live, visit: Visit) -> None:
    ann = await visit()
    page = await ann.open("/inbox")
    await ann.context.set_offline(True)
    await live.ask("While you were away")
    await ann.context.set_offline(False)
    await expect(page.locator("#queue")).to_contain_text("While you were away")


async def test_a_question_is_answered_by_keyboard_alone(live: Live, visit: Visit) -> None:
    await live.ask("First", answer_format="confirm", timeout=100)
    await live.ask("Second", answer_format="select", options=["a", "b", "c"], timeout=200)
    page = await (await visit()).open("/inbox")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Second")).to_be_visible()
    await page.keyboard.press("3")
    await expect(page.locator(".outcome")).to_contain_text("You answered")
    assert await live.result() == "c"
    await page.keyboard.press("y")  # nothing is open here: nothing happens
    await page.get_by_role("link", name="Next question").click()
    await expect(page.get_by_role("heading", name="First")).to_be_visible()
    await page.keyboard.press("n")
    await expect(page.locator(".outcome")).to_contain_text("No")
    assert await live.result(0) is False


async def test_shortcuts_rest_while_typing_and_can_be_switched_off(live: Live, visit: Visit) -> None:
    asked = await live.ask("Sure?", answer_format="confirm")
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await page.keyboard.press("/")
    await page.keyboard.type("yny 1")
    await expect(page.get_by_label("Search the questions")).to_have_value("yny 1")
    await page.locator("#main").focus()
    await page.keyboard.press("?")
    await page.get_by_label("Use single-key shortcuts").uncheck()
    await page.get_by_role("button", name="Close").click()
    await page.reload()
    await page.keyboard.press("y")
    await page.keyboard.press("?")
    await expect(page.locator("#help")).to_be_hidden()
    found = await live.node.questions.by_id(asked.id)
    assert found is not None
    assert found.state == "pending"


async def test_a_draft_survives_a_closed_tab_but_not_a_sensitive_one(live: Live, visit: Visit) -> None:
    form = await live.ask("Fill in", answer_format="form", schema=FORM)
    secret = await live.ask(tool="unlock")
    ann = await visit()
    page = await ann.open(f"/inbox/{form.id}")
    await page.get_by_label("Reviewer's e-mail").fill("a@example.com")
    await page.get_by_label("Reject").check()
    await page.goto(f"{live.url}/inbox/{secret.id}")
    await page.get_by_label("Your answer").fill("hunter2")
    stored = await page.evaluate("JSON.stringify(localStorage)")
    assert "a@example.com" in stored
    assert "hunter2" not in stored
    await page.goto(f"{live.url}/inbox/{form.id}")
    await expect(page.get_by_label("Reviewer's e-mail")).to_have_value("a@example.com")
    await expect(page.get_by_label("Reject")).to_be_checked()


async def test_a_form_with_rows_is_answered(live: Live, visit: Visit) -> None:
    asked = await live.ask("Fill in", answer_format="form", schema=FORM)
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await page.get_by_role("button", name="Send the answer").last.click()
    await expect(page.locator("#faults")).to_be_focused()
    await page.locator("#faults").get_by_role("link", name="Decision").click()
    await expect(page.get_by_label("Approve", exact=True)).to_be_focused()
    await page.get_by_label("Approve", exact=True).check()
    await page.get_by_label("Reviewer's e-mail").fill("a@example.com")
    await page.get_by_label("Deploy at", exact=True).fill("2030-07-01T10:30")
    await page.get_by_label("Name").fill("core")
    await page.get_by_role("button", name="Add another to Changes").click()
    await expect(page.get_by_label("Name").nth(1)).to_be_focused()
    await page.keyboard.type("docs")
    await page.keyboard.press("Enter")
    await expect(page.locator(".outcome")).to_contain_text("You answered")
    answer = await live.result()
    assert answer["items"] == [{"name": "core"}, {"name": "docs"}]
    assert answer["at"] == "2030-07-01T10:30:00+02:00"
    assert answer["replicas"] == 3


async def test_a_suggestion_fills_the_answer_in(live: Live, visit: Visit) -> None:
    asked = await live.ask("Say", options=["hello", "good bye"])
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await page.get_by_role("button", name="good bye").click()
    await expect(page.get_by_label("Your answer")).to_have_value("good bye")
    await page.get_by_role("button", name="Send the answer").last.click()
    await expect(page.locator(".outcome")).to_contain_text("good bye")


async def test_a_second_tap_sends_nothing_twice(live: Live, visit: Visit) -> None:
    asked = await live.ask("Sure?", answer_format="confirm")
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await page.get_by_role("button", name="Yes").dblclick()
    await expect(page.locator(".outcome")).to_contain_text("You answered")
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_secret_is_revealed_only_on_demand(live: Live, visit: Visit) -> None:
    asked = await live.ask(tool="unlock")
    page = await (await visit()).open(f"/inbox/{asked.id}")
    field = page.get_by_label("Your answer")
    await expect(field).to_have_attribute("type", "password")
    await field.fill("hunter2")
    await page.get_by_role("button", name="Show").click()
    await expect(field).to_have_attribute("type", "text")
    await page.get_by_role("button", name="Send the answer").last.click()
    await expect(page.locator(".outcome")).to_contain_text("kept nowhere")
    assert "hunter2" not in await page.content()


async def test_times_are_in_the_readers_zone(live: Live, visit: Visit) -> None:
    asked = await live.ask("When?")
    path = f"/inbox/{asked.id}"
    page = await (await visit()).open(path)
    await expect(page.locator(".deadline")).to_contain_text("CET")
    page = await (await visit(scripts=False, name="bob")).open(path)
    await expect(page.locator(".deadline")).to_contain_text("UTC")


@pytest.mark.parametrize(
    "evil", ["<img src=x onerror=document.title='owned'>", "<script>document.title='owned'</script>"]
)
async def test_what_others_wrote_never_runs(live: Live, visit: Visit, evil: str) -> None:
    schema = {
        "type": "object",
        "title": evil,
        "properties": {"a": {"type": "string", "title": evil, "description": evil}},
    }
    asked = await live.ask(evil, answer_format="form", schema=schema, group_id=evil)
    page = await (await visit()).open(f"/inbox/{asked.id}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(evil)
    for path in ("/inbox", "/audit", f"/runs/{asked.run_id}"):
        await page.goto(live.url + path)
        assert "owned" not in (await page.title()).replace(evil, "")


async def test_the_policy_stops_what_was_slipped_in(live: Live, visit: Visit) -> None:
    asked = await live.ask("Fine?")
    ann = await visit()
    page = await ann.open(f"/inbox/{asked.id}")
    await page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'document.title = \"owned\"';"
        " document.body.append(s); const i = document.createElement('div');"
        " i.innerHTML = '<img src=/nothing onerror=\"document.title = 1\">'; document.body.append(i);"
        " const f = new Image(); f.src = 'https://example.com/x.png'; document.body.append(f); }"
    )
    await assert_eventually(lambda: len(ann.complaints) >= 2, "the policy was not heard of")
    assert "owned" not in await page.title()
    assert all("Content Security Policy" in complaint for complaint in ann.complaints)
    ann.complaints.clear()
    assert ann.foreign in ([], ["https://example.com/x.png"])  # told as a request, and stopped before it left
    ann.foreign.clear()


async def test_remote_media_is_fetched_by_nobody(live: Live, visit: Visit) -> None:
    asked = await live.ask(
        "Look?", answer_format="confirm",
        media=[{"kind": "image", "url": "https://images.example.com/a.png", "caption": "A"},
               {"kind": "video", "url": "https://images.example.com/b.mp4"}],
    )  # fmt: skip
    page = await (await visit()).open(f"/inbox/{asked.id}")
    link = page.get_by_role("link", name="images.example.com").first
    await expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    await page.wait_for_load_state("load")


async def test_a_reader_without_grants_sees_no_controls(live: Live, visit: Visit) -> None:
    asked = await live.ask("Sure?", answer_format="confirm")
    page = await (await visit(grants=["read"])).open(f"/inbox/{asked.id}")
    await expect(page.get_by_text("Your key may read this question")).to_be_visible()
    await expect(page.get_by_role("button", name="Yes")).to_have_count(0)
    assert not LOCAL_OWNER.restricted


async def test_what_ends_elsewhere_is_marked_where_it_stands_and_counted(live: Live, visit: Visit) -> None:
    first = await live.ask("First", answer_format="confirm", timeout=100)
    await live.ask("Second", answer_format="confirm", timeout=200)
    third = await live.ask("Third", answer_format="confirm", timeout=300)
    page = await (await visit()).open(f"/inbox/{first.id}")
    await expect(page).to_have_title("(3) First · Rejoinder")
    await live.node.asks.answer(third.id, True, by=BOB, via="cli")
    await expect(page.locator("#queue li.gone")).to_contain_text("no longer open")
    await expect(page).to_have_title("(2) First · Rejoinder")
    await expect(page.locator("#queue li")).to_have_count(3)
    await expect(page.get_by_role("button", name="Yes")).to_be_visible()


async def test_a_filtered_list_offers_only_what_it_lets_through(live: Live, visit: Visit) -> None:
    await live.ask("Needle one", timeout=500)
    page = await (await visit()).open("/inbox?q=needle")
    await expect(page).to_have_title("(1) Inbox · Rejoinder")
    await live.ask("Something else")
    await expect(page).to_have_title("(2) Inbox · Rejoinder")
    await expect(page.locator("#new-bar")).to_be_hidden()
    await live.ask("Needle two")
    await expect(page.get_by_role("button", name="1 new question: show")).to_be_visible()


async def test_a_form_is_answered_on_a_phone_without_scripts(live: Live, visit: Visit) -> None:
    asked = await live.ask("Fill in", answer_format="form", schema=FORM)
    page = await (await visit(width=320, height=640, scripts=False)).open("/inbox")
    await page.get_by_role("link", name="Fill in").click()
    await expect(page).to_have_url(f"{live.url}/inbox/{asked.id}")
    await page.get_by_label("Reviewer's e-mail").fill("a@example.com")
    await page.get_by_label("Approve with changes").check()
    await page.get_by_label("Deploy at", exact=True).fill("2030-07-01T10:30")
    await page.get_by_role("button", name="Add another to Changes").click()
    await page.get_by_label("Name").nth(0).fill("core")
    await page.get_by_label("Name").nth(1).fill("docs")
    await page.get_by_role("button", name="Remove Change 1").click()
    await page.get_by_role("button", name="Send the answer").last.click()
    await expect(page.locator(".outcome")).to_contain_text("You answered")
    answer = await live.result()
    assert (answer["at"], answer["items"]) == ("2030-07-01T10:30:00Z", [{"name": "docs"}])
