// GraphiQL at the endpoint of this server. Requests are those of the page: they go to where it came from, with its session or its Basic credentials.

const ROOT = new URL("../..", document.currentScript.src) // of the server, which may be below a path of a proxy
const ADDRESS = new URL("graphql", ROOT)
const ACCEPTED = "application/graphql-response+json, application/json;q=0.9, text/event-stream;q=0.8" // the last one for subscriptions
const LINE_END = /\r\n|\n|\r(?!$)/ // a lone CR at the end may be half of CRLF

function post(parameters, headers, accept) {
  // `X-Requested-With`: a 401 comes without the dialog of the browser, which would cover the page that explains it.
  const fields = new Headers({ "X-Requested-With": "GraphQL page", ...headers, "Content-Type": "application/json", Accept: accept })
  return fetch(ADDRESS, { method: "POST", body: JSON.stringify(parameters), headers: fields, mode: "same-origin", cache: "no-store" })
}

/** What a text of JSON says. Whole numbers that JavaScript has no number for are shown with all their digits, where the browser can. */
function parse(text) {
  return JSON.parse(text, (name, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source) && JSON.rawJSON ? JSON.rawJSON(context.source) : value
  )
}

async function resultOf(response) {
  document.querySelector("#login").hidden = response.status !== 401
  const text = await response.text()
  try {
    return parse(text)
  } catch {
    throw new Error(`The answer is no JSON (status ${response.status}): ${text.slice(0, 1000)}`)
  }
}

/** The data of the events of a stream, until it ends (HTML standard, section 9.2). EventSource can neither POST nor send header fields. */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ""
  let type = "message"
  let data = []
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + value).split(LINE_END)
      rest = lines.pop()
      for (const line of lines) {
        const [, name, text] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)
        if (name === "event") type = text
        else if (name === "data") data.push(text)
        else if (line === "") {
          if (type === "complete") return
          if (data.length) yield parse(data.join("\n"))
          type = "message"
          data = []
        }
      }
    }
  } finally {
    reader.cancel()
  }
}

async function fetcher(parameters, { headers } = {}) {
  const response = await post(parameters, headers, ACCEPTED)
  if (response.headers.get("Content-Type")?.startsWith("text/event-stream")) return eventsOf(response)
  const result = await resultOf(response)
  // GraphiQL throws at each check of a query against a schema without a field, and does without a schema.
  if (parameters.operationName === "IntrospectionQuery" && isEmpty(result.data?.__schema)) throw new Error("There is nothing here that you may see.")
  return result
}

function isEmpty(schema) {
  return schema?.types.some(({ name, fields }) => name === schema.queryType.name && fields.length === 0)
}

/** That of the browser. GraphiQL keeps header fields out of all that it stores but its lists of queries; they may be credentials. */
const storage = {
  getItem: (key) => localStorage.getItem(key),
  setItem: (key, text) => localStorage.setItem(key, LISTS.includes(key) ? withoutHeaders(text) : text),
  removeItem: (key) => localStorage.removeItem(key),
  get length() {
    return localStorage.length
  },
  clear() {
    for (const key of Object.keys(localStorage)) if (key.startsWith("graphiql:")) localStorage.removeItem(key)
  },
}
const LISTS = ["graphiql:queries", "graphiql:favorites"]

function withoutHeaders(text) {
  return JSON.stringify(JSON.parse(text), (name, value) => (name === "headers" ? undefined : value))
}

document.querySelector("#login-page").href = new URL(`login?redirect=${encodeURIComponent(location.pathname)}`, ROOT)
document.querySelector("#login-dialog").addEventListener("click", async () => {
  const body = JSON.stringify({ query: "{__typename}" }) // without the mark, so the browser asks its user who they are
  const response = await fetch(ADDRESS, { method: "POST", mode: "same-origin", headers: { "Content-Type": "application/json", Accept: ACCEPTED }, body })
  if (response.ok) location.reload()
})

const given = new URLSearchParams(location.hash.slice(1)) // `#query=...&variables=...`: of a link
ReactDOM.createRoot(document.querySelector("#graphiql")).render(
  React.createElement(GraphiQL, {
    fetcher,
    storage,
    query: given.get("query") ?? undefined,
    variables: given.get("variables") ?? undefined,
    defaultQuery: "# Ctrl+Enter runs the query, Ctrl+Space completes. The documentation of all that you may see is on the left.\n\n",
    shouldPersistHeaders: false,
  })
)
