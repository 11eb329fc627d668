"""A tool that deletes a branch, but asks a person first."""

from __future__ import annotations

from rejoinder import ask, tool


@tool
async def delete_branch(name: str) -> str:
    """Delete a branch, once somebody agrees."""
    answer = await ask(f"Delete the branch {name}?", answer_format="confirm")
    if not answer.answer:
        return f"{name} stays."
    # Here the branch would be deleted.
    return f"{name} is deleted."
