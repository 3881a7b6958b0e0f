"""Everything that howsure raises on purpose.

HowsureError                one sentence for the user: what, where, and what to do about it
├── InputError              a file, an option or a value that cannot be used
│   ├── UnusableText        a good text that the model cannot take
│   └── UnusableImage       a good image that the model cannot take, or one that is no longer what it was
├── EvidenceError           numbers that cannot be log-probabilities or probabilities
├── MissingExtra            a package that is not installed, with the command that installs it
├── ModelError              a model that was not found or cannot do what is asked
│   ├── UnknownModel        the name is not one of ours
│   ├── MissingCapability   it can generate but not score, or the other way round
│   ├── WeightsError        weights that cannot be fetched, checked or loaded whole
│   └── ServerError         a server that fails in a way that no retry mends
├── WorkersLost             the machines of a cluster that a job was sent to
└── RunError                a run folder that cannot be used
    ├── RunLocked           another process is writing it
    ├── RunMismatch         it belongs to other options, another model or other data
    ├── RunDamaged          its files cannot be read
    └── StorageError        the disk is full, or refuses to be written

ReportNotWritten and PicturesNotKept are warnings: the run is whole, and only the page about it is missing, or copies of
the pictures that it asked about. StoreWithoutLocks warns that nothing but care keeps a second writer out.

The command line prints the message and leaves with `exit_code`; it shows a traceback only under --debug.
"""

from __future__ import annotations


class HowsureError(Exception):
    """A fault that the user can understand and mend; its text is one sentence."""

    exit_code = 2


class InputError(HowsureError, ValueError):
    """A file, an option or a value that cannot be used."""


class UnusableText(InputError):
    """A good text that the model cannot take."""


class UnusableImage(InputError):
    """A good image that the model cannot take, or one that is no longer what it was."""


class EvidenceError(HowsureError, ValueError):
    """Numbers that cannot be log-probabilities or probabilities."""


class MissingExtra(HowsureError, ImportError):
    """A package that is not installed; the message holds the command that installs it."""

    def __init__(self, what: str, extra: str, package: str) -> None:
        super().__init__(
            f'{what} needs the package {package!r}, which is not installed: pip install "howsure[{extra}]"'
        )
        self.what = what
        self.extra = extra
        self.package = package

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str, str]]:
        """As a worker sends it: made again from what it was made of, not from its sentence."""
        return type(self), (self.what, self.extra, self.package)


class ModelError(HowsureError):
    """A model that was not found or cannot do what is asked."""


class UnknownModel(ModelError):
    """The model's name is not one that howsure knows."""


class MissingCapability(ModelError):
    """The model lacks the capability that a study asks for."""


class WeightsError(ModelError):
    """Weights that cannot be fetched, checked or loaded whole."""


class ServerError(ModelError):
    """A server that fails in a way that no retry mends."""


class WorkersLost(HowsureError):
    """Workers that could not be had, or that ended and could not be replaced; what was written is safe."""


class RunError(HowsureError):
    """A run folder that cannot be used."""


class RunLocked(RunError):
    """Another process is writing the run."""


class RunMismatch(RunError):
    """The run belongs to other options, another model or other data."""


class RunDamaged(RunError):
    """Files of the run that cannot be read."""


class StorageError(RunError, OSError):
    """The disk is full, or refuses to be written."""


class ReportNotWritten(UserWarning):
    """A run is finished and whole, and only the page about it could not be made."""


class PicturesNotKept(UserWarning):
    """A run is whole, and only the copies of its pictures are not."""


class StoreWithoutLocks(UserWarning):
    """A run lies in a store that cannot keep a second writer out."""


CANNOT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, HowsureError)
"""What code meets in a file that does not hold what it should."""
