from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage.s3_server import S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[S3Server]:
    """The server, with all set for this process to use it, and for a fault to be told at the first attempt."""
    import fsspec

    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"retries": {"total_max_attempts": 1}}})
    s3_server.fault = None
    s3_server.log.clear()
    yield s3_server
    s3_server.fault = None


@pytest.fixture
def bucket(s3: S3Server, request: pytest.FixtureRequest) -> str:
    """The address of an empty bucket."""
    from howsure.storage.stores import filesystem

    name = f"bucket-{abs(hash(request.node.nodeid)) % 10**10}"
    filesystem("s3://x/y").mkdir(name)
    return f"s3://{name}"


@pytest.fixture(params=["s3", "memory"])
def store(request: pytest.FixtureRequest) -> str:
    """The address of an empty place: in a bucket, or in this process's memory."""
    if request.param == "s3":
        return str(request.getfixturevalue("bucket"))
    return f"memory://{abs(hash(request.node.nodeid)) % 10**10}"
