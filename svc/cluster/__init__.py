"""Replication between machines: committed transactions travel as messages of NATS JetStream (spec: replication). Loaded only where it is configured."""
