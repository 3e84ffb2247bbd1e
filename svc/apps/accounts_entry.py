"""The entry `accounts`: sign-up and accounts of the application's users (spec: rows §2.1).

Names, addresses and sessions are those of the instance, and there is one address `/accounts`: so one application of an instance has accounts. A second one
that wants some is refused, with the name of the first.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.accounts.directory import Accounts, role_fault
from svc.accounts.hooks import SignUpHooks
from svc.accounts.parts import AccountParts
from svc.accounts.records import reserved
from svc.accounts.settings import DEFAULT_HOOKS, EMAIL, AccountSettings, SettingsReader
from svc.apps.config_file import CONFIG_FILE
from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.faults import fault_registrations
from svc.apps.files import FileSet
from svc.apps.modules import ModuleFault
from svc.apps.reading import line_of_path
from svc.apps.schema_entry import SchemaEntry
from svc.apps.status import ERROR
from svc.store.schema import TableDefinition
from svc.store.system import ensure_account_tables

if TYPE_CHECKING:
    from svc.accounts.openid.logins import ProviderOptions

_KEY_TYPES = frozenset(("ID", "String"))
ADDRESS = "accounts"
EXAMPLE = "type Person @table @account { username: ID @primaryKey  email: String @unique }"


class AccountsEntry(LoadedEntry):
    """`accounts`: None with a fault."""

    accounts: Accounts | None = None
    finds_hooks = False
    """Whether hooks are looked for in all modules of the application, which are loaded when it takes effect."""

    def __init__(self, context: EntryContext, parts: AccountParts, files: FileSet | None) -> None:
        super().__init__(context, files)
        self._parts = parts

    def activate(self) -> None:
        super().activate()
        accounts = self.accounts
        if accounts is not None:
            if self.finds_hooks and self.context.code is not None:
                accounts.hooks = SignUpHooks.of_modules(self.context.code.modules.loaded)
            self._parts.current = accounts
            self._parts.directory.find_alias = accounts.alias

    async def start(self) -> None:
        """The roles of the application are there now."""
        accounts = self.accounts
        if accounts is None:
            return
        fault = role_fault(accounts.parts.directory, accounts.settings.role)
        if fault is not None:
            self.context.status.fail(f"{await place_of(self.context, ('role',))}{fault}")
        else:
            await self._warn_of_rights(accounts)
        await self._check_provider_roles(accounts)
        await accounts.pairs.repair()

    async def _check_provider_roles(self, accounts: Accounts) -> None:
        for provider in () if accounts.providers is None else accounts.providers.providers:
            fault = None if provider.role is None else role_fault(accounts.parts.directory, provider.role)
            if fault is not None:
                place = await place_of(self.context, ("providers",))
                self.context.status.fail(f"{place}accounts.providers[{provider.name}]: role: {fault}")

    async def _warn_of_rights(self, accounts: Accounts) -> None:
        """Of what lets members go past the addresses of accounts."""
        role = accounts.parts.directory.role_named(accounts.settings.role)
        table = accounts.table
        rights = None if role is None else accounts.parts.directory.role_of(role).rights(table.database.name, table.name)
        given = [] if rights is None else [right for right in ("insert", "delete") if getattr(rights, right)]
        if rights is not None and accounts.has_addresses and rights.attribute(EMAIL).update:
            given.append(f"update {EMAIL}")
        if given:
            self.context.status.warn(
                f"{await place_of(self.context, ('role',))}{accounts.settings.role} may {' and '.join(given)} in {table.name}: members then make or remove"
                " records without users, or have addresses that nobody has confirmed; they need no right on it for /accounts/me"
            )

    def withdraw(self) -> None:
        super().withdraw()
        if self.accounts is not None and self._parts.current is self.accounts:
            self._parts.current = None
            self._parts.directory.find_alias = lambda name: None


async def load_accounts(context: EntryContext) -> LoadedEntry | None:
    if context.runtime.account_parts is None:
        return None
    entry = await _load(context, context.runtime.account_parts())
    if context.status.status == ERROR:
        entry.registrations = fault_registrations([ADDRESS], context.app.name, context.status, entry)
    return entry


async def _load(context: EntryContext, parts: AccountParts) -> AccountsEntry:
    runtime, status, app = context.runtime, context.status, context.app
    settings = await _settings(context)
    if settings is None:
        return AccountsEntry(context, parts, None)
    entry = AccountsEntry(context, parts, _files(context, settings))
    other = parts.current
    if other is not None and other.application != app.name:
        status.fail(
            f"{await place_of(context, ())}the application {other.application} has accounts already: one application of an instance has, for users and"
            " their addresses are those of the instance"
        )
        return entry
    definition = _definition(context)
    fault = "no type is marked @account" if definition is None else _type_fault(definition, settings, parts)
    if definition is None or fault is not None:
        status.fail(f"{await place_of(context, ())}{fault}; an example: {EXAMPLE}")
        return entry
    for path, text in _attribute_faults(definition, settings):
        status.fail(f"{await place_of(context, path)}{text}")
    mails = await _mails(context, parts, settings)
    await _check_pages(context, settings)
    hooks = _hooks(context, settings)
    if status.status == ERROR or hooks is None:
        return entry
    providers = await _providers(context, parts, settings, definition) if settings.providers else None
    if status.status == ERROR:
        return entry
    ensure_account_tables(runtime.store)
    entry.finds_hooks = settings.hooks is None and hooks == SignUpHooks()
    entry.accounts = Accounts(parts, settings, app.name, definition.database, definition.name, hooks=hooks, mails=mails)
    entry.accounts.providers = providers
    return entry


async def _settings(context: EntryContext) -> AccountSettings | None:
    reader = SettingsReader()
    settings = reader.read(context.app.config.get(context.key))
    for fault in reader.faults:
        context.status.fail(f"{await place_of(context, fault.path)}{fault.message}")
    return settings


def _files(context: EntryContext, settings: AccountSettings) -> FileSet | None:
    """The templates of the application: with other ones the entry is loaded again."""
    try:
        return FileSet(context.app.directory, [f"{settings.pages}/*.html", "mails/accounts/*"], None, app=context.app.name)
    except ValueError as error:
        context.status.fail(f"pages: {error}")
        return None


def _definition(context: EntryContext) -> TableDefinition | None:
    """Of the application's type that is marked. The schema has said if there are several."""
    schema = context.beside.get("graphqlSchema") or context.app.loaded("graphqlSchema")
    definitions = schema.definitions if isinstance(schema, SchemaEntry) else []
    return next((definition for definition in definitions if definition.account), None)


