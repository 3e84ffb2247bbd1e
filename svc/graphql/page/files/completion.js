/* What may stand at a place of a document. The tokens before it are walked with a stack of what is open: a document that is not finished has that, too. */

import {outlineOf, operationAt} from "./outline.js"
import {rank, typeText} from "./schema.js"
import {tokensOf} from "./tokens.js"

const MOST = 100 // suggestions
const WORDS = new Set(["name", "variable", "directive", "spread"])
const QUIET = new Set(["string", "block", "comment", "number"])

/** {start, end, items: [{label, insert, detail, description}]}: `insert` replaces what is between the places. `schema`: null if it is not known. */
export function completionsAt(text, position, schema) {
  const tokens = tokensOf(text)
  const touched = tokens.find((token) => token.start < position && position <= token.end)
  if (touched && QUIET.has(touched.kind) && (position < touched.end || touched.kind !== "string" || !isClosed(touched))) {
    return {start: position, end: position, items: []}
  }
  const word = touched && WORDS.has(touched.kind) && touched.kind !== "spread" ? touched : null
  const start = word ? word.start : position
  const typed = text.slice(start, position)
  const walk = new Walk(schema)
  tokens.forEach((token, index) => {
    if (token.end <= start && token.kind !== "comment") walk.take(token, tokens[index + 1])
  })
  const offered = new Offers(walk, outlineOf(text), position, schema).of(typed)
  return {start, end: word ? word.end : position, items: fitting(offered, typed)}
}

function isClosed({text}) {
  return text.length > 1 && text.endsWith('"')
}

function fitting(items, typed) {
  const wanted = typed.toLowerCase()
  return items
    .map((item) => ({item, rank: rank(item.label, wanted)}))
    .filter((each) => each.rank < 2)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MOST)
    .map((each) => each.item)
}

/** The open brackets and what they are about. Frames have a `kind`: "document", "selection", "arguments", "variables", "object", "list". */
class Walk {
  constructor(schema) {
    this.schema = schema
    this.frames = [{kind: "document"}]
    this.before = ""
  }

  get frame() {
    return this.frames.at(-1)
  }

  take(token, following) {
    if (token.text === "}" || token.text === ")" || token.text === "]") this.close(token.text)
    else if (token.text === "{" || token.text === "(" || token.text === "[") this.open(token.text)
    else this[this.frame.kind](token, following)
    this.before = token.text
  }

  close(mark) {
    const closed = this.frames.length > 1 ? this.frames.pop() : this.frame
    const {frame} = this
    if (frame.kind === "document" && mark === "}") this.frames = [{kind: "document"}]
    else if (closed.kind === "selection") Object.assign(frame, {field: undefined, spread: "", on: ""})
    else if (frame.kind === "arguments" || frame.kind === "object" || frame.kind === "variables") Object.assign(frame, {isValue: false, isType: false})
  }

  open(mark) {
    const {frame} = this
    if (frame.kind === "document") {
      if (mark === "{") this.frames.push({kind: "selection", type: this.rootType(frame)})
      else this.frames.push({kind: mark === "(" && frame.directive ? "arguments" : "variables", known: this.directiveArguments(frame), given: new Set()})
    } else if (frame.kind === "selection") {
      if (mark === "(") {
        const known = frame.directive ? this.directiveArguments(frame) : frame.field?.args ?? []
        this.frames.push({kind: "arguments", known, given: new Set()})
      } else this.frames.push({kind: "selection", type: this.selectedType(frame)})
    } else if (mark === "[") this.frames.push({kind: "list", type: this.valueType(frame)})
    else this.frames.push({kind: mark === "(" ? "arguments" : "object", known: this.valueType(frame)?.inputFields ?? [], given: new Set()})
  }

  rootType({definition, on}) {
    if (definition === "fragment") return this.schema?.types.get(on)
    return this.schema?.roots.get(definition ?? "query")
  }

  selectedType({type, field, spread, on}) {
    if (spread === "on") return this.schema?.types.get(on)
    return spread === "..." ? type : this.schema?.named(field?.type)
  }

  directiveArguments({directive}) {
    return this.schema?.directives.get(directive)?.args ?? []
  }

  /** The type of the value that is expected in a frame. */
  valueType(frame) {
    return frame.kind === "list" ? frame.type : this.schema?.named(frame.argument?.type)
  }

  document({text, kind}) {
    const {frame} = this
    if (kind === "directive") frame.directive = text.slice(1)
    else if (frame.definition === undefined) frame.definition = text
    else if (this.before === "on") frame.on = text
    else frame.isNamed = true
  }

