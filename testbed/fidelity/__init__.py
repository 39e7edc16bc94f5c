"""The certificate of a run: was the emulated timing obtained?"""

from testbed.fidelity.certificate import Certificate, certify
from testbed.fidelity.verdict import Invariant, Verdict

__all__ = ["Certificate", "Invariant", "Verdict", "certify"]
