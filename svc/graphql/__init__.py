"""GraphQL over the resources (spec: graphql): documents become queries of the query core.

    request -> parameters -> document -> operation -> fields -> plans -> rows -> JSON

graphql-core parses documents and describes the schema; nothing of it runs for a query of data.
"""
