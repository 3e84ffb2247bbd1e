"""Plugins: modules that handle entries of the config.yaml of applications (spec: plugins).

config.yaml -> entry (PluginEntry) -> finding: which module -> forms: which form
                                   -> scope: what handle_application sees, entries: events of files
                                   -> older: the older functions
"""

from svc.apps.plugins.entry import PluginEntry, load_plugin, load_plugin_module

__all__ = ["PluginEntry", "load_plugin", "load_plugin_module"]
