"""Which message belongs to a run: from the ids alone, in any process."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.turns.identity import (
    NAMESPACE,
    ChatKey,
    any_key,
    chat_key,
    input_id,
    is_action,
    message_id,
    parse_key,
    parse_run,
)
from tests.unit.turns.script import CHAT, KEY, M1, M2, OTHER, OWN, SESSION, USER

_ids = st.uuids().map(str)


@given(agent=st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True), user=_ids, chat=_ids)
def test_a_key_reads_back_what_it_was_made_of(agent: str, user: str, chat: str) -> None:
    key = ChatKey(agent, user, chat)
    assert parse_key(str(key)) == key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "agent:main:main",
        "agent:main:owui:chat-1",
        f"agent:main:openwebui-{USER}-{CHAT[:-1]}",
        f"agent:main:openwebui-{USER}-{CHAT}-more",
        f"x:agent:main:openwebui-{USER}-{CHAT}",
        f"agent:main:openwebui-{USER}{CHAT}",
        f"agent:a:b:openwebui-{USER}-{CHAT}",
        f"{KEY}\n",
        "agent:main:subagent:27c4cf89-6de0-4e66-9d0b-709d5cf02a28",
    ],
)
def test_any_other_key_is_no_chat(key: str) -> None:
    assert parse_key(key) is None
    assert not chat_key(key)


@given(chat=_ids, message=_ids, suffix=st.text(min_size=1, max_size=30))
def test_a_run_of_ours_carries_its_message(chat: str, message: str, suffix: str) -> None:
    key = str(ChatKey("main", USER, chat))
    assert message_id(key, f"msg-{chat}-{message}-{suffix}") == message


@pytest.mark.parametrize("suffix", ["1796005240000", "input-17", "resume-17"])
def test_an_answer_and_a_resume_go_into_the_same_message(suffix: str) -> None:
    run = parse_run(f"msg-{CHAT}-{M1}-{suffix}")
    assert run is not None
    assert run.resumes == suffix.startswith("resume-")
    assert message_id(KEY, str(run)) == M1


@pytest.mark.parametrize(
    "run", ["msg-a-b-1", f"msg-{CHAT}-{M1}", f"msg-{CHAT}-{M1}-", f"MSG-{CHAT}-{M1}-1", ""]
)
def test_a_run_that_only_looks_like_ours_gets_a_message_of_its_own(run: str) -> None:
    assert parse_run(run) is None
    assert message_id(KEY, run) == str(uuid.uuid5(NAMESPACE, f"{KEY}:{run}"))


def test_a_run_of_another_chat_never_writes_into_that_chats_message() -> None:
    foreign = f"msg-{M2}-{M1}-1"
    assert message_id(KEY, foreign) == str(uuid.uuid5(NAMESPACE, f"{KEY}:{foreign}"))


@pytest.mark.parametrize("run", ["owui-action-compact-1", "owui-action-"])
def test_a_buttons_run_never_gets_a_message(run: str) -> None:
    assert is_action(run)
    assert message_id(KEY, run) is None


@given(run=_ids, other=_ids, key=st.sampled_from([KEY, "agent:main:main"]))
def test_an_agents_run_has_one_id_and_its_own(run: str, other: str, key: str) -> None:
    assert message_id(key, run) == message_id(key, run)
    assert (message_id(key, run) == message_id(key, other)) == (run == other)
    assert message_id(f"{key}x", run) != message_id(key, run)


def test_the_namespace_never_changes() -> None:
    # Chats keep these ids: another namespace would show every run of the past a second time.
    assert message_id("agent:main:main", "run-1") == "aefa87fd-7d43-5b45-9dcc-54bb4c825674"


def test_two_scheduled_runs_of_one_session_get_two_messages() -> None:
    first = message_id(KEY, SESSION, "38c452a9-18b5-40ae-a88f-267492020a85", session_id=SESSION)
    second = message_id(KEY, SESSION, "4227ba44-f3f6-451c-87d5-2507d7ffcd85", session_id=SESSION)
    assert len({first, second, message_id(KEY, SESSION, session_id=SESSION)}) == 3


def test_a_queued_message_is_answered_in_its_own_reply() -> None:
    assert message_id(KEY, "5797dd5c-b0c6-4806-923c-e5a678be638d", OTHER, session_id=SESSION) == M2


@given(run=_ids, asked=_ids)
def test_another_input_names_no_other_message_unless_the_run_id_is_shared(run: str, asked: str) -> None:
    assert message_id(KEY, run, asked, session_id=SESSION) == message_id(KEY, run)
    assert message_id(KEY, OWN, asked, session_id=SESSION) == M1


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (f"{OWN}:user", OWN),
        ("a:b:user", "a:b"),
        (":user", None),
        ("x:assistant", None),
        ("", None),
        (None, None),
    ],
)
def test_an_input_row_is_known_by_its_key(key: str | None, found: str | None) -> None:
    assert input_id(key) == found


@pytest.mark.parametrize(
    ("key", "shows"),
    [
        (KEY, True),
        ("agent:main:main", True),
        ("agent:main:owui:subagent", True),
        ("agent:main:subagent:27c4cf89", False),
        ("agent:main:subagent:27c4cf89:subagent:11", False),
        ("", False),
    ],
)
def test_a_sub_agents_own_session_shows_nothing(key: str, shows: bool) -> None:
    assert any_key(key) is shows
