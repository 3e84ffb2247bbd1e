/* The page: what its parts have to do with each other. */

import {completionsAt} from "./completion.js"
import {Docs} from "./docs.js"
import {Editor} from "./editor.js"
import {byId, copy, element} from "./elements.js"
import {formatted} from "./format.js"
import {fromFragment, toFragment, History} from "./history.js"
import {indentedJson, offsetOf, readJson, styledJson} from "./json.js"
import {login} from "./login.js"
import {operationAt, outlineOf} from "./outline.js"
import {headersOf, nameIn, send} from "./requests.js"
import {Running} from "./running.js"
import {INTROSPECTION, Schema} from "./schema.js"
import {styled} from "./tokens.js"

const KEPT_HEADERS = "svc.graphql.headers" // in the storage of the tab, if the user wants it
const EXAMPLE = `# Ctrl+Enter runs the query, Ctrl+Space suggests what may stand here.
# "Docs" shows what there is to ask for.

{
  __typename
}
`
const SIDES = ["docs", "history", "login"]

const history = new History(storageNamed("localStorage"))
const docs = new Docs()
const running = new Running(answered)
let schema = null

const query = new Editor(byId("query"), {label: "Query", styled, complete: (text, position) => completionsAt(text, position, schema)})
const variables = new Editor(byId("variables"), {label: "Variables, a JSON object", styled: styledJson})
const headers = new Editor(byId("headers"), {label: "Header fields, a JSON object", styled: styledJson})

// --- the request ---------------------------------------------------------------------------------------------------------------------

/** The tree of a JSON editor, null for an empty one; undefined if it has a fault, which is shown. */
function jsonOf(editor, note) {
  const text = editor.text
  const {tree, fault} = text.trim() ? readJson(text) : {tree: null}
  editor.show(fault ? [fault] : [])
  const message = fault ? `${fault.line}:${fault.column} ${fault.message}` : ""
  note.textContent = tree && tree.kind !== "object" ? "A JSON object is expected" : message
  return fault || note.textContent ? undefined : tree
}

function currentHeaders() {
  const tree = jsonOf(headers, byId("headers-fault"))
  if (tree === undefined) return null
  const {headers: fields, fault = ""} = headersOf(tree)
  byId("headers-fault").textContent = fault
  return fields ?? null
}

function chosenOperation() {
  const {operations} = outlineOf(query.text)
  if (operations.length < 2) return operations[0] ?? null
  return operations.find(({name}) => name === byId("operation").value) ?? operationAt({operations}, query.position)
}

function currentRequest() {
  const {operations} = outlineOf(query.text)
  return {query: query.text, variables: variables.text, operationName: operations.length > 1 ? chosenOperation().name : ""}
}

function run() {
  const fields = currentHeaders()
  const given = jsonOf(variables, byId("variables-fault"))
  if (fields === null) selectTab("headers")
  else if (given === undefined) selectTab("variables")
  if (fields === null || given === undefined) return
  query.suggestions.close()
  const request = currentRequest()
  history.add(request)
  showHistory()
  problems([])
  running.run(request, fields, chosenOperation()?.kind)
}

function answered(answer, errors) {
  problems(errors)
  if (answer) showUser(answer)
}

/** Lists errors that have a place in the query, and marks them there. */
function problems(errors) {
  const placed = errors.flatMap(({message, locations}) => locations.map((place) => ({message, ...place, offset: offsetOf(query.text, place)})))
  query.show(placed)
  byId("problems").replaceChildren(...placed.map(({message, line, column, offset}) => element(
    "button", {class: "problem", onclick: () => query.focusAt(offset)}, `${line}:${column} ${message}`,
  )))
}

function showUser({status, isPersonal}) {
  const name = nameIn(currentHeaders() ?? {})
  if (status === 401) {
    byId("who").textContent = name ? `The login of ${name} was refused.` : "Not logged in: use Log in, or an Authorization field under Headers."
  } else if (name) byId("who").textContent = `Asking as ${name}, by the Authorization field.`
  else byId("who").textContent = isPersonal ? "Logged in by this browser." : ""
}

// --- the schema ----------------------------------------------------------------------------------------------------------------------

async function readSchema() {
  const fields = currentHeaders() ?? {}
  try {
    const answer = await send({query: INTROSPECTION}, fields)
    showUser(answer)
    const described = JSON.parse(answer.text).data?.__schema
    schema = described ? new Schema(described) : null
    docs.set(schema, schema ? "" : reasonOf(answer))
  } catch (error) {
    schema = null
    docs.set(null, `The schema cannot be read: ${error.message}`)
  }
}

function reasonOf({status, text}) {
  if (status === 401) return "The schema is shown to those who are logged in."
  return JSON.parse(text).errors?.[0]?.message ?? `The schema cannot be read: status ${status}.`
}

// --- controls ------------------------------------------------------------------------------------------------------------------------

