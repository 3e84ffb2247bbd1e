"""Proxies of Debian, and nginx with a site of a test: everything that it writes is in one directory, and it stays in the foreground."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_program(name: str) -> str | None:
    """Its path; None: it is not installed. Debian has them where not every user looks for programs."""
    return shutil.which(name, path=os.pathsep.join((os.environ["PATH"], "/usr/sbin")))


NGINX, HAPROXY = find_program("nginx"), find_program("haproxy")
CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def nginx_command(folder: Path, site: str) -> list[str]:
    """The command that runs it. `site`: what stands in `http`."""
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder))
    assert NGINX is not None
    return [NGINX, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
