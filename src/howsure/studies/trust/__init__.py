"""Trust: `howsure.trust`, coherent trust, and the studies behind them."""

from howsure.studies.study import python_function
from howsure.studies.trust.coherent import COHERENT, CoherentOptions
from howsure.studies.trust.record import UserInput
from howsure.studies.trust.study import TRUST, TrustOptions

__all__ = ["COHERENT", "TRUST", "CoherentOptions", "Told", "TrustOptions", "UserInput", "trust"]

trust = python_function(TrustOptions, TRUST)
Told = UserInput
"""Its name in the first edition."""
