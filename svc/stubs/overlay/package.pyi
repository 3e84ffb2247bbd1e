"""What applications import from svc. Written by `svc types`; do not edit."""

from collections.abc import Awaitable, Mapping
from typing import Any

from ._schema import databases as databases
from ._schema import tables as tables
from ._types import Abort as Abort
from ._types import AccessViolation as AccessViolation
from ._types import Blob as Blob
from ._types import ClientError as ClientError
from ._types import ContentTypes, Logger, Mail, ResourceRegistry, Server, SqlFunction, TransactionFunction, User
from ._types import RequestTarget as RequestTarget
from ._types import Resource as Resource
from ._types import Response as Response
from ._types import ServerError as ServerError
from ._types import ValidationError as ValidationError
from ._types import create_blob as create_blob
from ._types import get_context as get_context
from ._types import get_response as get_response
from ._types import get_user as get_user
from ._types import run_in_thread as run_in_thread

__version__: str

def auth(username: str, password: str | None = None) -> Awaitable[User | None]:
    """The user `username`, None if there is none; with a `password` only if it is theirs, else ClientError 401."""

logger: Logger
server: Server
content_types: ContentTypes
contentTypes: ContentTypes
resources: ResourceRegistry
transaction: TransactionFunction
sql: SqlFunction
mail: Mail
config: Mapping[str, Any]
is_main_thread: bool
worker_index: int
