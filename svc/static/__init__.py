"""Files of applications, served as they are on the disk (spec: http §13)."""

from svc.static.file_cache import FileCache
from svc.static.listener import FaultyFiles, StaticFiles
from svc.static.options import StaticOptions, read_options

__all__ = ["FaultyFiles", "FileCache", "StaticFiles", "StaticOptions", "read_options"]
