"""The client of an OpenClaw Gateway: handshake, frames, calls, sessions, history, recordings.

It knows nothing of chats. It is carried inside a file that runs in another program's process, so it imports the
standard library, `websockets` and `cryptography` only, and logs as `rejoinder.openclaw`.

`client.GatewayClient` stays connected; `replay.replay` reads a recording made by `recording.Recorder`.
Tested with Gateway 2026.9.3.
"""
