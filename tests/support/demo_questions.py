"""Questions about the demo's flights in SQL, and what SQLite itself answers: `docs/sql.md` shows some of them.

    python -m tests.support.demo_questions     # writes the answers into demo_questions.json

The tables are loaded into SQLite as svc shows them to statements: dates with milliseconds, booleans as 1 and 0. A question that uses what SQLite does not have
says the same in `sqlite` with what it has.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svc.apps.schema_files import load_schema_files
from svc.demo.data import APP, TABLES, iter_records

ANSWERS = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Question:
    """`booleans`, `json`: columns of the result that are not what SQLite has for them. `sqlite`: what it is asked instead."""

    title: str
    sql: str
    sqlite: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    booleans: tuple[str, ...] = ()
    json: tuple[str, ...] = ()


QUESTIONS = (
    Question(
        "Which flights were the latest to leave?",
        """
SELECT id, departureDelay, cancelled
FROM data.Flight
WHERE departureDelay > 700
ORDER BY departureDelay DESC, id
LIMIT 5
""",
        booleans=("cancelled",),
    ),
    Question(
        "How many flights were there, how many took off, and how many planes flew them?",
        """
SELECT COUNT(*) AS flights, COUNT(departed) AS departed, COUNT(DISTINCT tailNumber) AS planes,
       MIN(scheduled) AS first, MAX(scheduled) AS last
FROM data.Flight
""",
    ),
    Question(
        "How punctual are the airlines?",
        """
SELECT a.name, COUNT(*) AS flights, ROUND(AVG(f.departureDelay), 1) AS delay, MEDIAN(f.departureDelay) AS median
FROM data.Flight f
JOIN data.Airline a ON a.code = f.airlineCode
GROUP BY a.name
HAVING COUNT(*) >= 2000
ORDER BY delay
""",
        """
WITH numbered AS (
  SELECT airlineCode, departureDelay, ROW_NUMBER() OVER (PARTITION BY airlineCode ORDER BY departureDelay) AS number,
         COUNT(*) OVER (PARTITION BY airlineCode) AS known
  FROM data.Flight
  WHERE departureDelay IS NOT NULL
)
SELECT a.name, COUNT(*) AS flights, ROUND(AVG(f.departureDelay), 1) AS delay,
       (SELECT AVG(departureDelay) FROM numbered n WHERE n.airlineCode = a.code AND number IN ((known + 1) / 2, (known + 2) / 2)) AS median
FROM data.Flight f
JOIN data.Airline a ON a.code = f.airlineCode
GROUP BY a.name
HAVING COUNT(*) >= 2000
ORDER BY delay
""",
    ),
    Question(
        "What became of the flights from each airport?",
        """
SELECT originCode,
       COUNT(*) FILTER (WHERE cancelled) AS cancelled,
       COUNT(*) FILTER (WHERE departureDelay <= 15) AS punctual,
       COUNT(*) FILTER (WHERE departureDelay > 120) AS late
FROM data.Flight
GROUP BY originCode
ORDER BY originCode
""",
    ),
    Question(
        "How long are delays, in steps?",
        """
SELECT CASE
         WHEN departureDelay IS NULL THEN 'none known'
         WHEN departureDelay < 0 THEN 'early'
         WHEN departureDelay <= 15 THEN 'up to 15 minutes'
         WHEN departureDelay <= 60 THEN 'up to an hour'
         ELSE 'longer'
       END AS step,
       COUNT(*) AS flights,
       ROUND(100.0 * COUNT(*) / (SELECT COUNT(*) FROM data.Flight), 1) AS percent
FROM data.Flight
GROUP BY step
ORDER BY flights DESC
""",
    ),
    Question(
        "Of which manufacturers are the planes, and of how many is the year not known?",
        """
SELECT UPPER(SUBSTR(manufacturer, 1, 6)) AS maker, COUNT(*) AS planes, COUNT(*) - COUNT(year) AS unknown, MIN(year) AS oldest
FROM data.Plane
GROUP BY maker
ORDER BY planes DESC, maker
LIMIT 6
""",
    ),
    Question(
        "Which planes that the list of planes does not have flew most?",
        """
SELECT f.tailNumber, COUNT(*) AS flights
FROM data.Flight f
LEFT JOIN data.Plane p ON p.tailNumber = f.tailNumber
WHERE p.tailNumber IS NULL AND f.tailNumber IS NOT NULL
GROUP BY f.tailNumber
ORDER BY flights DESC, f.tailNumber
LIMIT 5
""",
    ),
    Question(
        "Which planes of the list flew in January, but not in February?",
        """
SELECT COUNT(*) AS planes, ROUND(AVG(p.seats), 1) AS seats
FROM data.Plane p
WHERE EXISTS (SELECT 1 FROM data.Flight f WHERE f.tailNumber = p.tailNumber AND f.id < '2013-02')
  AND NOT EXISTS (SELECT 1 FROM data.Flight f WHERE f.tailNumber = p.tailNumber AND f.id >= '2013-02')
