"""Accounts of an application's users: sign-up, confirmation of addresses, forgotten passwords, the own account (spec: rows §2).

Imported only where an application has the entry `accounts`.

Modules: `settings` (the entry), `addresses`, `directory` (who there is, and what is done with accounts), `parts` (what that works with), `pairs` (a user and
its record are in two databases), `codes` (what mails carry), `limits` (floods), `rights` (what a member may do), `mails`, `endpoint` and `forms` (HTTP),
`openid` (login with providers).
"""
