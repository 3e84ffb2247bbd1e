/* JSON with its places: faults have a line and a column, and numbers keep all their digits, which those of JavaScript do not. */

const TOKEN = /[ \t\r\n]*(?:([{}[\]:,])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)(?!\w))/y
const PIECE = /("(?:[^"\\\r\n]|\\.)*"?)(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)\b|[{}[\]:,]|\S/g
const VALUE = "a value"

/** {tree} or {fault: {message, offset, line, column}}.

    A tree: {kind: "object", entries: [[key, tree], ...]}, {kind: "array", items: [...]}, {kind: "string", value}, {kind: "number" | "literal", text}.
    The depth is bounded by memory only: there is no recursion. */
export function readJson(text) {
  const open = []
  let expected = VALUE
  let key = ""
  let tree = null
  let position = 0
  const fault = (message, offset) => ({fault: {message, offset, ...placeOf(text, offset)}})
  const place = (value) => {
    const around = open.at(-1)
    if (!around) tree = value
    else if (around.kind === "object") around.entries.push([key, value])
    else around.items.push(value)
  }
  for (;;) {
    const start = skipSpace(text, position)
    if (start >= text.length) return tree && !open.length ? {tree} : fault(`The end, where ${expected} is expected`, start)
    TOKEN.lastIndex = position
    const match = TOKEN.exec(text)
    if (!match) return fault(`No JSON: ${expected} is expected`, start)
    position = TOKEN.lastIndex
    const [, mark, string, number, literal] = match
    const around = open.at(-1)
    if (tree && !open.length) return fault("Only one value is expected", start)
    if (mark === "}" || mark === "]") {
      if (!around || (mark === "}") !== (around.kind === "object")) return fault(`No JSON: ${expected} is expected`, start)
      const isEmpty = mark === "}" ? !around.entries.length : !around.items.length
      if (!expected.includes(mark) || (expected.startsWith(VALUE) && !isEmpty)) return fault(`No JSON: ${expected} is expected`, start)
      open.pop()
      expected = afterValue(open)
    } else if (mark === "{" || mark === "[") {
      if (!expected.startsWith(VALUE)) return fault(`No JSON: ${expected} is expected`, start)
      const value = mark === "{" ? {kind: "object", entries: []} : {kind: "array", items: []}
      place(value)
      open.push(value)
      expected = mark === "{" ? "a name in quotation marks, or }" : `${VALUE}, or ]`
    } else if (mark === ",") {
      if (!expected.startsWith(",")) return fault(`No JSON: ${expected} is expected`, start)
      expected = around.kind === "object" ? "a name in quotation marks" : VALUE
    } else if (mark === ":") {
      if (expected !== ":") return fault(`No JSON: ${expected} is expected`, start)
      expected = VALUE
    } else if (string !== undefined && expected.startsWith("a name")) {
      key = JSON.parse(string)
      expected = ":"
    } else {
      if (!expected.startsWith(VALUE)) return fault(`No JSON: ${expected} is expected`, start)
      if (string !== undefined) place({kind: "string", value: JSON.parse(string)})
      else place(number !== undefined ? {kind: "number", text: number} : {kind: "literal", text: literal})
      expected = afterValue(open)
    }
  }
}

function afterValue(open) {
  if (!open.length) return "the end"
  return open.at(-1).kind === "object" ? ", or }" : ", or ]"
}

function skipSpace(text, position) {
  while (position < text.length && " \t\r\n".includes(text[position])) position += 1
  return position
}

/** Line and column, from 1, of a place in a string. */
export function placeOf(text, offset) {
  let line = 1
  let start = 0
  for (let end = text.indexOf("\n"); end >= 0 && end < offset; end = text.indexOf("\n", end + 1)) {
    line += 1
    start = end + 1
  }
  return {line, column: offset - start + 1}
}

/** The place of a line and a column; the end of what is there for one beyond it. */
export function offsetOf(text, {line, column}) {
  let start = 0
  for (let count = 1; count < line; count += 1) {
    const end = text.indexOf("\n", start)
    if (end < 0) return text.length
    start = end + 1
  }
  return Math.min(start + column - 1, text.length)
}

/** What an editor shows: [{text, start, end, style}]. */
export function styledJson(text) {
  const found = []
  for (const match of text.matchAll(PIECE)) {
    const [piece, string, colon, number, literal] = match
    const start = match.index
    if (string !== undefined) found.push({start, end: start + string.length, style: colon === undefined ? "string" : "argument"})
    else found.push({start, end: start + piece.length, style: number !== undefined ? "number" : literal !== undefined ? "literal" : "punctuator"})
  }
  return found
}

/** A JSON text in the usual lines, its strings and numbers as they are; null if it is no JSON. */
export function indentedJson(text) {
  if (readJson(text).fault) return null
  const out = []
  let indent = "\n"
  let before = ""
  for (TOKEN.lastIndex = 0; ; ) {
    const match = TOKEN.exec(text)
    if (!match) return out.join("")
    const token = match[0].trimStart()
    const isClosing = token === "}" || token === "]"
    if (isClosing) indent = indent.slice(0, -2)
    if (before === "," || (isOpening(before) && !isClosing) || (isClosing && !isOpening(before))) out.push(indent)
    out.push(token === ":" ? ": " : token)
    if (isOpening(token)) indent += "  "
    before = token
  }
}

function isOpening(token) {
  return token === "{" || token === "["
}

/** How a value is written that shows no others. */
export function scalarText(node) {
  if (node.kind === "object") return "{}"
  if (node.kind === "array") return "[]"
  return node.kind === "string" ? JSON.stringify(node.value) : node.text
}
