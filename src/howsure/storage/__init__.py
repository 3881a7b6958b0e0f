"""Places beyond this machine's disk: addresses of files and folders in stores that fsspec knows (S3, GCS, the web)."""

from howsure.storage.addresses import checked, is_address, shown
from howsure.storage.reading import listing, read_bytes

__all__ = ["checked", "is_address", "listing", "read_bytes", "shown"]
