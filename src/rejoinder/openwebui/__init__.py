"""The chat program's side of a Gateway: Open WebUI's own messages, tasks and events, and the Functions that it loads.

What is here runs inside Open WebUI's process, carried with `openclaw` and `turns` in one file (`bundle`). Only `host`
knows Open WebUI's names; `install` and `bundle` run outside of it.
"""
