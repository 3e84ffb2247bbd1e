"""x"""

from svc.stubs.schema import ApplicationSchema


def typescript(schema: ApplicationSchema) -> str:
    return ""
