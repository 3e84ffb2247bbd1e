"""Listeners: code of applications that is asked about requests around and instead of the resources, as middleware is (spec: http §12, realtime §2).

registration   `server.http`, `server.ws` and `server.upgrade` make a `Step` of it, with its place and its route: `step`, `options`, `routes`
order          `port_listeners` keeps the steps of a port, and arranges them as `order` says
asking         each kind has its chain: `request_chain`, `upgrade_chain`, `websocket_chain`
one request    goes through the steps as a `request_pass`; `next` of a listener is what is left of them. `scopes`: its transaction
"""
