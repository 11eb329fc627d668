"""The command ``rejoinder``. Each command's code is loaded when it is used, so that every one of them starts fast.

Exit codes: 0 done, 1 it did not work, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from cyclopts import App, CycloptsError

from rejoinder.cli.arguments import leading_options_last, standard_input
from rejoinder.contract.errors import RejoinderError

HELP = """Ask a person from any agent or tool and get the typed answer back, exactly once.

Start with `rejoinder up`: it runs everything on this machine and prints where to answer.
"""

#: ``(name, where its code is, what it does)``, in the order of the help.
ON_THIS_MACHINE = (
    ("up", "local:up", "Start everything on this machine: database, inbox, worker and a demo."),
    ("serve", "local:serve", "Serve the inbox, the HTTP doors and MCP, on a Postgres of your own."),
    ("worker", "local:worker", "Run background runs and resume parked ones, on a Postgres of your own."),
    ("mcp", "local:mcp", "Serve the tools to an MCP client on standard input and output."),
    ("migrate", "local:migrate", "Bring the database to this version."),
    ("doctor", "local:doctor", "Say what is wrong with an installation and how to mend it."),
    ("owner-key", "local:owner_key", "Make the first key of a deployment, in its database."),
    ("backup", "local:backup", "Write the embedded store to a file."),
    ("restore", "local:restore", "Put a backup in the place of the embedded store."),
    ("openclaw", "openclaw:app", "Record what an OpenClaw Gateway says, and replay recordings."),
    ("openwebui", "openwebui:app", "Connect an OpenClaw Gateway with Open WebUI."),
)
REMOTE = (
    ("interactions", "interactions:app", "List, watch, answer and withdraw questions."),
    ("tools", "tools:app", "List and run tools, and look at their runs."),
    ("hooks", "hooks:app", "Run tools on events of outside systems, and say how those prove themselves."),
    ("presets", "presets:app", "Make, change and look at tools with some of their arguments fixed."),
    ("agents", "agents:app", "List agents, and run one while it tells what it does."),
    ("schedules", "schedules:app", "Run tools at set times."),
    ("keys", "keys:app", "List, create and revoke API keys."),
    ("scopes", "scopes:app", "Open and close the doors that outside systems call."),
    ("sign-in", "audit:sign_in", "Print a link that signs a browser in to the inbox."),
    ("audit", "audit:audit", "Show what happened: every question, attempt, answer, lapse and refusal."),
)


def build(chosen: str | None = None) -> App:
    """The application. Of the command ``chosen`` the help is its own whole text, which loads its code."""
    app = App(
        name="rejoinder",
        help=HELP,
        version=_version,
        version_flags=["--version"],
        help_format="markdown",
        default_parameter=None,
    )
    for group, commands in (("On this machine", ON_THIS_MACHINE), ("On a running server", REMOTE)):
        for name, place, help_text in commands:
            about = None if name == chosen else help_text
            app.command(f"rejoinder.cli.{place}", name=name, help=about, group=group)
    app.command(
        "rejoinder.cli.local:version", name="version", help="Print the version.", group="On this machine"
    )
    app.register_install_completion_command(name="--install-completion", add_to_startup=False)
    return app


def main(arguments: list[str] | None = None) -> NoReturn:
    """The entry point. Ends the process with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """One command. Returns the exit code; never raises for what a user did."""
    from rejoinder.cli.output import fail

    words = leading_options_last(arguments)
    app = build(words[0] if words else None)
    standard_input.release()
    try:
        result = app(
            words,
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        fail(_explained(error))
        return 2
    except RejoinderError as error:
        fail(error.message)
        return 2 if getattr(error, "usage", False) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has had enough, as in ``| head``. Python would complain once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0


def _version() -> str:
    from importlib.metadata import version

    return version("rejoinder")


def _explained(error: CycloptsError) -> str:
    text = " ".join(str(error).split())
    words = [word for word in error.command_chain or () if word]
    return text if text.endswith("?") else f"{text} Try: {' '.join(['rejoinder', *words])} --help"


if __name__ == "__main__":
    main()
