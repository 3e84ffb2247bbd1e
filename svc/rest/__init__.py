"""REST over resources (spec: http). `Rest.handle(request)` turns a request into a response."""

from svc.http.response_parts import RestOptions
from svc.rest.rest import Rest

__all__ = ["Rest", "RestOptions"]
