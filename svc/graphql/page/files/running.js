/* What runs: one operation at a time, its result on the page, and cancelling it. */

import {byId, copy, element} from "./elements.js"
import {indentedJson, readJson} from "./json.js"
import {follow, send} from "./requests.js"
import {resultElement} from "./result.js"

const MOST_EVENTS = 200 // results of a subscription that stay on the page

export class Running {
  /** `answered(answer, errors)` is called for each answer; `errors`: [{message, locations: [{line, column}]}]. */
  constructor(answered) {
    this.answered = answered
    this.controller = null
  }

  get isBusy() {
    return this.controller !== null
  }

  cancel() {
    this.controller?.abort()
  }

  /** Sends a request: {query, variables, operationName}; `kind`: of its operation. */
  async run(request, headers, kind) {
    this.cancel()
    const controller = new AbortController()
    this.controller = controller
    this.busy(true)
    byId("result").replaceChildren()
    say("Waiting for the answer …")
    try {
      if (kind === "subscription") await this.followed(request, headers, controller)
      else this.show(await send(request, headers, controller.signal))
    } catch (error) {
      if (this.controller === controller) say(controller.signal.aborted ? "Stopped." : `No answer: ${error.message}`)
    } finally {
      if (this.controller === controller) {
        this.controller = null
        this.busy(false)
      }
    }
  }

  async followed(request, headers, controller) {
    const list = element("ol", {class: "events", reversed: true})
    let count = 0
    byId("result").replaceChildren(list)
    const answer = await follow(request, headers, controller.signal, ({text}) => {
      if (this.controller !== controller) return
      count += 1
      list.prepend(element("li", {value: count}, element("time", {}, new Date().toLocaleTimeString()), resultElement(text)))
      if (list.children.length > MOST_EVENTS) list.lastChild.remove()
      this.answered(null, errorsIn(text))
      say(`${count} ${count === 1 ? "result" : "results"}. It goes on until it is stopped.`)
    })
    if (answer) this.show(answer)
    else say(`The subscription has ended after ${count} ${count === 1 ? "result" : "results"}.`)
  }

  show(answer) {
    const parts = [`Status ${answer.status}`, `${answer.milliseconds.toFixed(0)} ms`, sizeText(answer.bytes)]
    if (answer.timing) parts.push(`server: ${answer.timing}`)
    say(parts.join(" · "), answer.status >= 400)
    const copied = element("button", {
      class: "copy",
      onclick: async () => {
        copied.textContent = (await copy(indentedJson(answer.text) ?? answer.text)) ? "Copied" : "The browser does not allow it"
      },
    }, "Copy")
    byId("result").replaceChildren(copied, resultElement(answer.text))
    this.answered(answer, errorsIn(answer.text))
  }

  busy(isBusy) {
    byId("run").textContent = isBusy ? "Stop" : "Run"
    byId("result").setAttribute("aria-busy", String(isBusy))
  }
}

function say(text, isFault = false) {
  byId("status").textContent = text
  byId("status").classList.toggle("fault", isFault)
}

export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} B`
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`
}

/** The errors of an answer: [{message, locations: [{line, column}]}]. */
export function errorsIn(text) {
  const {tree} = readJson(text)
  if (member(tree, "errors")?.kind !== "array") return []
  return member(tree, "errors").items.map((error) => ({
    message: member(error, "message")?.value ?? "",
    locations: (member(error, "locations")?.items ?? [])
      .map((place) => ({line: Number(member(place, "line")?.text), column: Number(member(place, "column")?.text)}))
      .filter(({line, column}) => line > 0 && column > 0),
  }))
}

function member(tree, name) {
  return tree?.kind === "object" ? tree.entries.find(([key]) => key === name)?.[1] : undefined
}
