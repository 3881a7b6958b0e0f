"""Which of Google's endpoints is asked, by the variables that Google's SDK reads; and what on the way there is secret.

The developer API takes a key. Vertex AI (`GOOGLE_GENAI_USE_VERTEXAI=true`) takes a project and the credentials that
`gcloud auth application-default login` leaves behind, or, without a project, a key too. Nothing here imports the SDK.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from howsure.errors import ModelError
from howsure.models.endpoint import Endpoint

KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""The first that is set counts, as in the SDK."""

DEVELOPER_URL = "https://generativelanguage.googleapis.com"
_VERTEX_SWITCHES = ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")
_URL_VARIABLES = {False: "GOOGLE_GEMINI_BASE_URL", True: "GOOGLE_VERTEX_BASE_URL"}
_MULTI_REGIONS = ("us", "eu")
_NO_KEY = "no-key"
_HIDDEN = "***"
_GOOGLE_SECRET = re.compile(r"\b(?:ya29\.|AIza|AQ\.)[\w.\-]{10,}")
"""What keys and access tokens of Google's look like: the SDK holds some that no variable does."""

_ACCESS_TOKEN = re.compile(r"\bya29\.[\w.\-]{20,}")


@dataclass(frozen=True, repr=False)
class GeminiEndpoint(Endpoint):
    """A base URL, or Google's own address, with the account that is used there."""

    vertex: bool = False
    project: str | None = None
    location: str | None = None
    is_google: bool = True
    """Whether the address is the one that the SDK would take by itself."""

    @classmethod
    def find(cls, base_url: str | None) -> GeminiEndpoint:
        """From the given base URL or the environment."""
        vertex = _wants_vertex()
        project = _variable("GOOGLE_CLOUD_PROJECT") if vertex else None
        location = (_variable("GOOGLE_CLOUD_LOCATION") or "global") if project else None
        url = base_url or _variable(_URL_VARIABLES[vertex])
        own = _vertex_url(location or "global") if vertex else DEVELOPER_URL
        read = Endpoint.read(url or own)
        address = {field.name: getattr(read, field.name) for field in dataclasses.fields(read)}
        return cls(**address, vertex=vertex, project=project or None, location=location, is_google=not url)

    @property
    def kind(self) -> str:
        return "vertex" if self.vertex else "developer"

    @property
    def is_loopback(self) -> bool:
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def account(self) -> dict[str, str]:
        """What the SDK's client needs to know of whose account it is; raises in one sentence where there is none."""
        if self.project and self.location:
            return {"project": self.project, "location": self.location}
        return {"api_key": self.key()}

    def key(self) -> str:
        """The key from the environment; a placeholder where only this machine would hear of it."""
        name, key = next(((name, value) for name in KEY_VARIABLES if (value := _variable(name))), ("", ""))
        if not (key.isascii() and key.isprintable()):
            raise ModelError(f"{name} holds characters that no key has; copy the key again")
        if not key and not self.is_loopback:
            raise ModelError(f"{self.shown} needs {self._lacking()}")
        return key or _NO_KEY

    def _lacking(self) -> str:
        keys = " or ".join(KEY_VARIABLES)
        if self.vertex:
            return f"an account of Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or a key in {keys}"
        return (
            f"a key: set {keys}, or for Vertex AI set GOOGLE_GENAI_USE_VERTEXAI=true, GOOGLE_CLOUD_PROJECT and "
            "GOOGLE_CLOUD_LOCATION"
        )

    def keys(self) -> list[str]:
        return [key for name in KEY_VARIABLES if (key := _variable(name))]

    def scrub(self, text: str) -> str:
        """The text without the secrets, as far as they are known."""
        return _GOOGLE_SECRET.sub(_HIDDEN, super().scrub(text))

    def gives_away(self, text: str) -> bool:
        return super().gives_away(text) or _ACCESS_TOKEN.search(text) is not None


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()


def _wants_vertex() -> bool:
    """As the SDK decides it: the newer variable counts where it is set at all."""
    switch = next((os.environ[name] for name in _VERTEX_SWITCHES if name in os.environ), "")
    return switch.strip().lower() in ("true", "1")


def _vertex_url(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"