  selection({text, kind}, following) {
    const {frame} = this
    if (kind === "directive") frame.directive = text.slice(1)
    else if (text === "...") Object.assign(frame, {spread: "...", on: "", field: undefined, directive: ""})
    else if (kind !== "name") return
    else if (frame.spread === "..." && this.before === "...") frame.spread = text === "on" ? "on" : ""
    else if (frame.spread === "on" && this.before === "on") frame.on = text
    else if (following?.text !== ":") Object.assign(frame, {field: this.schema?.field(frame.type, text), spread: "", directive: ""})
  }

  arguments({text, kind}, following) {
    const {frame} = this
    if (text === ":") frame.isValue = true
    else if (kind === "name" && following?.text === ":") {
      Object.assign(frame, {argument: frame.known.find(({name}) => name === text), isValue: false})
      frame.given.add(text)
    } else frame.isValue = false
  }

  object(token, following) {
    this.arguments(token, following)
  }

  variables({text, kind}) {
    const {frame} = this
    if (text === ":") frame.isType = true
    else if (kind === "variable") frame.isType = false
    else if (text === "=") Object.assign(frame, {isType: false, isValue: true})
    else Object.assign(frame, {isType: false, isValue: false})
  }

  list() {}
}

/** Suggestions for the place where a walk has ended. */
class Offers {
  constructor(walk, outline, position, schema) {
    this.walk = walk
    this.frame = walk.frame
    this.outline = outline
    this.position = position
    this.schema = schema
  }

  of(typed) {
    if (typed.startsWith("@")) return this.directives()
    return this[this.frame.kind](typed)
  }

  document() {
    const {frame, walk} = this
    if (frame.definition === "fragment") {
      if (walk.before === "on") return this.types(this.schema?.compositeTypes() ?? [])
      return frame.isNamed && !frame.on ? [word("on")] : []
    }
    if (frame.definition !== undefined) return []
    const kinds = this.schema ? ["query", ...["mutation", "subscription"].filter((kind) => this.schema.roots.has(kind))] : ["query"]
    return [...kinds, "fragment"].map(word)
  }

  selection() {
    const {frame, walk} = this
    if (walk.before === "...") return [word("on"), ...this.outline.fragments.filter(({name}) => name).map(({name, on}) => ({label: name, insert: name, detail: on}))]
    if (walk.before === "on" && frame.spread === "on") return this.types(this.schema?.compositeTypes() ?? [])
    return (this.schema?.fieldsOf(frame.type) ?? []).map((field) => ({
      label: field.name,
      insert: field.name,
      detail: typeText(field.type),
      description: field.isDeprecated ? `Deprecated: ${field.deprecationReason ?? ""}` : field.description,
    }))
  }

  arguments(typed) {
    const {frame} = this
    if (frame.isValue || typed.startsWith("$")) return this.values(this.walk.valueType(frame))
    return frame.known
      .filter(({name}) => !frame.given.has(name))
      .map(({name, type, description}) => ({label: name, insert: `${name}: `, detail: typeText(type), description}))
  }

  object(typed) {
    return this.arguments(typed)
  }

  list() {
    return this.walk.frames.at(-2)?.isType ? this.types(this.schema?.inputTypes() ?? []) : this.values(this.frame.type)
  }

  variables() {
    if (this.frame.isType) return this.types(this.schema?.inputTypes() ?? [])
    return this.frame.isValue ? ["true", "false", "null"].map(word) : []
  }

  values(type) {
    const variables = operationAt(this.outline, this.position)?.variables ?? []
    const enumeration = (type?.enumValues ?? []).map(({name, description}) => ({label: name, insert: name, detail: type.name, description}))
    const literals = !type || type.name === "Boolean" || type.kind === "SCALAR" ? ["true", "false", "null"] : ["null"]
    return [...enumeration, ...variables.map((name) => ({label: `$${name}`, insert: `$${name}`, detail: "variable"})), ...literals.map(word)]
  }

  directives() {
    return [...(this.schema?.directives.values() ?? [])].map(({name, description}) => ({label: `@${name}`, insert: `@${name}`, description}))
  }

  types(types) {
    return types.map(({name, kind, description}) => ({label: name, insert: name, detail: kind.toLowerCase().replace("_", " "), description}))
  }
}

function word(text) {
  return {label: text, insert: text, detail: ""}
}
