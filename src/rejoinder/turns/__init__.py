"""The rules that turn an agent's run into exactly one message of a chat.

Everything here is pure: no I/O, no clock, no memory outside the values passed in, standard library only (the
package is carried inside a file that runs in another program's process).

`table.RunTable` is the whole: feed it what the Gateway said (`signals`), do what it answers (`actions`).
`reducer.Reducer` is one run's live state; `transcript` reads a run out of its session's history;
`finish.finish` makes the finished message of the two.
"""
