/* What is in a document: its operations and fragments, found by their brackets, so that a document that is being written has an outline, too. */

import {tokensOf} from "./tokens.js"

const OPERATIONS = new Set(["query", "mutation", "subscription"])

/** {operations: [{kind, name, start, end, variables: [names]}], fragments: [{name, on}]}; `name` is "" for an operation without one. */
export function outlineOf(text) {
  const outline = {operations: [], fragments: []}
  let definition = null // the one that is open
  let depth = 0
  let before = ""
  for (const token of tokensOf(text)) {
    if (token.kind === "comment") continue
    if (depth === 0 && definition === null) {
      const isFragment = token.text === "fragment"
      if (!isFragment && !OPERATIONS.has(token.text) && token.text !== "{") continue
      definition = {kind: isFragment ? "fragment" : token.text === "{" ? "query" : token.text, name: "", on: "", start: token.start, end: token.end, variables: []}
      if (isFragment) outline.fragments.push(definition)
      else outline.operations.push(definition)
    } else if (depth === 0 && token.kind === "name") {
      if (before === "on") definition.on = token.text
      else if (before === definition.kind) definition.name = token.text
    } else if (depth === 1 && token.kind === "variable" && definition && !definition.isSelecting) {
      if (!definition.variables.includes(token.text.slice(1))) definition.variables.push(token.text.slice(1))
    }
    if (definition) definition.end = token.end
    if (token.text === "{" && depth === 0) definition.isSelecting = true
    if (token.kind === "punctuator" && "{([".includes(token.text)) depth += 1
    if (token.kind === "punctuator" && "})]".includes(token.text)) {
      depth = Math.max(0, depth - 1)
      if (depth === 0 && token.text === "}" && definition?.isSelecting) definition = null
    }
    before = token.text
  }
  return outline
}

/** The operation that a place in the document belongs to, else the first; null without any. */
export function operationAt({operations}, position) {
  return operations.find(({start, end}) => start <= position && position <= end) ?? operations[0] ?? null
}
