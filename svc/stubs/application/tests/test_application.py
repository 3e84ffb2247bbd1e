"""Tests: each has an instance of the application of its own, with an empty store."""

from svc.testing import Application


def test_a_task_is_made_and_done(svc_app: Application) -> None:
    made = svc_app.post("/Task/", {"title": "Water the plants", "done": False})
    assert made.status == 201
    address = made.headers["location"]
    assert svc_app.post(address).json["done"] is True
    assert svc_app.get(address).json["title"] == "Water the plants"


def test_a_task_needs_a_title(svc_app: Application) -> None:
    assert svc_app.post("/Task/", {"title": " ", "done": False}).status == 422
    assert svc_app.post("/Task/", {"done": False}).status == 400


def test_the_progress_of_each_list_is_counted(svc_app: Application) -> None:
    for number in range(3):
        task = {"title": f"{number}", "done": number == 0, "listName": "home"}
        svc_app.put(f"/Task/{number}", task)
    assert svc_app.get("/Progress").json["home"] == {"open": 2, "done": 1}


def test_members_may_not_change_lists(svc_app: Application) -> None:
    member = {"username": "ann", "password": "blue-heron-17", "role": "member"}
    svc_app.operation("add_user", active=True, **member)
    assert svc_app.get("/Task/", user="ann").status == 200
    assert svc_app.put("/List/home", {"color": "red"}, user="ann").status == 403
    assert svc_app.get("/Progress", user=None).status == 401
