"""OpenAPI: a description of the REST interface for programs, at /openapi (contract: http §10.2)."""

from svc.rest.openapi.document import openapi_document
from svc.rest.openapi.endpoint import ADDRESS, METHODS, OpenApi
from svc.rest.openapi.operations import MediaTypes

__all__ = ["ADDRESS", "METHODS", "MediaTypes", "OpenApi", "openapi_document"]