""",
    ),
    Question(
        "Which destinations do all of these airlines fly to?",
        """
SELECT f.destinationCode, COUNT(DISTINCT f.airlineCode) AS airlines, COUNT(*) AS flights
FROM data.Flight f
WHERE f.airlineCode IN (SELECT value FROM json_each(:airlines))
GROUP BY f.destinationCode
HAVING airlines = json_array_length(:airlines)
ORDER BY flights DESC
LIMIT 5
""",
        parameters={"airlines": ["UA", "AA", "DL"]},
    ),
    Question(
        "On which days were most flights cancelled?",
        """
SELECT DATE_FORMAT(scheduled, 'YYYY-MM-DD') AS day, SUM(cancelled) AS cancelled, COUNT(*) AS flights
FROM data.Flight
GROUP BY day
ORDER BY cancelled DESC
LIMIT 3
""",
        """
SELECT strftime('%Y-%m-%d', scheduled) AS day, SUM(cancelled) AS cancelled, COUNT(*) AS flights
FROM data.Flight
GROUP BY day
ORDER BY cancelled DESC
LIMIT 3
""",
    ),
    Question(
        "At which hour should one fly?",
        """
SELECT HOUR(scheduled) AS hour, COUNT(*) AS flights, ROUND(AVG(departureDelay), 1) AS delay
FROM data.Flight
WHERE originCode = 'JFK'
GROUP BY hour
HAVING flights > 500
ORDER BY delay
LIMIT 5
""",
        """
SELECT CAST(strftime('%H', scheduled) AS INTEGER) AS hour, COUNT(*) AS flights, ROUND(AVG(departureDelay), 1) AS delay
FROM data.Flight
WHERE originCode = 'JFK'
GROUP BY hour
HAVING flights > 500
ORDER BY delay
LIMIT 5
""",
    ),
    Question(
        "Are the delays right: is there a flight whose delay is not the difference of its times?",
        """
SELECT COUNT(*) AS flights, SUM(DATE_DIFF(departed, scheduled, minutes) <> departureDelay) AS wrong
FROM data.Flight
WHERE departed IS NOT NULL
""",
        """
SELECT COUNT(*) AS flights, SUM(CAST(ROUND((julianday(departed) - julianday(scheduled)) * 1440) AS INTEGER) <> departureDelay) AS wrong
FROM data.Flight
WHERE departed IS NOT NULL
""",
    ),
    Question(
        "What does wind do to flights?",
        """
SELECT CAST(w.windSpeed / 10 AS INTEGER) * 10 AS `from mph`, COUNT(*) AS flights, ROUND(AVG(f.departureDelay), 1) AS delay,
       ROUND(100 * AVG(f.cancelled), 1) AS `cancelled %`
FROM data.Flight f
JOIN data.Weather w ON w.id = f.weatherId
WHERE w.windSpeed IS NOT NULL AND w.airportCode = 'LGA'
GROUP BY `from mph`
ORDER BY `from mph`
""",
    ),
    Question(
        "What are the three most frequent destinations of each airport?",
        """
WITH counted AS (
  SELECT originCode, destinationCode, COUNT(*) AS flights
  FROM data.Flight
  GROUP BY originCode, destinationCode
), ranked AS (
  SELECT *, RANK() OVER (PARTITION BY originCode ORDER BY flights DESC) AS place
  FROM counted
)
SELECT r.originCode, r.place, a.name, r.flights
FROM ranked r
JOIN data.Airport a ON a.code = r.destinationCode
WHERE r.place <= 3
ORDER BY r.originCode, r.place
""",
    ),
    Question(
        "How many cancellations were there up to each day of the storm?",
        """
SELECT SUBSTR(id, 1, 10) AS day, COUNT(*) AS cancelled, SUM(COUNT(*)) OVER (ORDER BY SUBSTR(id, 1, 10)) AS `so far`
FROM data.Flight
WHERE cancelled AND id BETWEEN '2013-02-07' AND '2013-02-12'
GROUP BY day
ORDER BY day
""",
    ),
    Question(
        "How many hours passed between the departures of a plane from New York?",
        """
SELECT id, ROUND((julianday(departed) - julianday(LAG(departed) OVER (ORDER BY departed))) * 24, 1) AS hours
FROM data.Flight
WHERE tailNumber = :tail AND departed IS NOT NULL
ORDER BY departed
LIMIT 4
""",
        parameters={"tail": "N737MQ"},
    ),
    Question(
        "On which days of a week was there a flight to Columbia?",
        """
