"""What code of the application says of a sign-up: `before_sign_up(record)` and `after_sign_up(user)` (spec: rows §2.3)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from svc.api.context import Context, entered
from svc.auth.users import User
from svc.errors import Problem

BEFORE, AFTER = "before_sign_up", "after_sign_up"

Hook = Callable[[Any], Any]


def refused() -> Problem:
    return Problem("This sign-up was refused", 403, "SIGN_UP_REFUSED")


@dataclass(frozen=True, slots=True)
class SignUpHooks:
    """None: the application has no such function."""

    before: Hook | None = None
    after: Hook | None = None

    @classmethod
    def of_module(cls, module: ModuleType) -> SignUpHooks:
        """Raises ValueError for what is no function."""
        return cls(_function(module, BEFORE), _function(module, AFTER))

    @classmethod
    def of_modules(cls, modules: Iterable[ModuleType]) -> SignUpHooks:
        """The first function of each name in these modules."""
        found: dict[str, Hook] = {}
        for module in modules:
            for name in (BEFORE, AFTER):
                function = vars(module).get(name)
                if callable(function):
                    found.setdefault(name, function)
        return cls(found.get(BEFORE), found.get(AFTER))

    async def before_sign_up(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record, as the hook leaves or returns it. Called before anything is looked up, so that what it says tells nothing of addresses. Raises the
        Problem by which it refuses."""
        if self.before is None:
            return record
        answer = await _call(self.before, record, None)
        return dict(answer) if isinstance(answer, Mapping) else record

    async def after_sign_up(self, user: User) -> None:
        """The account is there. Raises the Problem by which the hook refuses it."""
        if self.after is not None:
            await _call(self.after, user, user)


async def _call(hook: Hook, argument: Any, user: User | None) -> Any:
    """`user`: for whom the code runs. Raises Problem; False refuses too."""
    with entered(Context(user)):
        answer = hook(argument)
        if inspect.isawaitable(answer):
            answer = await answer
    if answer is False:
        raise refused()
    return answer


def _function(module: ModuleType, name: str) -> Hook | None:
    found = getattr(module, name, None)
    if found is not None and not callable(found):
        raise ValueError(f"{name} is no function")
    return found
