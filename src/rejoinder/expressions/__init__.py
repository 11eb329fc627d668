"""Expressions: jq over JSON, compiled when they are registered, and bounded in size and time."""
