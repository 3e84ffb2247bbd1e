"""`svc check`: whether the files of a database agree with each other."""
