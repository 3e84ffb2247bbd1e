"""An authority's web server on this machine: lists and answers about certificates, as a test wants them."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from tests.support.certificates import Authority, Pair, now

HOUR = datetime.timedelta(hours=1)


class Responder:
    """`list` and `answer` are bodies, or functions of the request's body that make them; None: 404."""

    def __init__(self) -> None:
        self.list: bytes | None = None
        self.answer: Callable[[bytes], bytes] | None = None
        self.asked: list[str] = []
        self.hold = threading.Event()  # nothing is answered before it is set
        self.hold.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.hold.wait(30)
                self._send(outer.list if self.path == "/list" else None)

            def do_POST(self) -> None:
                outer.asked.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.hold.wait(30)
                self._send(None if outer.answer is None else outer.answer(body))

            def _send(self, body: bytes | None) -> None:
                try:
                    self.send_response(404 if body is None else 200)
                    self.send_header("Content-Length", str(len(body or b"")))
                    self.end_headers()
                    self.wfile.write(body or b"")
                except OSError:  # who asked has gone
                    pass

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def make_list(
    authority: Authority,
    revoked: tuple[Pair, ...] = (),
    *,
    ends: datetime.timedelta | None = HOUR,
    began: datetime.timedelta = -HOUR,
    pem: bool = False,
) -> bytes:
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.pair.certificate.subject).last_update(now() + began)
    builder = builder.next_update(now() + (HOUR if ends is None else ends))
    for pair in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(pair.certificate.serial_number).revocation_date(now() - HOUR).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(authority.pair.key, hashes.SHA256()).public_bytes(Encoding.PEM if pem else Encoding.DER)


def make_answer(
    authority: Authority,
    pair: Pair,
    status: ocsp.OCSPCertStatus = ocsp.OCSPCertStatus.GOOD,
    *,
    signer: Pair | None = None,
    began: datetime.timedelta = -HOUR,
    ends: datetime.timedelta | None = HOUR,
    algorithm: Any = None,
) -> bytes:
    signed_by = authority.pair if signer is None else signer
    is_revoked = status is ocsp.OCSPCertStatus.REVOKED
    builder = ocsp.OCSPResponseBuilder().add_response(
        cert=pair.certificate,
        issuer=authority.pair.certificate,
        algorithm=hashes.SHA1() if algorithm is None else algorithm,
        cert_status=status,
        this_update=now() + began,
        next_update=None if ends is None else now() + ends,
        revocation_time=now() - HOUR if is_revoked else None,
        revocation_reason=x509.ReasonFlags.key_compromise if is_revoked else None,
    )
    builder = builder.responder_id(ocsp.OCSPResponderEncoding.HASH, signed_by.certificate)
    if signer is not None:
        builder = builder.certificates([signer.certificate])
    return builder.sign(signed_by.key, hashes.SHA256()).public_bytes(Encoding.DER)
