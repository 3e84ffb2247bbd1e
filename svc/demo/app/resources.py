# Python code of this application. It runs in the server's own process, beside the tables: a call of a table is a function call.
# `tables` and `Resource` are there without an import; what a class is called is its address: /Journey/...

from statistics import median
from typing import Any

from svc import ClientError, RequestTarget, Resource, tables


class Journey(tables.Flight):
    """The flights once more, with what was not written down: /Journey/2013-01-09/HA/51/JFK"""

    def get(self, query: RequestTarget | None = None) -> Any:
        if self.airTime:  # a cancelled flight has none
            self.milesPerHour = round(self.distance * 60 / self.airTime)  # added to the answer, not to what is stored
        return super().get(query)

    @classmethod
    async def post(cls, target: RequestTarget, data: Any) -> Any:
        """Two flights swap their aircraft: POST {"swapWith": "2013-02-09/UA/..."}. Both records change, or neither."""
        partner = data.get("swapWith") if isinstance(data, dict) else None
        if target.id is None or not isinstance(partner, str):
            raise ClientError('POST {"swapWith": id of a flight} to the address of another one')
        one, other = await cls.update(target.id), await cls.update(partner)  # one transaction: the request's
        for flight in (one, other):
            if not flight.does_exist():
                raise ClientError(f"there is no flight {flight.get_id()}", 404)
        if one.originCode != other.originCode:
            raise ClientError(f"one aircraft is in {one.originCode}, the other one in {other.originCode}", 409)
        one.tailNumber, other.tailNumber = other.tailNumber, one.tailNumber
        return {flight.get_id(): flight.tailNumber for flight in (one, other)}


class Punctuality(Resource):
    """How late the airlines leave an airport: /Punctuality/JFK. It is computed from three tables."""

    def allow_read(self, user: Any, target: RequestTarget) -> bool:
        return user is not None  # without this, only super users may

    async def get(self, query: RequestTarget | None = None) -> Any:
        airport = await tables.Airport.get(self.get_id()) if self.get_id() else None
        if airport is None:
            return None  # the answer is 404
        minutes: dict[str, list[int]] = {}
        async for flight in airport.departures:  # all flights that are related to the airport
            if flight.departureDelay is not None:
                minutes.setdefault(flight.airlineCode, []).append(flight.departureDelay)
        airlines = []
        for code, delays in sorted(minutes.items(), key=lambda item: median(item[1])):
            airline = await tables.Airline.get(code)
            airlines.append({"airline": airline.name if airline else code, "flights": len(delays), "medianDelay": round(median(delays))})
        return {"airport": airport.name, "airlines": airlines}
