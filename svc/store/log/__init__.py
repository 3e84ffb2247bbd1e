"""The transaction log of a database and what is read from it."""
