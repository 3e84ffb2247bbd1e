"""Values, keys and records: how they are encoded, converted, validated and computed."""
