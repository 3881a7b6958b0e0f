"""`howsure view`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from howsure.cli import common


@common.command
def view(
    folder: Annotated[
        Path,
        typer.Argument(parser=common.local_runs, help="Where to look; run folders below it are found."),
    ] = Path("runs"),
    port: Annotated[
        int | None,
        typer.Option(help="Port; 0: any that is free. Default: 8765, or the next free one.", min=0, max=65535),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; anything but this machine needs a token.")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str | None, typer.Option(help="`auto`: ask for a token, which is made now.", metavar="auto")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            **common.LOCAL, help="Ask for the token in this file, which only you can read. Or set HOWSURE_VIEW_TOKEN."
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = False,
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
    dry_run: common.DryRun = False,
) -> int:
    """Look at runs in the browser: figures, plots, every sample; also while they run.

    Serves the run folders below FOLDER on this machine until Ctrl-C. It only
    reads, and nothing outside FOLDER.

    Example: howsure view runs/
    """
    from howsure.report.viewer import serve as server
    from howsure.report.viewer.places import served_root
    from howsure.runs import find_runs

    server.check_installed()
    served_root(folder)
    host = server.checked_host(host)
    asked = server.checked_token(host, token, token_file)
    runs = len(find_runs(folder))
    if dry_run:
        return common.print_plan({"runs": runs, "model_calls": 0, "tokens": 0}, as_json)
    listener = server.listen(host, port)
    address = server.Address(host, listener.getsockname()[1], asked)
    _announce(address.url, folder, runs, as_json, quiet)
    if not quiet and address.host in server.EVERYWHERE:
        common.say("from other machines, with this machine's name or number in place of the one in the address")
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as held:  # Ctrl-C is the usual way to end it
        if open_browser:
            held.enter_context(server.opened_in_browser(address))
        server.serve(folder, listener, address)
    return common.DONE


def _announce(url: str, folder: Path, runs: int, as_json: bool, quiet: bool) -> None:
    from howsure.report.text import counted

    if as_json:
        common.print_json({"url": url, "folder": str(folder), "runs": runs})
    else:
        common.print_line(url)
    sys.stdout.flush()
    if not quiet:
        common.say(f"showing {counted(runs, 'run')} below {folder} at this address; Ctrl-C ends it")
