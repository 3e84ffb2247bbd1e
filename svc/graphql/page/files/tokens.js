/* The tokens of a GraphQL document (GraphQL October 2021, section 2.1), for colours, completion and the formatter.

   It never fails: a character that begins no token is one of the kind "unknown", and a string that does not end reaches to the end of its line, or of
   the document. Spaces and commas are left out. */

const PATTERNS = [
  ["name", /[_A-Za-z]\w*/y],
  ["spread", /\.\.\./y],
  ["punctuator", /[!&()[\]{}:=|]/y],
  ["variable", /\$\w*/y],
  ["number", /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y],
  ["string", /"(?:\\.|[^"\\\r\n])*"?/y],
  ["comment", /#[^\r\n]*/y],
  ["directive", /@\w*/y],
]
const IGNORED = /[\s,\uFEFF]+/y
const KEYWORDS = new Set(["query", "mutation", "subscription", "fragment"])
const LITERALS = new Set(["true", "false", "null"])

/** [{kind, text, start, end}]; `end` is the place after the token. */
export function tokensOf(text) {
  const found = []
  let position = 0
  while (position < text.length) {
    IGNORED.lastIndex = position
    if (IGNORED.test(text)) {
      position = IGNORED.lastIndex
      continue
    }
    const [kind, end] = tokenAt(text, position)
    found.push({kind, text: text.slice(position, end), start: position, end})
    position = end
  }
  return found
}

function tokenAt(text, position) {
  if (text.startsWith('"""', position)) return ["block", endOfBlock(text, position + 3)]
  for (const [kind, pattern] of PATTERNS) {
    pattern.lastIndex = position
    if (pattern.test(text)) return [kind, pattern.lastIndex]
  }
  return ["unknown", position + (text.codePointAt(position) > 0xffff ? 2 : 1)]
}

function endOfBlock(text, position) {
  for (;;) {
    const end = text.indexOf('"""', position)
    if (end < 0) return text.length
    if (text[end - 1] !== "\\") return end + 3
    position = end + 3
  }
}

/** The same tokens, each with a `style`: what the editor shows it as. */
export function styled(text) {
  const tokens = tokensOf(text)
  const open = []
  tokens.forEach((token, index) => {
    if (token.text === "{" || token.text === "(" || token.text === "[") open.push(token.text)
    else if (token.text === "}" || token.text === ")" || token.text === "]") open.pop()
    token.style = token.kind === "name" ? nameStyle(tokens, index, open) : token.kind
  })
  return tokens
}

function nameStyle(tokens, index, open) {
  const {text} = tokens[index]
  const before = tokens[index - 1]?.text
  if (!open.length) {
    if (KEYWORDS.has(text) && (before === undefined || before === "}")) return "keyword"
    if (text === "on" && tokens[index - 2]?.text === "fragment") return "keyword"
    return before === "on" ? "type" : "definition"
  }
  if (open.includes("(")) {
    if (tokens[index + 1]?.text === ":") return "argument"
    return LITERALS.has(text) ? "literal" : /^[A-Z]/.test(text) ? "type" : "enum"
  }
  if (before === "..." && text === "on") return "keyword"
  if (before === "on" && tokens[index - 2]?.text === "...") return "type"
  return before === "..." ? "definition" : "field"
}
