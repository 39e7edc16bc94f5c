"""The certificate of a run: how exact its emulated timing was."""

from testbed.fidelity.certificate import Certificate, certify
from testbed.fidelity.verdict import Invariant, Verdict

__all__ = ["Certificate", "Invariant", "Verdict", "certify"]
