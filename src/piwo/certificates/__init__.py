"""Certificates: guarantees about policies, as records that are printed and saved."""

from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import PolicyClass, certify
from piwo.certificates.regret import RegretCertificate, regret_certificate

__all__ = ["Certificate", "PolicyClass", "RegretCertificate", "certify", "regret_certificate"]
