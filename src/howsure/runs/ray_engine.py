"""Work on Ray: a pool of workers, on this machine or on a cluster, each of which loads its model once.

Ray starts the workers and moves pieces and results. What is done here is the bookkeeping that a run needs: results come
in order, few pieces are under way, and the pieces of a worker or machine that dies are done again by another. Ray's own
pool (`ray.util.ActorPool`) gives up at the first death, and its own restarts wait for room that may never come, while
others have nothing to do.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, TypeVar

from howsure.errors import InputError, MissingExtra, WorkersLost
from howsure.isolated import environment, neutral_folder
from howsure.runs.engine import Job
from howsure.runs.processes import usable_cores
from howsure.runs.ray_pool import Pool, Room

Piece = TypeVar("Piece")
Found = TypeVar("Found")

OWN_STORE_BYTES = 512 * 2**20
"""What Ray may keep in shared memory on this machine when it is started here: pieces under way are few and small."""

WORKERS_A_CORE = 8
"""The most that are started on this machine: enough for work that waits, and not what a slip of the finger asks for."""

INLINE_BYTES = 4 * 2**20
"""Results up to this size come back with the answer itself. Ray puts all above 100 kB into shared memory, with which
two readers of logs on two cores took a fifth longer; those of howsure are few at a time."""

KNOCK_SECONDS = 20.0

Announce = Callable[[str], None]


class RayEngine:
    """Workers of a Ray cluster; without an address, Ray is started on this machine and ended with the engine."""

    name = "ray"

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        gpus_per_worker: float | None = None,
        cpus_per_worker: float | None = None,
        announce: Announce | None = None,
    ) -> None:
        self.gpus_per_worker = _amount("--gpus-per-worker", gpus_per_worker) or 0.0
        self.cpus_per_worker = _amount("--cpus-per-worker", cpus_per_worker)
        if workers is not None and workers < 1:
            raise InputError(f"--workers must be at least 1, not {workers}")
        most = WORKERS_A_CORE * usable_cores()
        if address is None and workers is not None and workers > most:
            raise InputError(
                f"--workers {workers} are too many for this machine, which takes {most} ({WORKERS_A_CORE} a core): "
                "each is a process with a model of its own; for more name a cluster with --address"
            )
        self.address = address
        self.workers = workers
        self._announce = announce or (lambda _: None)
        self._connected_here = False
        self._until_closed = ExitStack()
        self._pool: Pool | None = None

    def look(self) -> None:
        """Find out whether Ray is installed and the cluster answers, before anybody writes anything."""
        ray = _ray()
        if self.address is not None:
            self._connect(ray, cpus=0)

    def load(self, job: Job[Any, Any]) -> None:
        """Connect, start the workers, and wait for the first that has loaded what it needs."""
        if self._pool is not None and self._pool.job is job:
            return
        self._let_go()
        room = self._room(job)
        ray = _ray()
        self._connect(ray, self._cpus_to_offer(room))
        self._pool = Pool(ray, job, room, self._count(ray, room), self._announce)
        self._pool.wait_for()

    def load_all(self, job: Job[Any, Any]) -> None:
        """The same, and wait for every worker that will come: for whoever measures."""
        self.load(job)
        assert self._pool is not None
        self._pool.wait_for(self.workers or 1)

    def run(self, job: Job[Piece, Found], pieces: Iterable[Piece]) -> Generator[Found, None, None]:
        waiting = iter(pieces)
        for first in waiting:
            self.load(job)
            assert self._pool is not None
            try:
                yield from self._pool.run(chain([first], waiting))
            finally:
                self._let_go()

    def close(self) -> None:
        self._let_go()
        if self._connected_here:
            import ray

            ray.shutdown()
            self._connected_here = False
        self._until_closed.close()

    def _let_go(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _room(self, job: Job[Any, Any]) -> Room:
        """What a worker takes: a core, or as many as its network computes with, since that decides the last digits."""
        usual = float(job.threads or 1)
        return Room(usual if self.cpus_per_worker is None else self.cpus_per_worker, self.gpus_per_worker)

    def _connect(self, ray: Any, cpus: int) -> None:
        """Unless somebody is connected already; `cpus` are for a Ray that is started here."""
        if ray.is_initialized():
            return
        began = time.monotonic()
        _connect(ray, self.address, cpus, self._until_closed)
        _keep_off_stdout()
        self._connected_here = True
        if self.address is None and time.monotonic() - began > 1:
            self._announce("started Ray on this machine")

    def _cpus_to_offer(self, room: Room) -> int:
        """This machine's cores, and room for as many workers as were asked for."""
        wanted = math.ceil((self.workers or 0) * room.cpus)
        return max(usable_cores(), wanted, math.ceil(room.cpus))

    def _count(self, ray: Any, room: Room) -> int:
        """The workers that were asked for, or as many as have room now."""
        fits = room.fits(ray.cluster_resources())
        if fits == 0 and (self.workers is None or self.address is None):  # a cluster may grow on demand
            raise WorkersLost(room.no_room(ray.cluster_resources()))
        return self.workers or fits


