"""Bytes <-> events. No sockets, no clock, no disk, no logging: a driver can be embedded in a test, or in another program, without a socket."""
