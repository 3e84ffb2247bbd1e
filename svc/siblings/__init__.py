"""The processes over one data directory: who lives, which of them does what is done once per node, and what they say to each other (spec: configuration
§6.5).

    siblings = Siblings(storage, loop, clock=clock)   # this process is there, and perhaps the leader
    await siblings.open()                             # it can be asked, and can ask
    siblings.answer("jobs.cancel", cancel)            # what it says to others
    for answer in await siblings.ask("jobs.cancel", job_id, 2.0): ...
    siblings.tell("jobs.look", None)
    siblings.sleep(); ...; siblings.awake()           # woken by the next commit of another one, which calls `wake`
    if siblings.is_leader: ...                        # what is done once per node
    siblings.resign(); await siblings.close(); siblings.release()

All of it lies in `.siblings` in the data directory, so it does not matter who has started the processes. A process that is alone has nobody to ask and
nothing to pay.

Modules: `presence` (who lives), `sleep` (who is to be woken), `leadership` (which one leads), `locks` (what one does at a time, and what is decided once),
`messages` (values <-> bytes), `link` (the connection to one sibling), `channel` (all of them, and what comes from others), `siblings` (what the rest of svc
uses).
"""

from svc.siblings.leadership import Lead, lead_alone
from svc.siblings.link import Answer
from svc.siblings.locks import Decision, SubjectLock
from svc.siblings.siblings import Siblings

__all__ = ["Answer", "Decision", "Lead", "Siblings", "SubjectLock", "lead_alone"]
