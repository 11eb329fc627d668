"""What one would pick instead. Each runs in a process of its own and prints one line of JSON.

They are measured at their engine's own call, without the web door, the keys, the checked answer and the audit trail
that Rejoinder's figures include.
"""