def _amount(option: str, given: float | None) -> float | None:
    if given is not None and not (math.isfinite(given) and given >= 0):
        raise InputError(f"{option} must be 0 or more, not {given}")
    return given


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call home
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("--engine ray", "ray", "ray") from error
    return ray


def _keep_off_stdout() -> None:
    """Ray prints what its nodes complain about where results go, which would be no JSON any more, whatever it is told
    about logs. Who died is told by the pool."""
    from ray._private import worker

    worker.print_to_stdstream = lambda *_, **__: None


def _connect(ray: Any, address: str | None, cpus: int, until_closed: ExitStack) -> None:
    """From the neutral folder: Ray starts its processes where it is called, and has workers import from there first."""
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if address is None:
        with _told("Ray cannot be started on this machine", "RAY_TMPDIR may name another folder, of a short path"):
            folder = until_closed.enter_context(_own_folder())
            until_closed.callback(_read_settings_anew)
            with _for_the_owner_alone(), neutral_folder():
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    include_dashboard=False,
                    object_store_memory=OWN_STORE_BYTES,
                    _system_config={"max_direct_call_object_size": INLINE_BYTES},
                    _temp_dir=os.path.join(folder, "r"),
                    **quiet,
                )
        return
    remedy = (
        "start one with `ray start --head`, or check --address; one that asks for a token takes RAY_AUTH_MODE=token "
        "and the head's ~/.ray/auth_token here"
    )
    with _told(f"no Ray cluster answers at {address}", remedy), _variables({}), neutral_folder():
        _knock(address)
        ray.init(address=address, **quiet)


def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """Ray lets everybody write to its own folder, and to the sockets and logs there; around this one is a closed one.

    Its name is short, since those of sockets must be.
    """
    above = os.environ.get("RAY_TMPDIR") or ("/tmp" if sys.platform == "darwin" else None)
    return tempfile.TemporaryDirectory(prefix="ray-", dir=above and os.path.abspath(above), ignore_cleanup_errors=True)


@contextmanager
def _for_the_owner_alone() -> Iterator[None]:
    """A Ray that is started meanwhile listens on loopback only, and wants a token that is in its environment alone.

    Ray itself would write one into ~/.ray, for everybody to read. A token that the user set is left as it is.
    """
    from ray._private import ray_constants

    given = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    token = {} if given else {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with _variables({**environment(), **token, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}):
        _read_settings_anew()
        usual = ray_constants.ENABLE_RAY_CLUSTER
        ray_constants.ENABLE_RAY_CLUSTER = False  # the variable above, as it was when Ray was imported
        try:
            yield
        finally:
            ray_constants.ENABLE_RAY_CLUSTER = usual


@contextmanager
def _variables(settings: dict[str, str]) -> Iterator[None]:
    """The environment with these, and after it as it was, whatever Ray wrote into it."""
    before = dict(os.environ)
    token = before.get("RAY_AUTH_TOKEN_PATH")
    os.environ.update(settings | ({"RAY_AUTH_TOKEN_PATH": os.path.abspath(token)} if token else {}))
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _read_settings_anew() -> None:
    """Ray looks once a process for how to authenticate; older versions know no tokens."""
    import ray

    core: Any = ray._raylet
    if hasattr(core, "AuthenticationTokenLoader"):
        core.Config.initialize("")
        core.AuthenticationTokenLoader.instance().reset_cache()


def _knock(address: str) -> None:
    """Ray itself takes minutes to find out that nobody is there."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "://" not in address:  # not `auto`, which Ray looks up
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS).close()


@contextmanager
def _told(what: str, remedy: str) -> Iterator[None]:
    """What Ray says when it does not start, in one sentence; some of it has no class of its own."""
    try:
        yield
    except Exception as error:
        said = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise WorkersLost(f"{what} («{said}»): {remedy}") from error
