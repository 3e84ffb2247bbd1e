"""Mail (spec: rows §2.5): written to an outbox in the transaction that causes it, sent by one process at a time.

    outbox.add(OutgoingMail("ann@example.org", "Welcome", "Hello Ann"), transaction)     # a row of `system.svc_mail`
    sender.begin()                                                                        # sends what waits, tries again, gives up after a day

Nothing of this is imported unless the configuration has a section `mail`, or the server is one of `svc dev`.

Modules: `outbox` (the rows), `sealing` (their secret part), `templates` (values -> subject, text, HTML), `message` (a row -> bytes of RFC 5322), `smtp` (the
server that takes them, aiosmtplib's one home), `sender` (who sends what when), `service` (all of it, for one instance), `kept_page` (`/dev/mail`).
"""
