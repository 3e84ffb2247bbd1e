"""The console: pages for administrators on the operations port, from the same templates as the pages of the application port (spec: console).

console   addresses, login, forms         page      what a view is given
places    what there is, in the order of the navigation; `views` has a module for each

A view does nothing that an operation does not do: `ConsolePage.run` runs one in the name of its caller, so rights, checks and logs are those of the
operation. Nothing here is imported before the first page is asked for.
"""

from svc.console.console import Console

__all__ = ["Console"]
