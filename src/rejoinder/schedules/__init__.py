"""Schedules: tools that run at set times."""