def _type_fault(definition: TableDefinition, settings: AccountSettings, parts: AccountParts) -> str | None:
    """What is wrong with the type of the accounts."""
    key, address = definition.attribute(definition.primary_key), definition.attribute(EMAIL)
    if key is None or key.type not in _KEY_TYPES or key.elements:
        return f"the key of {definition.name} must be an ID or a String: it is the name of the user"
    if definition.expiration is not None or any(attribute.expires_at for attribute in definition.attributes):
        return f"records of {definition.name} must not expire: their users would stay"
    if address is not None and (address.type not in _KEY_TYPES or address.elements or not address.stored):
        return f"{EMAIL} of {definition.name} must be a String"
    if address is not None and not address.unique:
        return f"{EMAIL} of {definition.name} must be @unique: an address is that of one account"
    if (settings.verify or settings.identity == EMAIL) and address is None:
        return f"{definition.name} needs email: String @unique, since {'verify is true' if settings.verify else 'identity is email'}"
    if settings.verify and parts.outbox is None:
        return "verify needs mail: add a section mail to svc-config.yaml, or verify: false"
    if not settings.verify and settings.identity != EMAIL and address is not None and address.required and parts.outbox is not None:
        return f"{EMAIL} of {definition.name} must not be required without verify: true: an address counts when it is confirmed, after the sign-up"
    return None


def _attribute_faults(definition: TableDefinition, settings: AccountSettings) -> list[tuple[tuple[str, ...], str]]:
    faults: list[tuple[tuple[str, ...], str]] = []
    for name in settings.attributes or ():
        attribute = definition.attribute(name)
        if attribute is None:
            faults.append((("attributes",), f"attributes: {definition.name} has no attribute {name}"))
        elif reserved(definition, attribute):
            faults.append((("attributes",), f"attributes: {name} cannot be set by members"))
    if settings.attributes is not None:
        faults += [
            (("attributes",), f"attributes: {attribute.name} of {definition.name} is required, so those who sign up must be able to set it")
            for attribute in definition.attributes
            if attribute.required
            and not attribute.default
            and not reserved(definition, attribute)
            and attribute.name not in settings.attributes
        ]
    return faults


