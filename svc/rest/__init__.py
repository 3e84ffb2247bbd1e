"""REST over resources (contract: http.md). `Rest.handle(request)` turns a request into a response."""

from svc.rest.rest import Rest, RestOptions

__all__ = ["Rest", "RestOptions"]
