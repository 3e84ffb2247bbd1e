/* Server-sent events from a stream of text (HTML standard, section 9.2), for what EventSource cannot do: POST, and header fields. */

const LINE_END = /\r\n|\n|\r(?!$)/ // a lone CR at the end may be half of CRLF

export class EventReader {
  constructor() {
    this.rest = ""
    this.clear()
  }

  clear() {
    this.type = ""
    this.lines = []
  }

  /** The events that are complete with this part of the stream: [{type, data}]. */
  receive(text) {
    this.rest += text
    const found = []
    const lines = this.rest.split(LINE_END)
    this.rest = lines.pop()
    for (const line of lines) {
      if (line !== "") {
        this.field(line)
      } else {
        if (this.lines.length || this.type) found.push({type: this.type || "message", data: this.lines.join("\n")})
        this.clear()
      }
    }
    return found
  }

  field(line) {
    const colon = line.indexOf(":")
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "")
    if (name === "event") this.type = value
    else if (name === "data") this.lines.push(value)
  }
}
