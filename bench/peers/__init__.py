"""Servers of others, set up as their documentation says, for comparison. `bench/README.md` tells what was chosen and why."""

from bench.peers.datasette_server import Datasette
from bench.peers.fastapi_server import FastApi
from bench.peers.pocketbase_server import PocketBase
from bench.servers import Server

PEERS: tuple[type[Server], ...] = (PocketBase, FastApi, Datasette)
