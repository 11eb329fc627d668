"""The rules that turn an agent's run into exactly one message of a chat.

Everything here is pure: no I/O, no clock, no memory outside the values passed in, standard library only (the
package is carried inside a file that runs in another program's process).

`table.RunTable` is the whole: feed it what the Gateway said, do what it answers (both are in `signals`).
`reducer.Reducer` is one run's live state; `transcript` reads a run out of its session's history;
`finish.finish` makes the finished message of the two; `identity` says which message it is, `link` which run a
restart recovery carries on with, `owner` who continues a run that was cut.
"""
