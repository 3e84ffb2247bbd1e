"""Charts of the console: rows of analytics -> figures of equal spans of time -> series -> a drawing, which a template writes as SVG (spec: console §4).

figures   what rows say of a span       series    figures as lines with a name and a unit
axes      round numbers and times       drawing   lines as coordinates and text
reading   rows by operations of the caller, within a budget; it is the only part that is not pure
"""