async def _mails(context: EntryContext, parts: AccountParts, settings: AccountSettings) -> Any:
    """None: none can be sent."""
    if parts.outbox is None:
        return None
    from jinja2 import TemplateError

    from svc.accounts.mails import AccountMails
    from svc.mail.templates import TemplateFault

    if not settings.url:
        context.status.warn(
            f"{await place_of(context, ())}links in mails begin with {parts.address}: set url to what people have in their browsers"
        )
    mails = AccountMails(parts.outbox, settings, context.app.name, context.app.directory, settings.url or parts.address)
    try:
        await context.runtime.in_thread(mails.compile)
    except (TemplateFault, TemplateError) as error:
        context.status.fail(f"a mail of accounts: {_template_place(error)}{error}")
    return mails


async def _providers(
    context: EntryContext, parts: AccountParts, settings: AccountSettings, definition: TableDefinition
) -> ProviderOptions | None:
    """The providers that one can log in with. None with a fault."""
    from svc.accounts.openid.logins import ProviderOptions, open_seal
    from svc.accounts.openid.settings import claim_faults, read_providers

    providers, faults = read_providers(list(settings.providers), link_by_email=settings.link_by_email)
    faults += claim_faults(
        providers, [attribute.name for attribute in definition.attributes if not reserved(definition, attribute)], definition.name
    )
    if find_spec("httpx") is None:
        faults.append("accounts.providers needs httpx: pip install 'svc[accounts]'")
    for fault in faults:
        context.status.fail(f"{await place_of(context, ('providers',))}{fault}")
    try:
        return ProviderOptions(providers, await context.runtime.in_thread(open_seal, parts.keys))
    except (OSError, ValueError) as error:
        context.status.fail(f"the key that logins at providers are sealed with cannot be read or made: {error}")
        return None


async def _check_pages(context: EntryContext, settings: AccountSettings) -> None:
    """Compile the templates of pages, if the application has some of its own."""
    directory = context.app.directory / settings.pages
    if not await context.runtime.in_thread(directory.is_dir):
        return
    from jinja2 import TemplateError

    from svc.accounts.forms import DIRECTORY
    from svc.pages.templates import load_templates

    try:
        await context.runtime.in_thread(load_templates, (directory, DIRECTORY))
    except (TemplateError, OSError, UnicodeDecodeError) as error:
        context.status.fail(f"a page of accounts: {_template_place(error)}{error}")


def _template_place(error: BaseException) -> str:
    name, line = getattr(error, "filename", None) or getattr(error, "name", None), getattr(error, "lineno", None)
    return f"{Path(str(name)).name}:{line}: " if name and line else ""


def _hooks(context: EntryContext, settings: AccountSettings) -> SignUpHooks | None:
    """None with a fault."""
    directory, code = context.app.directory.resolve(), context.code
    name = settings.hooks or DEFAULT_HOOKS
    path = directory / name
    if not path.resolve().is_relative_to(directory):
        context.status.fail(f"hooks: '{name}' leads out of the application")
        return None
    if not path.is_file():
        if settings.hooks is None:
            return SignUpHooks()
        context.status.fail(f"hooks: there is no file {name}")
        return None
    if code is None:
        return SignUpHooks()
    try:
        return SignUpHooks.of_module(code.load(path))
    except ModuleFault as fault:
        context.status.fail(f"hooks: {fault}", fault.details)
    except ValueError as error:
        context.status.fail(f"{name}: {error}")
    return None


async def place_of(context: EntryContext, path: tuple[str, ...]) -> str:
    """`config.yaml:7: `, where an option of the entry is."""

    def read() -> str:
        try:
            text = (context.app.directory / CONFIG_FILE).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        return line_of_path(text, (context.key, *path))

    return f"{CONFIG_FILE}{await context.runtime.in_thread(read)}: "
