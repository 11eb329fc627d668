"""``rejoinder hooks``: topics, the verifiers before them, hooks, and trigger links."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from rejoinder.cli.arguments import UsageError, json_option
from rejoinder.cli.client import segment
from rejoinder.cli.hook_runs import app as runs
from rejoinder.cli.moments import local, shown
from rejoinder.cli.output import note, print_json, print_mapping, print_table
from rejoinder.cli.remote import ON_THIS_MACHINE, Remote, items_of

app = App(name="hooks", help="Run tools on events of outside systems, and say how those prove themselves.")
app.command(runs)

Topic = Annotated[str, Parameter(help="The topic: the last part of /universal_webhook/TOPIC.")]
FROM_FILE = Parameter(allow_leading_hyphen=True, help="The same from a file; - is standard input.")
OfTopic = Annotated[str | None, Parameter(help="Only those of this topic.")]


@app.command(name="list")
def list_hooks(*, topic: OfTopic = None, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the hooks."""
    found = _everything(remote, "/api/hooks", topic=topic)
    if remote.json:
        print_json({"items": found})
        return
    print_table(
        [
            ("name", "NAME"),
            ("topic", "TOPIC"),
            ("tool", "TOOL"),
            ("execution_key", "KEY"),
            ("condition", "CONDITION"),
            ("updated_by", "BY"),
            ("updated_at", "SINCE"),
        ],
        [shown(item, updated_at=local) for item in found],
        wide="condition",
    )


@app.command
def topics(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the topics that have a verifier, a hook or a trigger link, and say which of them stand open."""
    found = _everything(remote, "/api/hooks/topics")
    if remote.json:
        print_json({"items": found})
        return
    rows = [{**one, "verifier": one["verifier"] or "OPEN: anybody may send"} for one in found]
    print_table([("topic", "TOPIC"), ("verifier", "VERIFIER"), ("hooks", "HOOKS"), ("links", "LINKS")], rows)


@app.command
def verifiers(*, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the webhook verifiers that a question or a topic can be bound to."""
    answer = remote.client().get("/api/hooks/verifiers")
    if remote.json:
        print_json(answer)
        return
    rows = [{**one, "post_only": "yes" if one["post_only"] else "no"} for one in items_of(answer)]
    print_table([("name", "NAME"), ("post_only", "SIGNS THE BODY")], rows)


@app.command
def register(
    *,
    params: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help='The hook as JSON: {"name", "topic", "tool", "execution_key"} and, where wanted, "condition", '
            '"start_expr", "tool_kwargs". - reads standard input.',
        ),
    ] = None,
    params_file: Annotated[str | None, FROM_FILE] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Register a hook, in the place of one of the same name."""
    body = json_option("--params", params, params_file)
    if body is None:
        raise UsageError("Give the hook with --params or --params-file.", field="--params")
    _print(remote, remote.client().post("/api/hooks", body))


@app.command
def delete(
    name: Annotated[str, Parameter(help="The hook's name.")], /, *, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Delete a hook."""
    done = remote.client().delete(f"/api/hooks/{segment(name)}")
    if remote.json:
        print_json(done)
    else:
        print(f"Deleted: {done['name']}")


@app.command
def set_verifier(
    topic: Topic,
    /,
    *,
    verifier: Annotated[str, Parameter(help="The verifier's name, as in: rejoinder hooks verifiers.")],
    config: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Its configuration as JSON; - reads it from standard input. A secret is named by its environment variable.",
        ),
    ] = None,
    config_file: Annotated[str | None, FROM_FILE] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Let only what a verifier vouches for reach a topic."""
    body = {"verifier": verifier, "config": json_option("--config", config, config_file)}
    body = {key: value for key, value in body.items() if value is not None}
    _print(remote, remote.client().call("PUT", f"/api/hooks/topics/{segment(topic)}/verifier", body=body))


@app.command
def delete_verifier(topic: Topic, /, *, remote: Remote = ON_THIS_MACHINE) -> None:
    """Take a topic's verifier away. Refused while hooks run on the topic."""
    done = remote.client().delete(f"/api/hooks/topics/{segment(topic)}/verifier")
    if remote.json:
        print_json(done)
    else:
        print(f"Open to everybody: {done['topic']}")


@app.command
def trigger_links(*, topic: OfTopic = None, remote: Remote = ON_THIS_MACHINE) -> None:
    """List the trigger links, and say which of them count."""
    found = _everything(remote, "/api/hooks/trigger-links", topic=topic)
    if remote.json:
        print_json({"items": found})
        return
    rows = [{**one, "status": one["status"].replace("_", " ")} for one in found]
    print_table(
        [
            ("name", "NAME"),
            ("topic", "TOPIC"),
            ("status", "STATUS"),
            ("expires_at", "EXPIRES"),
            ("require_api_key", "NEEDS A KEY"),
            ("created_by", "BY"),
        ],
        [shown(item, expires_at=local) for item in rows],
    )


@app.command
def create_trigger_link(
    topic: Topic,
    /,
    *,
    execution_key: Annotated[str, Parameter(help="The key that the link lives and ends with.")],
    name: Annotated[str | None, Parameter(help="What the link is called. [default: a made-up name]")] = None,
    ttl: Annotated[int | None, Parameter(help="Seconds until it ends.")] = None,
    permanent: Annotated[bool, Parameter(negative="", help="It does not end by itself.")] = False,
    require_api_key: Annotated[
        bool, Parameter(negative="", help="It counts only together with an API key that may write.")
    ] = False,
    params: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Arguments for the tools of the topic's hooks, as JSON; - reads standard input.",
        ),
    ] = None,
    params_file: Annotated[str | None, FROM_FILE] = None,
    remote: Remote = ON_THIS_MACHINE,
) -> None:
    """Make a link that posts to an open topic, and print it. It is shown this once."""
    if (ttl is None) is not permanent:
        raise UsageError("Give either --ttl or --permanent.", field="--ttl")
    body: dict[str, Any] = {"topic": topic, "execution_key": execution_key, "ttl_seconds": ttl}
    if name is not None:
        body["name"] = name
    if require_api_key:
        body["require_api_key"] = True
    kwargs = json_option("--params", params, params_file)
    if kwargs is not None:
        body["tool_kwargs"] = kwargs
    made = remote.client().post("/api/hooks/trigger-links", body)
    if remote.json:
        print_json(made)
    else:
        print(made["url"])
        note(f"Its name is {made['link']['name']}. Keep the address: it is not shown again.")


@app.command
def delete_trigger_link(
    name: Annotated[str, Parameter(help="The link's name.")], /, *, remote: Remote = ON_THIS_MACHINE
) -> None:
    """Revoke a trigger link, for ever."""
    done = remote.client().delete(f"/api/hooks/trigger-links/{segment(name)}")
    if remote.json:
        print_json(done)
    else:
        print(f"Revoked: {done['name']}")


def _everything(remote: Remote, path: str, **query: str | None) -> list[dict[str, Any]]:
    client, found = remote.client(), []
    after: str | None = None
    while True:
        page = client.get(path, limit=500, after=after, **query)
        found += items_of(page)
        after = page.get("next_after")
        if after is None:
            return found


def _print(remote: Remote, answer: Any) -> None:
    if remote.json:
        print_json(answer)
    else:
        print_mapping(answer)
