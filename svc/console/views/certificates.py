"""Certificates: what there is, adding, removing, requests and signing (spec: console §13)."""

from __future__ import annotations

import base64
import hashlib
import math
import ssl
from binascii import Error
from typing import Any

from svc.console.confirm import Question, ask
from svc.console.page import ConsolePage
from svc.console.wrong import at_fields
from svc.errors import ClientError, MethodNotAllowed, NotFound, Problem
from svc.messages import Response
from svc.operations.certificates import NO_KEY
from svc.pages.cells import shortened
from svc.pages.sent_form import SentForm

MOST_CERTIFICATES = 500  # that are listed
MOST_PEM = 1 << 20  # bytes of a file
WARNING_DAYS = 30
USES = ("https", "operations", "mqtt", "ca")

_FIELDS = ("name", "certificate", "is_authority", "hosts", "uses", "ciphers")
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


async def show(page: ConsolePage) -> Response:
    do = page.fields.get("do", "")
    if page.rest:
        raise NotFound("There is no such page")
    if do == "add":
        return await _add_form(page)
    if do == "remove":
        return await _remove_form(page)
    if do == "request":
        page.require("create_csr")
        return await page.show("pem.html", title="Signing request", texts=[("Request", (await page.run("create_csr"))["csr"])])
    return await _sign_form(page) if do == "sign" else await _list(page)


async def send(page: ConsolePage) -> Response:
    form, do = page.form, page.fields.get("do", "")
    assert form is not None
    if page.rest or do not in ("add", "remove", "sign"):
        raise MethodNotAllowed("This page has no form", ("GET", "HEAD"))
    return await {"add": _add, "remove": _remove, "sign": _sign}[do](page, form)


# --- what there is -----------------------------------------------------------------------------------------------------------------------


async def _list(page: ConsolePage) -> Response:
    found = await page.run("list_certificates")
    now = page.node.clock.wall()
    return await page.show(
        "certificates.html",
        rows=[_row(page, each, now) for each in found[:MOST_CERTIFICATES]],
        total=len(found),
        warning=WARNING_DAYS,
        may_add=page.may("add_certificate"),
        may_remove=page.may("remove_certificate"),
        may_request=page.may("create_csr"),
        may_sign=page.may("sign_certificate"),
    )


def _row(page: ConsolePage, each: dict[str, Any], now: float) -> dict[str, Any]:
    details = each["details"]
    days = math.floor((ssl.cert_time_to_seconds(details["valid_to"]) - now) / 86_400)
    return {
        "name": shortened(each["name"], 200),
        "subject": shortened(details["subject"], 300),
        "issuer": "itself" if each["is_self_signed"] else shortened(details["issuer"], 300),
        "names": shortened(details.get("subject_alt_name", ""), 1000),
        "hosts": [shortened(host, 260) for host in each.get("hosts", ())[:50]],
        "valid_from": details["valid_from"],
        "valid_to": details["valid_to"],
        "days": days,
        "uses": shortened(", ".join(each["uses"]), 200),
        "is_authority": each["is_authority"],
        "serial": details["serial_number"],
        "fingerprint": _fingerprint(each["certificate"]),
        "remove": "" if each.get("is_configured") else page.at("certificates", do="remove", name=each["name"]),
    }


def _fingerprint(pem: str) -> str:
    """SHA-256 of the first certificate of a text."""
    try:
        data = base64.b64decode(pem.partition(_BEGIN)[2].partition(_END)[0])
    except Error:
        return ""
    return hashlib.sha256(data).hexdigest()


# --- adding and removing -----------------------------------------------------------------------------------------------------------------


async def _add_form(page: ConsolePage, form: SentForm | None = None, fault: Problem | None = None) -> Response:
    """The private key that was sent is never shown again."""
    page.require("add_certificate")
    values = {name: "" if form is None else form.text(name) for name in _FIELDS}
    return await page.show(
        "add_certificate.html",
        title="Add a certificate",
        fault=fault,
        wrong=at_fields(
            fault, ("_private_key", *_FIELDS), "_private_key" if fault is not None and fault.message == NO_KEY else "certificate"
        ),
        values=values,
        uses=[(use, form is not None and form.text(f"use_{use}") == "true") for use in USES],
        is_sent=form is not None,
    )


async def _add(page: ConsolePage, form: SentForm) -> Response:
    try:
        fields: dict[str, Any] = {"name": form.text("name").strip(), "is_authority": form.text("is_authority") == "true"}
        for name, typed in (("certificate", "certificate"), ("private_key", "_private_key")):
            text = await _pem(form, name) or form.text(typed)
            if text.strip():
                fields[name] = text.replace("\r\n", "\n")
        hosts = form.text("hosts").replace(",", " ").split()
        uses = [use for use in USES if form.text(f"use_{use}") == "true"]
        optional = {"hosts": hosts, "uses": uses, "ciphers": form.text("ciphers").strip()}
        answer = await page.run("add_certificate", **fields, **{name: value for name, value in optional.items() if value})
    except Problem as fault:
        return await _add_form(page, form, fault)
    return page.see_other("certificates", note=answer["message"])


async def _pem(form: SentForm, name: str) -> str:
    """The text of a file that was chosen, "": none was."""
    file = form.files.get(f"{name}_file")
    if file is None or not file.size:
        return ""
    if file.size > MOST_PEM:
        raise ClientError(f"'{name}' is a file of more than {MOST_PEM} bytes")
    try:
        return bytes(await file.bytes()).decode()
    except UnicodeDecodeError:
        raise ClientError(f"'{name}' must be PEM, which is text") from None


async def _remove_form(page: ConsolePage, fault: Problem | None = None) -> Response:
    page.require("remove_certificate")
    name = shortened(page.fields.get("name", ""), 300)
    lines = [f"{name} is removed, and the private key that was added with it. Connections that are open stay."]
    return await ask(page, Question("Remove a certificate", lines, "Remove", page.at("certificates")), fault)


async def _remove(page: ConsolePage, form: SentForm) -> Response:
    try:
        answer = await page.run("remove_certificate", name=page.fields.get("name", ""))
    except Problem as fault:
        return await _remove_form(page, fault)
    return page.see_other("certificates", note=answer["message"])


# --- signing -----------------------------------------------------------------------------------------------------------------------------


async def _sign_form(page: ConsolePage, form: SentForm | None = None, fault: Problem | None = None) -> Response:
    page.require("sign_certificate")
    return await page.show(
        "sign_certificate.html",
        title="Sign a request",
        fault=fault,
        wrong=at_fields(fault, (), "csr"),
        csr="" if form is None else form.text("csr"),
    )


async def _sign(page: ConsolePage, form: SentForm) -> Response:
    try:
        answer = await page.run("sign_certificate", csr=form.text("csr").replace("\r\n", "\n"))
    except Problem as fault:
        return await _sign_form(page, form, fault)
    return await page.show(
        "pem.html", title="Signed certificate", texts=[("Certificate", answer["certificate"]), ("Authority", answer["signingCA"])]
    )
