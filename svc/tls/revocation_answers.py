"""Revocation lists (RFC 5280 §5) and OCSP responses (RFC 6960): parsing and verification. Pure functions on bytes."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from svc.tls.revocation_settings import NoAnswer

SKEW = 300.0  # seconds that clocks may differ
WITHOUT_END = 86_400.0  # seconds for which something counts that does not say how long

_FAULTS = (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension)


def find_issuer(der: bytes, authorities: Sequence[bytes]) -> bytes:
    """The one of these authorities (PEM) that has signed a certificate. Raises NoAnswer."""
    certificate = x509.load_der_x509_certificate(der)
    for text in authorities:
        try:
            for candidate in x509.load_pem_x509_certificates(text):
                if candidate.subject == certificate.issuer:
                    certificate.verify_directly_issued_by(candidate)
                    return candidate.public_bytes(Encoding.DER)
        except _FAULTS:
            continue
    raise NoAnswer("its issuer is not known here")


def read_list(data: bytes, issuer_der: bytes, wall: float) -> tuple[frozenset[int], float]:
    """Serial numbers on a list of this issuer, and when it ends, in seconds since the epoch. Raises NoAnswer for one that does not count."""
    try:
        found = x509.load_pem_x509_crl(data) if data.lstrip().startswith(b"-----") else x509.load_der_x509_crl(data)
        issuer = x509.load_der_x509_certificate(issuer_der)
        if found.issuer != issuer.subject or not found.is_signature_valid(issuer.public_key()):  # type: ignore[arg-type]
            raise NoAnswer("the list is not of the certificate's issuer")
        for extension in found.extensions:
            if isinstance(extension.value, x509.IssuingDistributionPoint):
                point = extension.value
                if point.indirect_crl or point.only_some_reasons or point.only_contains_ca_certs or point.only_contains_attribute_certs:
                    raise NoAnswer("the list is not for certificates of this kind")
            elif extension.critical:
                raise NoAnswer("the list is of an unknown kind")
        if _seconds(found.last_update_utc) > wall + SKEW:
            raise NoAnswer("the list is from the future")
        end = found.next_update_utc
        return frozenset(entry.serial_number for entry in found), _seconds(end) if end is not None else wall + WITHOUT_END
    except _FAULTS:
        raise NoAnswer("the list cannot be read") from None


def make_question(der: bytes, issuer_der: bytes) -> bytes:
    """SHA-1 only names the issuer; it is what every responder knows."""
    certificate, issuer = x509.load_der_x509_certificate(der), x509.load_der_x509_certificate(issuer_der)
    return _question(certificate, issuer, hashes.SHA1()).public_bytes(Encoding.DER)


def _question(certificate: x509.Certificate, issuer: x509.Certificate, algorithm: Any) -> ocsp.OCSPRequest:
    return ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, algorithm).build()


def read_answer(data: bytes, der: bytes, issuer_der: bytes, wall: float) -> tuple[bool, float]:
    """Whether the certificate is good, and for how many seconds that holds. Raises NoAnswer for what does not count."""
    try:
        response = ocsp.load_der_ocsp_response(data)
        if response.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
            raise NoAnswer(f"the responder answers {response.response_status.name}")
        certificate, issuer = x509.load_der_x509_certificate(der), x509.load_der_x509_certificate(issuer_der)
        _verify(response, issuer, wall)
        for single in response.responses:
            if _is_about(single, certificate, issuer):
                return _read_single(single, wall)
    except _FAULTS:
        raise NoAnswer("the answer cannot be read, or its signature is wrong") from None
    raise NoAnswer("the answer is about another certificate")


def _is_about(single: ocsp.OCSPSingleResponse, certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    if single.serial_number != certificate.serial_number:
        return False
    asked = _question(certificate, issuer, single.hash_algorithm)
    return single.issuer_key_hash == asked.issuer_key_hash and single.issuer_name_hash == asked.issuer_name_hash


def _read_single(single: ocsp.OCSPSingleResponse, wall: float) -> tuple[bool, float]:
    begin, end = _seconds(single.this_update_utc), single.next_update_utc
    ends = _seconds(end) if end is not None else begin + WITHOUT_END
    if begin > wall + SKEW or ends < wall - SKEW:
        raise NoAnswer("the answer is not of this time")
    if single.certificate_status is ocsp.OCSPCertStatus.UNKNOWN:
        raise NoAnswer("the responder does not know the certificate")
    return single.certificate_status is ocsp.OCSPCertStatus.GOOD, max(ends - wall, 0.0)


def _verify(response: ocsp.OCSPResponse, issuer: x509.Certificate, wall: float) -> None:
    """The answer is signed by the issuer, or by a responder with a certificate of the issuer for that purpose (RFC 6960 §4.2.2.2)."""
    for signer in (issuer, *response.certificates):
        if signer != issuer and not _may_sign(signer, issuer, wall):
            continue
        try:
            _verify_signature(response, signer.public_key())
            return
        except InvalidSignature:
            continue
    raise InvalidSignature


def _may_sign(signer: x509.Certificate, issuer: x509.Certificate, wall: float) -> bool:
    try:
        signer.verify_directly_issued_by(issuer)
        usage = signer.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (*_FAULTS, x509.ExtensionNotFound):
        return False
    is_now = _seconds(signer.not_valid_before_utc) - SKEW <= wall <= _seconds(signer.not_valid_after_utc) + SKEW
    return is_now and ExtendedKeyUsageOID.OCSP_SIGNING in usage


def _verify_signature(response: ocsp.OCSPResponse, key: Any) -> None:
    data, signature = response.tbs_response_bytes, response.signature
    if isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        key.verify(signature, data)
        return
    algorithm = response.signature_hash_algorithm
    if algorithm is None or isinstance(algorithm, hashes.SHA1 | hashes.MD5):
        raise InvalidSignature
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, data, padding.PKCS1v15(), algorithm)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(signature, data, ec.ECDSA(algorithm))
    else:
        raise InvalidSignature


def _seconds(time: datetime.datetime) -> float:
    return time.timestamp()
