"""Plugins: modules that handle entries of the config.yaml of applications (spec: plugins).

config.yaml -> entry (PluginEntry) -> finding: which module -> module_functions: its handle_application
                                   -> scope: what that sees, entries: events of files
"""

from svc.apps.plugins.entry import PluginEntry, load_plugin, load_plugin_module

__all__ = ["PluginEntry", "load_plugin", "load_plugin_module"]
