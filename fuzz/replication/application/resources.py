from svc import Resource, tables


class Tell(Resource):
    """POST /Tell/: a message to whoever follows Note."""

    async def post(self, data):
        await tables.Note.publish(data["id"], {"n": data["n"]})
        return {"told": True}


class Both(Resource):
    """POST /Both/: a record of Item and one of Pair in one transaction, with a text that is so long that several messages are needed."""

    async def post(self, data):
        await tables.Item.put(data["id"], {"n": data["n"]})
        await tables.Pair.put(data["id"], {"n": data["n"], "text": "x" * data["length"]})
        return {"done": True}
