"""Certificates: guarantees about policies, as records that are printed and saved."""

from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import certify
from piwo.certificates.regret import RegretCertificate, regret_certificate
from piwo.certificates.request import PolicyClass

__all__ = ["Certificate", "PolicyClass", "RegretCertificate", "certify", "regret_certificate"]
