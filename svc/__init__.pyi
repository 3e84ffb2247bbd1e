"""What `__init__.py` has, for type checkers: it looks up these names when they are asked for."""

from typing import Any

from svc.api.context import get_context as get_context
from svc.api.context import get_response as get_response
from svc.api.context import get_user as get_user
from svc.api.resource import Resource as Resource
from svc.api.target import RequestTarget as RequestTarget
from svc.api.threads import run_in_thread as run_in_thread
from svc.errors import AccessViolation as AccessViolation
from svc.errors import ClientError as ClientError
from svc.errors import ServerError as ServerError
from svc.errors import ValidationError as ValidationError
from svc.messages import Abort as Abort
from svc.messages import Response as Response
from svc.store.blobs import Blob as Blob
from svc.store.blobs import create_blob as create_blob

__version__: str

tables: Any
databases: Any
auth: Any
sql: Any
mail: Any
logger: Any
server: Any
content_types: Any
contentTypes: Any
resources: Any
transaction: Any
config: Any
is_main_thread: bool
worker_index: int

OF_INSTANCE: tuple[str, ...]
__all__: list[str]

def __dir__() -> list[str]: ...