function showOperations() {
  const names = outlineOf(query.text).operations.map(({name}) => name)
  const select = byId("operation")
  const chosen = select.value
  byId("operation-label").hidden = names.length < 2
  select.replaceChildren(...names.map((name) => element("option", {value: name, selected: name === chosen}, name || "(no name)")))
}

function prettify() {
  const text = formatted(query.text)
  if (text !== null && text !== query.text) query.replace(text)
  const written = indentedJson(variables.text)
  if (written !== null && written !== variables.text) variables.replace(written)
  query.area.focus()
}

async function share() {
  window.history.replaceState(null, "", toFragment(currentRequest()))
  note(byId("share"), (await copy(window.location.href)) ? "Copied" : "It is in the address bar")
}

function note(button, text) {
  const before = button.dataset.text ?? button.textContent
  button.dataset.text = before
  button.textContent = text
  setTimeout(() => (button.textContent = before), 2000)
}

function load(request) {
  query.text = request.query
  variables.text = request.variables
  showOperations()
  byId("operation").value = request.operationName
  problems([])
}

function showHistory() {
  byId("history-list").replaceChildren(...history.find(byId("history-search").value).map((entry) => element("li", {},
    element("button", {class: "entry", title: entry.query.slice(0, 1000), onclick: () => load(entry)}, titleOf(entry)),
    element("button", {
      "aria-pressed": String(entry.isFavourite), "aria-label": "Favourite",
      onclick: () => changeHistory(() => history.mark(entry, !entry.isFavourite)),
    }, entry.isFavourite ? "★" : "☆"),
    element("button", {"aria-label": "Forget", onclick: () => changeHistory(() => history.remove(entry))}, "×"),
  )))
}

function changeHistory(change) {
  change()
  showHistory()
}

function titleOf({query: text, operationName}) {
  return operationName || text.replace(/^\s*#.*$/gm, "").replace(/\s+/g, " ").trim().slice(0, 80) || "(empty)"
}

function toggleSide(name) {
  for (const side of SIDES) {
    const isShown = side === name && byId(side).hidden
    byId(side).hidden = !isShown
    byId(`show-${side}`).setAttribute("aria-expanded", String(isShown))
    if (isShown) byId(side).querySelector("input").focus()
  }
}

function selectTab(name, isFocused = false) {
  for (const each of ["variables", "headers"]) {
    const isChosen = each === name
    byId(`${each}-tab`).setAttribute("aria-selected", String(isChosen))
    byId(`${each}-tab`).tabIndex = isChosen ? 0 : -1
    byId(`${each}-panel`).hidden = !isChosen
  }
  if (isFocused) byId(`${name}-tab`).focus()
}

function keepHeaders() {
  try {
    if (byId("keep-headers").checked) window.sessionStorage.setItem(KEPT_HEADERS, headers.text)
    else window.sessionStorage.removeItem(KEPT_HEADERS)
  } catch {
    byId("keep-headers").checked = false // the browser keeps nothing
  }
}

function listen() {
  byId("run").addEventListener("click", () => (running.isBusy ? running.cancel() : run()))
  byId("prettify").addEventListener("click", prettify)
  byId("share").addEventListener("click", share)
  byId("history-search").addEventListener("input", showHistory)
  byId("history-clear").addEventListener("click", () => changeHistory(() => history.clear()))
  byId("keep-headers").addEventListener("change", keepHeaders)
  for (const side of SIDES) byId(`show-${side}`).addEventListener("click", () => toggleSide(side))
  for (const [name, other] of [["variables", "headers"], ["headers", "variables"]]) {
    byId(`${name}-tab`).addEventListener("click", () => selectTab(name))
    byId(`${name}-tab`).addEventListener("keydown", ({key}) => (key === "ArrowLeft" || key === "ArrowRight") && selectTab(other, true))
  }
  query.addEventListener("change", () => {
    byId("problems").replaceChildren()
    showOperations()
    history.draft = currentRequest()
  })
  variables.addEventListener("change", () => {
    jsonOf(variables, byId("variables-fault"))
    history.draft = currentRequest()
  })
  headers.addEventListener("change", () => {
    currentHeaders()
    keepHeaders()
  })
  headers.area.addEventListener("change", readSchema) // when the field is left
  window.addEventListener("hashchange", () => {
    const request = fromFragment(window.location.hash)
    if (request) load(request)
  })
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      run()
    } else if (event.code === "KeyF" && event.shiftKey && event.altKey) {
      event.preventDefault()
      prettify()
    }
  })
}

function start() {
  headers.text = storageNamed("sessionStorage")?.getItem(KEPT_HEADERS) ?? ""
  byId("keep-headers").checked = headers.text !== ""
  listen()
  login(readSchema)
  load(fromFragment(window.location.hash) ?? history.draft ?? {query: EXAMPLE, variables: "", operationName: ""})
  showHistory()
  readSchema()
}

/** A storage of the browser; null if it is switched off. */
function storageNamed(name) {
  try {
    return window[name]
  } catch {
    return null
  }
}

start()
