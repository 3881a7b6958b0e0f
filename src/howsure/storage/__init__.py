"""Places beyond this machine's disk: addresses of files and folders in stores that fsspec knows (S3, GCS, the web)."""

from howsure.storage.addresses import checked, find_below, is_address, joined, shown, without_secrets
from howsure.storage.folder import StoredFolder
from howsure.storage.lease import Lease, holder
from howsure.storage.reading import files_among, is_file, is_folder, listing, read_bytes
from howsure.storage.regular import OPENED_BY_THE_SHELL, open_regular, read_regular
from howsure.storage.scratch import (
    Copy,
    absolute,
    address_of,
    adopt,
    as_copy,
    folder_for,
    local,
    local_folder,
    new_folder_for,
    shown_path,
)

__all__ = [
    "OPENED_BY_THE_SHELL",
    "Copy",
    "Lease",
    "StoredFolder",
    "absolute",
    "address_of",
    "adopt",
    "as_copy",
    "checked",
    "files_among",
    "find_below",
    "folder_for",
    "holder",
    "is_address",
    "is_file",
    "is_folder",
    "joined",
    "listing",
    "local",
    "local_folder",
    "new_folder_for",
    "open_regular",
    "read_bytes",
    "read_regular",
    "shown",
    "shown_path",
    "without_secrets",
]
