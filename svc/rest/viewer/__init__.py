"""The page at `/docs`: the REST interface in a browser, to read and to try, with Swagger UI and no other host (spec: http §10.5).

`files` are ours, `swagger_ui` is as its makers deliver it. Nothing in them depends on who asks: what a user may see comes with the document that the page
loads. They are read when the first one is asked for.
"""

from svc.rest.viewer.endpoint import PATHS, Viewer

__all__ = ["PATHS", "Viewer"]
