/* Writes a document with the usual line breaks and two spaces for each level. It works on tokens: comments stay, and so does what is not understood. */

import {tokensOf} from "./tokens.js"

const INDENT = "  "
const CLOSING = {"{": "}", "(": ")", "[": "]"}

/** The document in its usual form; null if its brackets do not match, or something in it is no token. */
export function formatted(text) {
  const tokens = tokensOf(text)
  const open = []
  for (const token of tokens) {
    if (token.kind === "unknown" || isUnfinished(token)) return null
    if (token.kind !== "punctuator") continue
    if (token.text in CLOSING) open.push(token.text)
    else if ("})]".includes(token.text) && CLOSING[open.pop()] !== token.text) return null
  }
  return open.length ? null : new Printer(text, tokens).print()
}

function isUnfinished({kind, text}) {
  if (kind === "string") return text.length < 2 || !text.endsWith('"')
  return kind === "block" && (text.length < 6 || !text.endsWith('"""'))
}

/** `levels`: what each open bracket holds: "selection", "arguments", "object", "list". */
class Printer {
  constructor(text, tokens) {
    this.text = text
    this.tokens = tokens
    this.out = ""
    this.levels = []
  }

  print() {
    let before = null
    this.tokens.forEach((token, index) => {
      if ("})]".includes(token.text) && token.kind === "punctuator") {
        const level = this.levels.pop()
        if (level === "selection" || before.kind === "comment") this.line()
      } else if (before) {
        this.separate(before, token, index)
      }
      this.out += token.kind === "comment" ? token.text.trimEnd() : token.text
      this.enter(token)
      before = token
    })
    return this.out ? this.out + "\n" : ""
  }

  get level() {
    return this.levels.at(-1) ?? "document"
  }

  line(count = 1) {
    this.out += "\n".repeat(count) + INDENT.repeat(this.levels.length)
  }

  enter({kind, text}) {
    if (kind !== "punctuator" || !(text in CLOSING)) return
    if (text === "(") this.levels.push("arguments")
    else if (text === "[") this.levels.push("list")
    else this.levels.push(this.level === "document" || this.level === "selection" ? "selection" : "object")
  }

  /** What stands between two tokens, the second of which closes no bracket. */
  separate(before, token, index) {
    const {level} = this
    if (token.kind === "comment") {
      const isOwnLine = /[\r\n]/.test(this.text.slice(before.end, token.start))
      if (isOwnLine && level === "document" && before.text === "}") this.line(2)
      else if (isOwnLine) this.line()
      else this.out += " "
    } else if (before.kind === "comment") {
      this.line()
    } else if (level === "document") {
      if (before.text === "}") this.line(2)
      else if (token.text !== "(" || isOperation(before)) this.out += " "
    } else if (level === "selection") {
      this.separateInSelection(before, token, index)
    } else {
      this.separateInValue(before, token, index)
    }
  }

  separateInSelection(before, token, index) {
    const twoBefore = this.tokens[index - 2]
    if (token.text === ":" || token.text === "(") return
    if (before.text === "...") {
      if (token.kind !== "name" || token.text === "on") this.out += " "
    } else if (token.text === "{" && before.text !== "{") this.out += " "
    else if (before.text === ":" || token.kind === "directive" || (before.text === "on" && twoBefore?.text === "...")) this.out += " "
    else this.line()
  }

  separateInValue(before, token, index) {
    if (before.text in CLOSING && before.kind === "punctuator") return
    if (token.text === ":" || token.text === "!") return
    if (before.text === ":" || before.text === "=" || token.text === "=" || token.kind === "directive") this.out += " "
    else if (token.text === "(") return
    else if (this.level === "list" || this.tokens[index + 1]?.text === ":") this.out += ", "
    else this.out += " "
  }
}

function isOperation({text}) {
  return text === "query" || text === "mutation" || text === "subscription"
}
