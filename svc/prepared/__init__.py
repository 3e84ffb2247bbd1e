"""Prepared requests: what does not depend on the record is done once, by the general path, and kept for the requests that repeat it.

Invariant: *a prepared answer is byte for byte what the general path would have sent, but for `Date` and `Server-Timing`.* What a preparation needs to know of
callers, rights, definitions and content types it takes from the objects of the general path when it is made, with their versions, and it ends when one of
these has moved. It declines, with nothing sent, whatever it does not know for sure: then the general path answers, as if nothing had been tried.

    requests       finds what is prepared by the bytes of a request, behind `recv`, and has it made when the general path has answered the same
    kept           what is kept, and when it is made: bounded
    premises       what a preparation rests on: the caller, the rights, the table at an address, and whether they still hold
    answers        what they answer with: a connection, pieces of a head
    streams        the same for reads on streams of HTTP/2, by their fields
    record_reads   GET of one record
    handler_reads  GET of one record that code of an application answers
    list_reads     GET of a collection with a query: short lists, counts
    writes         finds what is prepared for writes
    record_writes  PUT and DELETE of one record, POST of a new one: queued for the end of the turn
"""

from svc.prepared.requests import PreparedRequests

__all__ = ["PreparedRequests"]
