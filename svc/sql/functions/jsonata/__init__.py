"""JSONata: a language for queries of JSON (docs.jsonata.org, version 2.0), with bounds.

    text --lexer, parser--> nodes --compiler--> functions, which compute with `values` by `operators` and `library`; `search` is what SQL calls

Not there: `%`, `@` and `#` in paths, transformations, and functions for what depends on the machine ($random, $shuffle), evaluates text ($eval), or formats and
encodes ($formatNumber, $formatBase, $base64encode, $encodeUrl and their like).
"""
