"""`svc sql`: statements to a running server, from the command line, from standard input, and typed (spec: sql §1)."""
