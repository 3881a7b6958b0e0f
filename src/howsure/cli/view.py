"""`howsure view`."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from howsure.cli import common
from howsure.cli.commands import View, command
from howsure.errors import InputError
from howsure.options import Opt, Options
from howsure.storage import is_address, shown


@dataclass(frozen=True)
class ViewerOptions(Options):
    folder: Annotated[str, Opt("Where to look; run folders below it are shown.", argument=True, path="any")] = "runs"
    port: Annotated[
        int | None, Opt("Port; 0: any that is free. Default: 8765, or the next free one.", least=0, most=65535)
    ] = None
    host: Annotated[str, Opt("Address to listen on; anything but this machine needs a token.")] = "127.0.0.1"
    token: Annotated[str | None, Opt("`auto`: make a token and require it.", metavar="auto")] = None
    token_file: Annotated[
        Path | None,
        Opt("Require the token in this file, which only you can read. Or set HOWSURE_VIEW_TOKEN.", path="local"),
    ] = None
    open_browser: Annotated[bool, Opt("Open it in the browser.", flags=("--open/--no-open",))] = False


@command(ViewerOptions)
def view(options: ViewerOptions, view: View) -> int:
    """Look at runs in the browser: figures, plots, every sample; also while they run.

    Serves the run folders below FOLDER on this machine until Ctrl-C. It only
    reads, and nothing outside FOLDER.

    Example: howsure view runs/
    """
    from howsure.report.text import counted
    from howsure.report.viewer import check_installed
    from howsure.runs import find_runs

    if is_address(options.folder):
        name = shown(options.folder)
        raise InputError(
            f"{name} is an address, and only runs on this machine can be viewed: copy them here first (aws s3 sync, "
            f"gsutil rsync), or write a page with `howsure report {name}`"
        )
    folder = Path(options.folder)
    check_installed()
    from howsure.report.viewer import server
    from howsure.report.viewer.library import served_root

    served_root(folder)
    host = server.checked_host(options.host)
    token = server.checked_token(host, options.token, options.token_file)
    runs = len(find_runs(folder))
    if view.dry_run:
        return common.print_plan({"runs": runs, "model_calls": 0, "tokens": 0}, view.as_json)
    listener = server.listen(host, options.port)
    address = server.Address(host, listener.getsockname()[1], token)
    if view.as_json:
        common.print_json({"url": address.url, "folder": str(folder), "runs": runs})
    else:
        common.print_line(address.url)
    sys.stdout.flush()
    if not view.quiet:
        common.say(f"showing {counted(runs, 'run')} below {folder} at this address; Ctrl-C ends it")
        if address.host in server.EVERYWHERE:
            common.say("from other machines, with this machine's name or number in place of the one in the address")
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as held:  # Ctrl-C is the usual way to end it
        if options.open_browser:
            held.enter_context(server.opened_in_browser(address))
        server.serve(folder, listener, address)
    return common.DONE
