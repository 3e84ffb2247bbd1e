"""Operations of older programs on applications: their modules in `routes` and `helpers` (spec: operations §7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from svc.deploying import files
from svc.deploying.names import file_in
from svc.errors import NotFound
from svc.operations.call import Call
from svc.operations.component_deployments import PAYLOAD, RESTART, deploy_component
from svc.operations.components import (
    INSTALL_COMMAND,
    INSTALL_TIMEOUT,
    PROJECT,
    add_component,
    change_files,
    drop_component,
    package_component,
    project_of,
)
from svc.operations.fields import REPLICATED, Field, bad_request
from svc.operations.operation import NEVER_GRANTED, SUPER_USER, Operation, Permission
from svc.operations.threads import in_thread

TYPES = ("routes", "helpers")
NO_FILE = "File does not exist"
NO_PROJECT = "Project does not exist. Create one using 'add_custom_function_project'"

_SUFFIX = ".py"


def custom_functions_status(call: Call) -> Any:
    config = call.node.config
    port = config.http.port if config.http.port is not None else config.http.secure_port
    return {"port": port, "directory": str(config.components_root), "is_enabled": True}


async def get_custom_functions(call: Call) -> Any:
    layout = call.node.deployments.layout

    def collect() -> dict[str, dict[str, list[str]]]:
        found = {}
        for project in layout.projects():
            served = layout.served(project)
            if served is not None:
                found[project] = {kind: _modules(served / kind) for kind in TYPES}
        return found

    return await in_thread(collect)


def _modules(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.glob(f"*{_SUFFIX}") if path.name.isprintable() and path.is_file())


def _name(call: Call) -> str:
    """The path of the file that is meant."""
    file: str = call["file"].removesuffix(_SUFFIX)
    if "/" in file or "\\" in file or file in ("", ".", ".."):
        raise bad_request("Invalid file path")
    return f"{call['type']}/{file}{_SUFFIX}"


async def _require_project(call: Call) -> str:
    project = project_of(call)
    if await in_thread(lambda: call.node.deployments.layout.served(project)) is None:
        raise bad_request(NO_PROJECT)
    return project


async def get_custom_function(call: Call) -> Any:
    project, name = await _require_project(call), _name(call)
    layout, limit = call.node.deployments.layout, call.node.config.operations_api.component_file.max_size
    try:
        found = await in_thread(lambda: files.read_file(layout, project, name, limit))
    except NotFound:
        raise bad_request(NO_FILE) from None
    return {"message": found.content.decode(errors="replace")}


async def set_custom_function(call: Call) -> Any:
    project, name = await _require_project(call), _name(call)
    content = call["function_content"].encode()
    limit = call.node.config.operations_api.component_file.max_size
    if len(content) > limit:
        raise files.too_large(project, name, limit)
    await change_files(call, project, name, lambda layout: files.write_file(layout, project, name, content))
    return f"Successfully updated custom function: {name.rpartition('/')[2]}"


async def drop_custom_function(call: Call) -> Any:
    project, name = await _require_project(call), _name(call)
    layout = call.node.deployments.layout

    def is_there() -> bool:
        served = layout.served(project)
        return served is not None and file_in(served, name).is_file()

    if not await in_thread(is_there):
        raise bad_request(NO_FILE)
    await change_files(call, project, name, lambda layout: files.remove_file(layout, project, name))
    return f"Successfully deleted custom function: {name.rpartition('/')[2]}"


async def drop_project(call: Call) -> Any:
    await _require_project(call)
    call.arguments["file"] = None
    await drop_component(call)
    return f"Successfully deleted project: {call['project']}"


async def package_project(call: Call) -> Any:
    await _require_project(call)
    return await package_component(call)


# --- rows ---------------------------------------------------------------------------------------------------------------------------------

_TYPE = Field("type", "choice", "Which directory.", required=True, choices=TYPES)
_FILE = Field("file", "string", "Name of the file, with or without `.py`.", required=True)


def _row(
    name: str,
    summary: str,
    handler: Any,
    *fields: Field,
    permission: Permission = SUPER_USER,
    returns: str = "A message.",
    example: Any = None,
    **more: Any,
) -> Operation:
    return Operation(
        name=name,
        category="components",
        summary=summary,
        permission=permission,
        handler=handler,
        fields=fields,
        returns=returns,
        notes="For programs that know no components; what is new uses the operations on these.",
        example=example or {},
        **more,
    )


_EXAMPLE = {"project": "shop", "type": "helpers", "file": "prices"}

OPERATIONS: tuple[Operation, ...] = (
    _row(
        "custom_functions_status",
        "Where applications are served.",
        custom_functions_status,
        returns="`port`, `directory`, `is_enabled`.",
        example_answer={"port": 9926, "directory": "/srv/svc/components", "is_enabled": True},
    ),
    _row(
        "get_custom_functions",
        "The modules in `routes` and `helpers` of all applications.",
        get_custom_functions,
        returns="An object: application -> `{routes, helpers}`, names without `.py`.",
        example_answer={"shop": {"routes": [], "helpers": ["prices"]}},
    ),
    _row(
        "get_custom_function",
        "Read such a module.",
        get_custom_function,
        PROJECT,
        _TYPE,
        _FILE,
        returns="`message`, its text.",
        example=_EXAMPLE,
        example_answer={"message": "VAT = 0.19\n"},
    ),
    _row(
        "set_custom_function",
        "Write such a module.",
        set_custom_function,
        PROJECT,
        _TYPE,
        _FILE,
        Field("function_content", "any string", "Its text.", required=True),
        REPLICATED,
        permission=NEVER_GRANTED,
        example={**_EXAMPLE, "function_content": "VAT = 0.19\n"},
        example_answer={"message": "Successfully updated custom function: prices.py"},
    ),
    _row(
        "drop_custom_function",
        "Remove such a module.",
        drop_custom_function,
        PROJECT,
        _TYPE,
        _FILE,
        REPLICATED,
        permission=NEVER_GRANTED,
        example=_EXAMPLE,
        example_answer={"message": "Successfully deleted custom function: prices.py"},
    ),
    _row(
        "add_custom_function_project",
        "As `add_component`.",
        add_component,
        PROJECT,
        Field("template", "string", "A package to begin with."),
        INSTALL_COMMAND,
        INSTALL_TIMEOUT,
        REPLICATED,
        permission=NEVER_GRANTED,
        example={"project": "my-shop"},
        example_answer={"message": "Successfully added project: my-shop"},
    ),
    _row(
        "drop_custom_function_project",
        "As `drop_component`.",
        drop_project,
        PROJECT,
        Field("restart", "bool", "End the running application, too.", default=False),
        REPLICATED,
        permission=NEVER_GRANTED,
        example={"project": "shop"},
        example_answer={"message": "Successfully deleted project: shop"},
    ),
    _row(
        "package_custom_function_project",
        "As `package_component`.",
        package_project,
        PROJECT,
        Field("skip_node_modules", "bool", "Leave out directories of packages.", default=False, aliases=("skip_packages",)),
        Field("skip_symlinks", "bool", "Leave out symbolic links.", default=False),
        returns="`project` and `payload`.",
        example={"project": "shop", "skip_packages": True},
        example_answer={"project": "shop", "payload": "H4sIAAAAAAAC..."},
    ),
    _row(
        "deploy_custom_function_project",
        "As `deploy_component`.",
        deploy_component,
        PROJECT.but(required=False),
        PAYLOAD,
        Field("package", "string", "Where the application is, instead of `payload`."),
        RESTART,
        Field("force", "bool", "Also under the name of something built in.", default=False),
        INSTALL_COMMAND,
        INSTALL_TIMEOUT,
        Field("urlPath", "string", "Path that the addresses of the application begin with."),
        Field("host", "string", "Host that the application is served for."),
        Field("credentials", "any", "For `package`.", secret=True),
        REPLICATED,
        permission=NEVER_GRANTED,
        returns="`message`, `deployment_id`.",
        example={"project": "shop", "payload": "H4sIAAAAAAAC...", "restart": True},
        example_answer={"message": "Successfully deployed: shop, restarting svc", "deployment_id": "7d5a3c1e-0d5b-4d55-9d5e-1f2a3b4c5d6e"},
    ),
)
