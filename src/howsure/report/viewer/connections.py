"""How many may be connected to the viewer at once, and how long each may keep it waiting.

uvicorn waits for the rest of a request without end, and takes connections until no file can be opened any more: some
sixty clients that send half a line each then keep everybody out.
"""

from __future__ import annotations

import asyncio
import os
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""For all of a request's head to come, from the connection or from the answer before on."""
STALLED_SECONDS, LEAST_READ_BYTES = 60.0, 1 << 16
"""An answer of which no more than this is read in so long a time is not sent on."""
MOST_CONNECTIONS = 256
DESCRIPTORS_EACH, DESCRIPTORS_KEPT = 4, 8
"""What a connection takes with the files of the run that it asks for, and what is left for everything else."""
RETRY_SECONDS = 0.1


def most_connections() -> int:
    """So many that each can have the files of a run opened for it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST_CONNECTIONS
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    in_use = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else DESCRIPTORS_KEPT
    return max(1, min(MOST_CONNECTIONS, (allowed - in_use - DESCRIPTORS_KEPT) // DESCRIPTORS_EACH))


class Connection(H11Protocol):
    """One that has to get on: ask, and read what it is answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.moved, self._unread = self.loop.time(), 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.moved = self.loop.time()

    @property
    def unread(self) -> int:
        """Bytes of answers that wait for the other side."""
        return self.transport.get_write_buffer_size()

    @property
    def is_answered(self) -> bool:
        """Whether it has got all it asked for, or never asked."""
        return self.cycle is None or self.cycle.response_complete

    def check(self, now: float) -> None:
        """End it if nothing has moved for too long; asked about every second."""
        unread, before = self.unread, self._unread
        being_made = not unread and not self.is_answered
        if being_made or (before and not unread) or unread <= before - LEAST_READ_BYTES:
            self.moved, before = now, unread
        self._unread = max(unread, before)
        if now - self.moved > (STALLED_SECONDS if unread else REQUEST_SECONDS):
            self.transport.abort()


class Server(uvicorn.Server):
    """uvicorn, with a door of its own: who has asked for nothing makes room for who comes."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._most = most_connections()
        await super().startup(sockets=[])
        self._doors = [asyncio.create_task(self._accept(listener)) for listener in sockets or []]

    async def on_tick(self, counter: int) -> bool:
        for door in self._doors:
            if door.done():
                door.result()  # it never ends but by a fault
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in self._connections():
                connection.check(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for door in self._doors:
            door.cancel()
        for connection in self._connections():
            if connection.is_answered:
                connection.transport.abort()
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:  # it has gone again; or no descriptor is free, and it waits in the system's queue
                await asyncio.sleep(0 if isinstance(error, ConnectionError) else RETRY_SECONDS)
                continue
            if not await self._make_room():
                client.close()
                continue
            try:
                await loop.connect_accepted_socket(self._connection, client)
            except OSError:
                client.close()

    async def _make_room(self) -> bool:
        """Whether one more may come in: if need be in the place of the one that has waited longest without asking."""
        while len(self.server_state.connections) >= self._most:
            idle = [one for one in self._connections() if one.is_answered and not one.unread]
            if not idle:
                return False
            min(idle, key=lambda one: one.moved).transport.abort()
            await asyncio.sleep(0)  # in which it is closed
        return True

    def _connection(self) -> Connection:
        loop, state = asyncio.get_running_loop(), self.lifespan.state
        return Connection(config=self.config, server_state=self.server_state, app_state=state, _loop=loop)

    def _connections(self) -> list[Connection]:
        return [one for one in self.server_state.connections if isinstance(one, Connection)]
