"""The MQTT broker: retained messages are records, messages are entries of the transaction log (spec: mqtt).

broker        sessions by client id: who is connected, takeover, the end of a session
link          one connection: CONNECT, keep-alive, packets in and out; a receiver of a tunnel
session       what lasts longer than a connection: subscriptions, exchanges, the will
delivery      one subscription: events -> PUBLISH packets
publishing    one PUBLISH -> a verb of a resource, and what is answered
addresses     topics and filters -> resources, keys and targets
free_topics   the table whose records are the topics that are no resources
payloads      values <-> bytes
"""
