"""Opening a store by the address of something in it, and what it refuses in one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from howsure.errors import HowsureError, InputError, MissingExtra, StorageError
from howsure.storage.addresses import WEB, checked, kind_of, shown, without_secrets

CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 10, 60, 3
"""How long a store may take to be reached and to say something, and how often it is asked when it fails."""

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
_PACKAGES = {"s3": "s3fs", "gcs": "gcsfs", "store": "fsspec"}
_LIBRARIES = frozenset(
    {"aiobotocore", "aiohttp", "botocore", "fsspec", "gcsfs", "google", "requests", "s3fs", "urllib3"}
)
_UNREACHABLE = ("EndpointConnection", "ClientConnector", "ConnectionError", "ConnectionRefused", "ConnectTimeout")
_NO_KEY = ("NoCredentials", "PartialCredentials", "DefaultCredentials", "TokenRetrieval", "RefreshError")
_LATE = ("TimeoutError", "ReadTimeout", "ServerTimeout", "FSTimeout")
LONGEST_QUOTE = 200


def filesystem(address: str) -> Any:
    """The fsspec file system that an address belongs to; what it lists is never remembered."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtra(f"{shown(address)}", "store", "fsspec") from error
    kind = kind_of(str(checked(address)))
    try:
        if kind in WEB:
            from howsure.storage.web import Web

            return Web(use_listings_cache=False)
        return fsspec.filesystem(kind, **_options(kind, fsspec.config.conf))
    except ImportError as error:
        extra = _EXTRAS.get(kind, "store")
        package = _PACKAGES[extra] if extra != "store" else (getattr(error, "name", None) or kind)
        raise MissingExtra(f"{shown(address)}", extra, package) from error
    except ValueError as error:
        raise InputError(
            f"{shown(address)} begins with {kind}://, which no installed package knows: {error}"
        ) from error


def _options(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Bounded patience, and no memory of listings, since others write too; the user's own settings come first."""
    options: dict[str, Any] = {"use_listings_cache": False}
    if kind in ("s3", "s3a"):
        theirs = settings.get("s3", {})
        ours = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
        retries = {"retries": {"total_max_attempts": ATTEMPTS, "mode": "standard"}}
        options["config_kwargs"] = ours | retries | theirs.get("config_kwargs", {})
    return options


@contextlib.contextmanager
def store_errors(address: str, doing: str = "read") -> Iterator[None]:
    """A store's refusals as one sentence: an InputError where it was to be read, a StorageError where `written`."""
    try:
        yield
    except HowsureError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, HowsureError):  # a refusal of ours that the store's library took for its own
            raise error.__cause__ from None
        if not _is_the_stores(error):
            raise
        sentence = f"{shown(address)} cannot be {doing}: {why(error, address)}"
        if doing == "read":
            raise InputError(sentence) from error
        raise StorageError(f"{sentence}; samples written before are safe") from error


def _is_the_stores(error: Exception) -> bool:
    return isinstance(error, OSError | EOFError | TimeoutError) or type(error).__module__.split(".")[0] in _LIBRARIES


def why(error: Exception, address: str) -> str:
    """What is wrong and what to do about it, in words that hold no secret."""
    names = {kind.__name__ for one in (error, error.__cause__) for kind in type(one).__mro__}
    words = " ".join(without_secrets(str(error), address).split())[:LONGEST_QUOTE]

    def is_one_of(kinds: tuple[str, ...]) -> bool:
        return any(kind in name for kind in kinds for name in names)

    if is_one_of(_NO_KEY):
        return (
            "there are no credentials for this store; set them as its own tools expect (AWS_ACCESS_KEY_ID and the like)"
        )
    if is_one_of(_LATE):
        return "the store did not answer in time; try again later"
    if is_one_of(_UNREACHABLE):
        return f"the store cannot be reached («{words}»); check the network and the endpoint"
    status = getattr(error, "status", None) or getattr(error.__cause__, "status", None)  # of an answer of the web
    if status in (401, 403):
        return f"access is denied (status {status}); check the credentials, or ask for a new address"
    if isinstance(error, FileNotFoundError):
        what = "bucket" if "bucket does not exist" in words.lower() else "file or folder"
        return f"there is no such {what}; check the spelling"
    if isinstance(error, PermissionError):
        return f"access is denied («{words}»); check the credentials and what they may do"
    return f"the store said «{words or type(error).__name__}»"


def full_address(address: str, path: str) -> str:
    """A path as a file system of this address's kind lists it, as an address of the same kind."""
    kind = kind_of(address)
    return path if "://" in path else f"{kind}://{path.lstrip('/')}"
