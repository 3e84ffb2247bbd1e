"""Login with a provider of OpenID Connect (spec: rows §2.6).

    settings      `accounts.providers` of a config.yaml -> ProviderSettings
    fetching      HTTP to a provider: never on the loop's time, bounded in bytes and seconds
    metadata      what a provider says of itself
    provider      one provider: its metadata and keys as they are cached, the code of a login exchanged for claims
    id_token      the token that says who has logged in, checked
    attempts      a login that has begun, sealed into a cookie, and used once
    identities    who is whom: (issuer, subject) -> account
    signing_in    the account of somebody who comes from a provider, made where there is none
    endpoint      /login/<provider> and /login/<provider>/callback

Only `settings` is imported where an application has no provider.
"""
