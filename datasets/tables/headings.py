"""Comparison of names of columns and stations, and recognition of latitude and longitude."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import pandas as pd

# Letters that Unicode does not decompose into a letter and an accent.
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "æ": "ae", "ß": "ss", "đ": "d", "ı": "i"})


def simplify_heading(column: object) -> str:
    """Return a heading in lower case, without accents, and with _ for spaces and punctuation.

    Examples
    --------
    >>> from tvbandits.datasets.tables.headings import simplify_heading
    >>> print(*map(simplify_heading, ("Site  Num.", "Längengrad", "Długość geogr.")))
    site_num langengrad dlugosc_geogr
    """
    letters = unicodedata.normalize("NFKD", str(column).lower().translate(_LETTERS))
    return re.sub(
        r"[\W_]+", "_", "".join(c for c in letters if not unicodedata.combining(c))
    ).strip("_")


def heading_variants(heading: object) -> tuple[str, str, str]:
    """Return a simplified heading, the same with its words separated, and the same without a unit.

    Examples
    --------
    >>> from tvbandits.datasets.tables.headings import heading_variants
    >>> print(heading_variants("sensorId"), heading_variants("Time (UTC)"))
    ('sensorid', 'sensor_id', 'sensorid') ('time_utc', 'time_utc', 'time')
    """
    text = str(heading)
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text)
    return (
        simplify_heading(text),
        simplify_heading(apart),
        simplify_heading(re.split(r"[,(\[]", text)[0]),
    )


def as_id(value: Any) -> str:
    """Return the id of a sensor as a text: 7, 7.0 and "7.0" become "7", a missing value becomes ""."""
    if value is None or pd.isna(value):
        return ""
    text = str(value).strip()
    # A column of integers with a gap is read, and written, as floats.
    return text.partition(".")[0] if re.fullmatch(r"(0|-?[1-9]\d*)\.0+", text) else text


def describe_similar_names(names: Iterable[str]) -> list[str]:
    """Return a sentence for each group of names of stations that differ only by case or spaces."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault("".join(name.casefold().split()), []).append(name)
    return [
        f"{' and '.join(map(repr, group))} are read as different stations: if they are the same "
        "station, give them the same name"
        for group in groups.values()
        if len(group) > 1
    ]


# Words in the form of `simplify_heading` that have no other meaning.
LATITUDE = re.compile(
    "latitude|lat|latitud|latitudine|breitengrad|breddegrad|breddgrad|breedtegraad|leveysaste|"
    "leveyspiiri|laiuskraad|enlem|широта"
)
LONGITUDE = re.compile(
    "longitude|lon|lng|long|longitud|longitudine|langengrad|laengengrad|lengtegraad|langdgrad|"
    "laengdegrad|lengdegrad|pituusaste|pituuspiiri|pikkuskraad|boylam|долгота|довгота"
)
# Words that also mean width and length, so that both must be present.
BREADTH = re.compile("breite|breedte|bredde|bredd|leveys|sirka|szerokosc|sirina|szelesseg|πλατος")
LENGTH = re.compile(
    "lange|laenge|lengte|laengde|lengde|langd|pituus|delka|dlugosc|duzina|dolzina|hosszusag|μηκος"
)
# Words that may be in the same heading.
BESIDE = re.compile(
    "site|station|sensor|location|stop|geo|gps|wgs|wgs84|84|epsg|4326|etrs89|deg|degrees?|dec|decimal|"
    "dd|grad|coord|coordinates?|koordinate|geogr|geograph(ic|ical|ische|ique)|"
    "geografi(sche|sk|ca|co|ska)|geograficzna|geografska|zemepisna|γεωγραφικο|maantieteellinen|x|y|"
)
# Headings of plane coordinates, and words for lengths.
PLANE = {"x", "y", "z"}
LENGTHS = {"easting", "northing", "east", "north", "hochwert", "rechtswert", "utm", "km", "m"}


def _words(heading: object) -> list[str]:
    """Return the words of a heading without a unit in brackets: geo and lat for "geoLat [deg]"."""
    text = re.sub(r"[(\[].*?[)\]]", "", str(heading))
    return simplify_heading(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text)).split("_")


def find_latitude_and_longitude(columns: Iterable[object]) -> tuple[str | None, str | None]:
    """Return the columns of latitude and longitude by their headings; None for a missing one.

    Examples
    --------
    >>> from tvbandits.datasets.tables.headings import find_latitude_and_longitude
    >>> find_latitude_and_longitude(["id", "lon_wgs84", "geo_lat"])
    ('geo_lat', 'lon_wgs84')
    >>> find_latitude_and_longitude(["Name", "Länge", "Breite"])
    ('Breite', 'Länge')
    >>> find_latitude_and_longitude(["Name", "Länge"])
    (None, None)
    """
    words = {str(column): _words(column) for column in columns}

    def find(pattern: re.Pattern[str]) -> str | None:
        for name in sorted(words, key=lambda name: len(words[name])):  # lat before lat_deg
            main_words = [word for word in words[name] if not BESIDE.fullmatch(word)]
            if len(main_words) == 1 and pattern.fullmatch(main_words[0]):
                return name
        return None

    degrees, lengths = (find(LATITUDE), find(LONGITUDE)), (find(BREADTH), find(LENGTH))
    return lengths if degrees == (None, None) and None not in lengths else degrees


def is_length(heading: object) -> bool:
    """Return whether a heading names a length or a unit of length, such as "easting" or "x (km)"."""
    return not LENGTHS.isdisjoint(simplify_heading(heading).split("_"))
