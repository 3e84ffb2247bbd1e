"""Prepared requests: what does not depend on the record is done once, by the general path, and kept for the requests that repeat it.

Invariant: *a prepared answer is byte for byte what the general path would have sent, but for `Date` and `Server-Timing`.* What a preparation needs to know of
callers, rights, definitions and content types it takes from the objects of the general path when it is made, with their versions, and it ends when one of
these has moved. It declines, with nothing sent, whatever it does not know for sure: then the general path answers, as if nothing had been tried.

    PreparedReads   reads: GET of one record
"""

from svc.prepared.reads import PreparedReads

__all__ = ["PreparedReads"]
