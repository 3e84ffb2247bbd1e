"""Tokens and sessions (spec: operations §6; what they are: security §2, http §11.3)."""

from __future__ import annotations

import json
from typing import Any

from svc.auth.tokens import read_life
from svc.auth.users import User, check_no_key
from svc.errors import AccessViolation, ClientError, Problem
from svc.operations.call import Call
from svc.operations.fields import Field, bad_request
from svc.operations.operation import NO_LOGIN, Operation

_USERNAME = Field("username", "string", "Name of the user.")
_PASSWORD = Field("password", "string", "Password of the user.", secret=True)

MAX_CLAIMS = 2048  # bytes of JSON

_TOKEN_EXAMPLE = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9..."


async def create_authentication_tokens(call: Call) -> Any:
    if call["expires_in"] is not None:
        read_life(call["expires_in"])  # before time is spent on the password
    claims = call["claims"]
    if claims is not None and call.authorized and not (call.caller is not None and call.caller.super_user):
        raise AccessViolation(
            call.caller, "Only a super user, or code of an application, may put claims into tokens: rules on rows trust them"
        )
    user = await _who(call)
    return await call.node.tokens.create(user, expires_in=call["expires_in"], role=call["role"], claims=claims)


def _claims_fault(value: Any, field: Field) -> str | None:
    if not all(isinstance(name, str) and name and "." not in name for name in value):
        return "must have names without dots"
    try:
        length = len(json.dumps(value))
    except (TypeError, ValueError):
        return "must be JSON"
    return None if length <= MAX_CLAIMS else f"must be at most {MAX_CLAIMS} bytes long"


async def _who(call: Call) -> User:
    """The user whose tokens are wanted: the one of the password, else who asks."""
    username, password = call["username"], call["password"]
    if username is None and password is None:
        if call.caller is None:
            raise AccessViolation(None)
        check_no_key(call.caller, "tokens")
        return _stored(call, call.caller.username)
    if password is None and username is not None and call.request is None and call.body.get("bypass_auth") is True:
        return _stored(call, username)
    if username is None or password is None:
        raise _invalid_credentials()
    try:
        return await call.node.verifier.verify(username, password, call.request, call.node.executor)
    except Problem as problem:
        raise _invalid_credentials() if problem.message == "Login failed" else problem from None


def _stored(call: Call, username: str) -> User:
    user = call.node.directory.get_user(username)
    if user is None:
        raise _invalid_credentials()
    if not user.active:
        raise Problem("Cannot complete request: User is inactive", 401)
    return user


def _invalid_credentials() -> Problem:
    return Problem("invalid credentials", 401)


async def refresh_operation_token(call: Call) -> Any:
    token = call["refresh_token"]
    if token is None and call.request is not None:
        token = call.request.refresh_token
    if token is None:
        raise bad_request("'refresh_token' is required")
    return {"operation_token": await call.node.tokens.refresh(token)}


async def login(call: Call) -> str:
    if call.request is None or not call.node.sessions.enabled:
        raise ClientError("No session for login")
    await call.request.login(call["username"], call["password"])
    return "Login successful"


async def logout(call: Call) -> str:
    session = None if call.request is None else call.request.session
    if session is None or session.id is None:
        raise ClientError("No session for logout")
    await session.update({"user": None})
    return "Logout successful"


OPERATIONS = (
    Operation(
        name="create_authentication_tokens",
        category="tokens",
        summary="Create a pair of tokens that stand for a user's password.",
        permission=NO_LOGIN,
        handler=create_authentication_tokens,
        fields=(
            _USERNAME.but(sentence="Name of the user; without name and password: the user of the request."),
            _PASSWORD,
            Field("expires_in", "any", "Lifetime of the operation token: a string such as `15m`, `12h`, `1d`, `2w`, or seconds."),
            Field("role", "string", "Copied into both tokens as claim; tokens with it do not log in here."),
            Field(
                "claims",
                "object",
                "What rules on rows know as `$user.claims.<name>` of requests with the token; at most 2,048 bytes of JSON. Only super users, and code of "
                "applications, may give them.",
                check=_claims_fault,
            ),
        ),
        returns="Object with `operation_token` and `refresh_token`.",
        notes=(
            "Send the operation token as `Authorization: Bearer <token>` to any server. It is valid for "
            "`authentication.operationTokenTimeout`, the refresh token, which is only good for `refresh_operation_token`, for "
            "`authentication.refreshTokenTimeout` or until the next pair is created for the user; both end when the password is changed "
            "and when the user is deactivated or dropped. Application code may pass "
            "`bypass_auth: True` in place of the password."
        ),
        example={"username": "ann", "password": "s3cret", "expires_in": "2h"},
        example_answer={"operation_token": _TOKEN_EXAMPLE, "refresh_token": _TOKEN_EXAMPLE},
    ),
    Operation(
        name="refresh_operation_token",
        category="tokens",
        summary="Create a new operation token for a refresh token.",
        permission=NO_LOGIN,
        handler=refresh_operation_token,
        fields=(Field("refresh_token", "string", "The refresh token; default: the one in the `Authorization` header.", secret=True),),
        returns="Object with `operation_token`.",
        notes="Only the newest refresh token of a user is valid. 401 `token expired`: log in again.",
        example={"refresh_token": _TOKEN_EXAMPLE},
        example_answer={"operation_token": _TOKEN_EXAMPLE},
    ),
    Operation(
        name="login",
        category="tokens",
        summary="Start a session and set its cookie.",
        permission=NO_LOGIN,
        handler=login,
        fields=(_USERNAME.but(required=True), _PASSWORD.but(required=True)),
        returns="Message.",
        notes=(
            "The cookie `svc-session` (over HTTPS `__Host-svc-session`) logs in on the application ports too. Each login begins a session "
            "with a new id; what an earlier session of the cookie held is carried over. It ends 30 days after its last use "
            "(`authentication.cookie.expires`), and with a change of the password."
        ),
        example={"username": "ann", "password": "s3cret"},
        example_answer={"message": "Login successful"},
    ),
    Operation(
        name="logout",
        category="tokens",
        summary="Remove the user from the session of the cookie.",
        permission=NO_LOGIN,
        handler=logout,
        returns="Message.",
        notes="The session keeps its other properties.",
        example={},
        example_answer={"message": "Logout successful"},
    ),
)
