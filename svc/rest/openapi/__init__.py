"""OpenAPI: a description of the REST interface for programs, at /openapi (spec: http §10.2)."""

from svc.rest.openapi.document import openapi_document
from svc.rest.openapi.endpoint import ADDRESS, METHODS, OpenApi

__all__ = ["ADDRESS", "METHODS", "OpenApi", "openapi_document"]
