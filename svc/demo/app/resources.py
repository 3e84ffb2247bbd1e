# Python code of this application. It runs in the server's own process, beside the tables: a call of a table is a function call.
# `tables` and `Resource` are there without an import; what a class is called is its address: /Journey/...

from statistics import median

from svc import ClientError, Resource, tables


class Journey(tables.Flight):
    """The flights once more, with what was not written down: /Journey/2013-01-09/HA/51/JFK"""

    def get(self, query=None):
        if self.airTime:  # a cancelled flight has none
            self.milesPerHour = round(self.distance * 60 / self.airTime)  # added to the answer, not to what is stored
        return super().get(query)

    @classmethod
    async def post(cls, target, data):
        """Two flights swap their aircraft: POST {"swapWith": "2013-02-09/UA/..."}. Both records change, or neither."""
        one, other = await cls.update(target.id), await cls.update(data.get("swapWith"))
        for flight in (one, other):
            if not flight.does_exist():
                raise ClientError(f"there is no flight {flight.get_id()}", 404)
        if one.originCode != other.originCode:
            raise ClientError(f"one aircraft is in {one.originCode}, the other one in {other.originCode}", 409)
        one.tailNumber, other.tailNumber = other.tailNumber, one.tailNumber
        return {flight.get_id(): flight.tailNumber for flight in (one, other)}


class Punctuality(Resource):
    """How late the airlines leave an airport: /Punctuality/JFK. No table is behind it, it is computed from several."""

    def allow_read(self, user, target):
        return user is not None  # without this, super users only

    async def get(self, query=None):
        airport = await tables.Airport.get(self.get_id())
        if airport is None:
            return None  # 404
        delays = {}
        leaving = tables.Flight.search(
            {"conditions": [{"attribute": "originCode", "value": airport.code}], "select": ["airlineCode", "departureDelay"]}
        )
        async for flight in leaving:
            if flight.departureDelay is not None:
                delays.setdefault(flight.airlineCode, []).append(flight.departureDelay)
        airlines = [
            {"airline": (await tables.Airline.get(code)).name, "flights": len(minutes), "medianDelay": median(minutes)}
            for code, minutes in delays.items()
        ]
        return {"airport": airport.name, "airlines": sorted(airlines, key=lambda airline: airline["medianDelay"])}
