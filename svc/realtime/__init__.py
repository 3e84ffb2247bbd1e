"""What happens in the tables, told to those who asked: subscriptions and live queries (contract: realtime §1, applications §9)."""
