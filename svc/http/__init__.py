"""What every HTTP interface shares: dispatch, negotiation, bodies in and out."""
