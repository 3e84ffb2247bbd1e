/* The documentation explorer: types, their fields and arguments, and a search over all names. */

import {byId, element} from "./elements.js"
import {typeText} from "./schema.js"

const MOST_FOUND = 100

export class Docs {
  constructor() {
    this.schema = null
    this.path = [] // names of types, the last one shown
    this.reason = "The schema has not been read yet."
    byId("docs-search").addEventListener("input", () => this.show())
  }

  /** `schema`: null if there is none; `reason` says why. */
  set(schema, reason = "") {
    this.schema = schema
    this.reason = reason
    this.path = []
    this.show()
  }

  open(name) {
    this.path.push(name)
    byId("docs-search").value = ""
    this.show()
    byId("docs-content").focus()
  }

  show() {
    const words = byId("docs-search").value
    byId("docs-path").replaceChildren(...(this.schema ? this.steps() : []))
    byId("docs-content").replaceChildren(...this.content(words))
  }

  steps() {
    return ["Schema", ...this.path].map((name, index) => element("button", {
      class: "step",
      "aria-current": index === this.path.length && "page",
      onclick: () => {
        this.path.length = index
        this.show()
      },
    }, name))
  }

  content(words) {
    if (!this.schema) return [element("p", {class: "note"}, this.reason)]
    if (words.trim()) return this.found(words)
    const type = this.schema.types.get(this.path.at(-1))
    return type ? this.typePage(type) : this.start()
  }

  found(words) {
    const found = this.schema.search(words, MOST_FOUND)
    if (!found.length) return [element("p", {class: "note"}, "Nothing has such a name.")]
    return [
      element("ul", {}, ...found.map(({type, field}) => element("li", {}, this.typeButton(type.name), field ? `.${field.name}` : ""))),
      found.length === MOST_FOUND && element("p", {class: "note"}, `These are the first ${MOST_FOUND}.`),
    ].filter(Boolean)
  }

  start() {
    const roots = [...this.schema.roots].map(([kind, type]) => element("li", {}, `${kind}: `, this.typeButton(type.name)))
    const others = [...this.schema.types.values()].filter(({name}) => !name.startsWith("__")).sort((a, b) => a.name.localeCompare(b.name))
    return [
      element("h2", {}, "Operations"), element("ul", {}, ...roots),
      element("h2", {}, "Types"), element("ul", {}, ...others.map(({name}) => element("li", {}, this.typeButton(name)))),
    ]
  }

  typePage(type) {
    const parts = [element("h2", {}, type.name, " ", element("small", {}, type.kind.toLowerCase().replace("_", " ")))]
    if (type.description) parts.push(element("p", {class: "description"}, type.description))
    this.list(parts, "Fields", type.fields, (field) => this.field(field))
    this.list(parts, "Fields", type.inputFields, (field) => this.field(field))
    this.list(parts, "Values", type.enumValues, (value) => element("li", {}, value.name, this.description(value)))
    this.list(parts, "Possible types", type.possibleTypes, ({name}) => element("li", {}, this.typeButton(name)))
    this.list(parts, "Interfaces", type.interfaces, ({name}) => element("li", {}, this.typeButton(name)))
    return parts
  }

  list(parts, title, members, show) {
    if (members?.length) parts.push(element("h3", {}, title), element("ul", {class: "fields"}, ...members.map(show)))
  }

  field(field) {
    return element("li", {},
      element("code", {class: "t-field"}, field.name), ": ", this.typeLink(field.type), field.defaultValue ? ` = ${field.defaultValue}` : "",
      this.description(field),
      field.args?.length ? element("details", {},
        element("summary", {}, `${field.args.length} ${field.args.length === 1 ? "argument" : "arguments"}`),
        element("ul", {class: "fields"}, ...field.args.map((argument) => this.field(argument)))) : null)
  }

  description({description, isDeprecated, deprecationReason}) {
    const text = [isDeprecated ? `Deprecated. ${deprecationReason ?? ""}` : "", description ?? ""].filter(Boolean).join(" ")
    return text && element("div", {class: "description"}, text)
  }

  typeLink(reference) {
    const name = this.schema.named(reference)?.name
    const text = typeText(reference)
    return name ? this.typeButton(name, text) : text
  }

  typeButton(name, text = name) {
    return element("button", {class: "type", onclick: () => this.open(name)}, text)
  }
}