WITH RECURSIVE days(day) AS (
  SELECT '2013-02-08'
  UNION ALL
  SELECT date(day, '+1 day') FROM days WHERE day < '2013-02-14'
)
SELECT days.day, COUNT(f.id) AS flights
FROM days
LEFT JOIN data.Flight f ON SUBSTR(f.id, 1, 10) = days.day AND f.destinationCode = 'CAE'
GROUP BY days.day
ORDER BY days.day
""",
    ),
    Question(
        "What does each airline fly to Honolulu with?",
        """
SELECT a.name AS airline, json_group_array(DISTINCT p.model) AS models, json_object('flights', COUNT(*), 'seats', SUM(p.seats)) AS total
FROM data.Flight f
JOIN data.Airline a ON a.code = f.airlineCode
JOIN data.Plane p ON p.tailNumber = f.tailNumber
WHERE f.destinationCode = 'HNL'
GROUP BY a.code
ORDER BY a.name
""",
        json=("models", "total"),
    ),
    Question(
        "How many flights left each airport, and all of them?",
        """
SELECT a.name, COUNT(*) AS flights
FROM data.Flight f
JOIN data.Airport a ON a.code = f.originCode
GROUP BY a.name
UNION ALL
SELECT 'all', COUNT(*) FROM data.Flight
ORDER BY flights
""",
    ),
    Question(
        "Is the distance of a flight that between its airports?",
        """
SELECT DISTINCT f.originCode, f.destinationCode, f.distance,
       ROUND(geoDistance(json_object('type', 'Point', 'coordinates', json_array(o.longitude, o.latitude)),
                         json_object('type', 'Point', 'coordinates', json_array(d.longitude, d.latitude)), 'miles')) AS computed
FROM data.Flight f
JOIN data.Airport o ON o.code = f.originCode
JOIN data.Airport d ON d.code = f.destinationCode
WHERE f.distance > 2560
ORDER BY f.distance DESC, f.originCode
LIMIT 4
""",
        """
SELECT DISTINCT f.originCode, f.destinationCode, f.distance,
       ROUND(2 * 6371008.8 / 1609.344 * asin(sqrt(
         pow(sin(radians(d.latitude - o.latitude) / 2), 2)
         + cos(radians(o.latitude)) * cos(radians(d.latitude)) * pow(sin(radians(d.longitude - o.longitude) / 2), 2)))) AS computed
FROM data.Flight f
JOIN data.Airport o ON o.code = f.originCode
JOIN data.Airport d ON d.code = f.destinationCode
WHERE f.distance > 2560
ORDER BY f.distance DESC, f.originCode
LIMIT 4
""",
    ),
)


def demo_connection() -> sqlite3.Connection:
    """The demo's tables, in a database that is called as they are in svc. Takes about a second."""
    files = [(path.name, path.read_text("utf-8")) for path in sorted(APP.glob("*.graphql"))]
    definitions = {each.name: each for each in load_schema_files(files, {}).definitions}
    connection = sqlite3.connect(":memory:")
    connection.execute("ATTACH ':memory:' AS data")
    connection.row_factory = sqlite3.Row
    for table in TABLES:
        attributes = definitions[table].attributes
        columns = [f"{each.name}{' TEXT PRIMARY KEY' if each.primary_key else ''}" for each in attributes]
        dates = {each.name for each in attributes if each.type == "Date"}
        connection.execute(f"CREATE TABLE data.{table} ({', '.join(columns)})")
        rows = (tuple([_value(record.get(each.name), each.name in dates) for each in attributes]) for record in iter_records(table))
        connection.executemany(f"INSERT INTO data.{table} VALUES ({', '.join('?' * len(columns))})", rows)
    for column in ("tailNumber", "airlineCode", "weatherId"):
        connection.execute(f"CREATE INDEX data.by_{column} ON Flight ({column})")
    return connection


def _value(value: Any, is_date: bool) -> Any:
    """A date with seconds and milliseconds."""
    return f"{value.removesuffix('Z'):0<16}{':00' if len(value) == 17 else ''}.000Z" if is_date and value is not None else value


def answer_of_sqlite(connection: sqlite3.Connection, question: Question) -> list[dict[str, Any]]:
    parameters = {name: json.dumps(value) if isinstance(value, list) else value for name, value in question.parameters.items()}
    rows = [dict(row) for row in connection.execute(question.sqlite or question.sql, parameters)]
    for row in rows:
        for name in question.booleans:
            row[name] = bool(row[name])
        for name in question.json:
            row[name] = json.loads(row[name])
    return rows


def answers() -> dict[str, list[dict[str, Any]]]:
    """Title of a question -> its rows."""
    found: dict[str, list[dict[str, Any]]] = json.loads(ANSWERS.read_text("utf-8"))
    return found


def main() -> None:
    connection = demo_connection()
    lines = []
    for question in QUESTIONS:
        rows = answer_of_sqlite(connection, question)
        lines.append(
            f" {json.dumps(question.title)}: [\n" + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows) + "\n ]"
        )
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
