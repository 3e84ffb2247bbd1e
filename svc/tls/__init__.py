"""Certificates and contexts of the TLS ports (spec: http §14, security §4, configuration §2.5).

entries      which certificates there are: the `tls` section, and what operators have added
contexts     ServerContexts: of one port; the right one for a host name, renewed when files or records change
mtls         what is asked of clients
peer         the certificate a client has shown
revocation   whether that has been revoked: CRL, then OCSP

The bytes themselves go through `svc.connection.tls`.
"""
