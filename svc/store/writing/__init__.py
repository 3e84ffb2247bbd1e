"""Writing: transactions, the writes of each database, long and bulk writes, and the queue of writers."""
