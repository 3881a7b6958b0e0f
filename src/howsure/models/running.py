"""Running asynchronous work from ordinary code, also where an event loop runs already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


async def together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all; the first that fails stops the others, and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in work:
                group.create_task(coroutine)
    except ExceptionGroup as errors:
        first = errors.exceptions[0]
    else:
        return
    raise first


def run_to_end(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run`, in a thread of its own where this one has an event loop already (a notebook)."""
    if not _in_event_loop():
        return asyncio.run(coroutine)
    cancel: list[Callable[[], Any]] = []

    async def main() -> _T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await coroutine

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, main())
        try:
            return future.result()
        except KeyboardInterrupt:
            for stop in cancel:
                stop()
            raise


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
