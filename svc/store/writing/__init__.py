"""Writing: transactions, the writes of each database, long and bulk writes, and who may write when."""
