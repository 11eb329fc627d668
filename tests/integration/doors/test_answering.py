"""The main job over HTTP: a blocked call, and the door that answers it."""

from __future__ import annotations

from tests.integration.doors.edge import edge


async def test_a_blocked_call_gets_the_answer(database_url: str) -> None:
    async with edge(database_url) as e:
        asked = await e.ask(answer_format="confirm")
        done = await e.owner.post(f"/api/interactions/{asked.id}/answer", json={"answer": True})
        assert done.status_code == 200
        assert done.json() == {"data": {"interaction_id": asked.id, "status": "answered"}}
        result = await asked.call
        assert result.status_code == 200
        assert result.json() == {
            "data": {"kind": "result", "result": {"answer": True, "reply_to": None, "params": None}}
        }
        run = await e.node.database.value("SELECT run_id FROM rejoinder.question")
        assert result.headers["x-rejoinder-run-id"] == str(run)
