"""The address of a resource as OpenAPI writes it: `shop/:city` is `/shop/{city}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from svc.resources import Registration


@dataclass(frozen=True, slots=True)
class Address:
    """`template`: without a slash at its end. `parameters`: those in it. `is_endless`: it stands for whatever follows."""

    template: str
    parameters: list[dict[str, Any]]
    is_endless: bool = False

    @classmethod
    def of(cls, registration: Registration) -> Address:
        path = registration.path
        if not path:
            return cls("", [])
        segments: list[str] = []
        parameters: list[dict[str, Any]] = []
        for segment in path.split("/"):
            if registration.pattern is None or segment[:1] not in (":", "*"):
                segments.append(quote(segment))
                continue
            name = segment[1:] or "wildcard"
            segments.append(f"{{{name}}}")
            parameters.append({"name": name, "in": "path", "required": True, "schema": {"type": "string"}})
        return cls("/" + "/".join(segments), parameters, path.rpartition("/")[2][:1] == "*" and bool(parameters))

    @property
    def whole(self) -> str:
        """Of the resource itself: of a table, the collection of its records."""
        return self.template if self.parameters else f"{self.template}/"

    def below(self, key_name: str) -> str:
        return f"{self.template}/{{{key_name}}}"

    def key_name(self, wanted: str) -> str:
        """The name of the parameter for the key, which comes after those of the address."""
        taken = {parameter["name"] for parameter in self.parameters}
        return wanted if wanted not in taken else f"{wanted}_key"
