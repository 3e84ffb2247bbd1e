/* Requests to the endpoint. All go to the server of this page. */

import {EventReader} from "./events.js"

const ROOT = new URL("../..", import.meta.url) // of the server, which may be below a path of a proxy
const ADDRESS = new URL("graphql", ROOT)
const RESULT = "application/graphql-response+json, application/json;q=0.9"
const EVENTS = "text/event-stream, application/graphql-response+json;q=0.9, application/json;q=0.8"

/** The body of a request. `variables` is JSON as it was written, so that long numbers keep their digits. */
export function bodyOf({query, variables = "", operationName = ""}) {
  const members = [`"query":${JSON.stringify(query)}`]
  if (operationName) members.push(`"operationName":${JSON.stringify(operationName)}`)
  if (variables.trim()) members.push(`"variables":${variables}`)
  return `{${members.join(",")}}`
}

function post(request, headers, accept, signal) {
  // `X-Requested-With`: a 401 comes without the dialog of the browser, which would cover the page that explains it.
  const fields = new Headers({"X-Requested-With": "GraphQL page", ...headers, "Content-Type": "application/json", Accept: accept})
  return fetch(ADDRESS, {method: "POST", body: bodyOf(request), headers: fields, signal, mode: "same-origin", cache: "no-store"})
}

/** {status, text, milliseconds, bytes, type, timing, isPersonal}: what came back. Rejects with AbortError, or TypeError if the server cannot be reached. */
export async function send(request, headers, signal) {
  const began = performance.now()
  return answerOf(await post(request, headers, RESULT, signal), began)
}

async function answerOf(response, began) {
  const content = await response.arrayBuffer()
  return {
    status: response.status,
    text: new TextDecoder().decode(content),
    milliseconds: performance.now() - began,
    bytes: content.byteLength,
    type: response.headers.get("Content-Type") ?? "",
    timing: response.headers.get("Server-Timing") ?? "",
    isPersonal: /\bprivate\b/.test(response.headers.get("Cache-Control") ?? ""), // the server knows who asks
  }
}

/** Follows a subscription: `report({text})` for each result. The answer instead if it is no stream, else null at its end. Rejects as `send`. */
export async function follow(request, headers, signal, report) {
  const began = performance.now()
  const response = await post(request, headers, EVENTS, signal)
  if (!(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) return answerOf(response, began)
  const events = new EventReader()
  const decoder = new TextDecoder()
  const stream = response.body.getReader()
  for (;;) {
    const {done, value} = await stream.read()
    if (done) return null
    for (const {type, data} of events.receive(decoder.decode(value, {stream: true}))) {
      if (type === "complete") {
        await stream.cancel()
        return null
      }
      if (type === "next" || type === "message") report({text: data})
    }
  }
}

/** Logs in, or out with `credentials` null; the status of the answer. The session is a cookie that scripts cannot read. */
export async function session(credentials) {
  const response = await fetch(new URL(credentials ? "login" : "logout", ROOT), {
    method: "POST",
    mode: "same-origin",
    headers: {"X-Requested-With": "GraphQL page", "Content-Type": "application/json", Accept: "application/json"},
    body: credentials ? JSON.stringify(credentials) : null,
  })
  await response.arrayBuffer()
  return response.status
}

/** Asks for something only to have the browser ask its user who they are; the status of the answer. */
export async function askBrowser() {
  const body = JSON.stringify({query: "{__schema{queryType{name}}}"})
  const response = await fetch(ADDRESS, {method: "POST", mode: "same-origin", headers: {"Content-Type": "application/json", Accept: RESULT}, body})
  await response.arrayBuffer()
  return response.status
}

/** The header fields that were written as a JSON object; `fault` says what is wrong. `tree`: of the JSON, null for an empty one. */
export function headersOf(tree) {
  if (tree === null) return {headers: {}}
  if (tree.kind !== "object") return {fault: "An object is expected, as {\"Authorization\": \"Bearer ...\"}"}
  const headers = {}
  for (const [name, value] of tree.entries) {
    if (value.kind !== "string") return {fault: `The value of ${name} must be a string`}
    try {
      new Headers([[name, value.value]])
    } catch {
      return {fault: `${name} cannot be sent: it is no header field, or its value has characters that are not allowed`}
    }
    Object.defineProperty(headers, name, {value: value.value, enumerable: true, configurable: true})
  }
  return {headers}
}

/** The name in an `Authorization` field, as far as it can be read here; null without one. */
export function nameIn(headers) {
  const field = Object.entries(headers).find(([name]) => name.toLowerCase() === "authorization")?.[1]
  if (field === undefined) return null
  const [scheme, value = ""] = field.split(/\s+/, 2)
  try {
    if (scheme.toLowerCase() === "basic") return decoded(value).split(":", 1)[0]
    const claims = JSON.parse(decoded(value.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")))
    return String(claims.username ?? claims.sub ?? "the owner of a token")
  } catch {
    return "the owner of a token"
  }
}

function decoded(base64) {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)))
}
