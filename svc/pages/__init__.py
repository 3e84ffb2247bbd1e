"""What a person's browser gets: resources as pages, without scripts (spec: http §7.7).

pages        results of resources, errors and forms as responses; `rest` asks it instead of its `ResponseBuilder`
collection   the rows of a query        record       one record        described   what a table consists of
nested       any other data             home         what is there     cells       values as text
links        addresses of records and queries, for tables that the caller may read
frame        what every page has        templates    Jinja, loaded for the first page
"""

from svc.pages.pages import Pages

__all__ = ["Pages"]
