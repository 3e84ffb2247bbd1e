/** A date of an answer is ISO 8601 text; a number of a `BigInt` beyond 2^53 loses digits in JavaScript. */
export interface BlobDescription {
  description: string
  contentType: string
  size: number
}

/** In changes: add to the number that is stored. */
export interface Increment {
  __op__: "add"
  value: number
}

// --- queries ---------------------------------------------------------------------------------------------------------------------------

export type Comparator =
  | "equals" | "not_equal" | "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal" | "starts_with" | "ends_with" | "contains"
  | "eq" | "ne" | "gt" | "ge" | "lt" | "le" | "sw" | "ew" | "ct" | "=" | "==" | "===" | "!=" | "!==" | ">" | ">=" | "<" | "<="
export type RangeComparator = "between" | "gelt" | "gtle" | "gtlt"

/** A condition of one attribute, with a value of its type. */
export type Comparison<Attributes> = {
  [Name in keyof Attributes & string]:
    | { attribute: Name; comparator?: Comparator; value: Attributes[Name] | null }
    | { attribute: Name; comparator: RangeComparator; value: readonly [Attributes[Name], Attributes[Name]] }
}[keyof Attributes & string]

/** A condition of what a list of names leads to: `["brand", "name"]`. */
export interface PathComparison {
  attribute: readonly string[]
  comparator?: Comparator | RangeComparator
  value: unknown
}

export interface Group<Attributes> {
  operator?: "and" | "or"
  conditions: readonly Condition<Attributes>[]
}

export type Condition<Attributes> = Comparison<Attributes> | PathComparison | Group<Attributes>

export interface Sort<Attributes> {
  attribute: (keyof Attributes & string) | readonly string[]
  descending?: boolean
  next?: Sort<Attributes>
}

export interface Query<Attributes> {
  conditions?: readonly Condition<Attributes>[]
  operator?: "and" | "or"
  sort?: Sort<Attributes>
  limit?: number
  offset?: number
}

/** What is wanted of a record: names of attributes, of relationships with a selection of their own. */
export type Selected<Row> = (keyof Row & string) | { name: keyof Row & string; select: unknown }

// --- errors ----------------------------------------------------------------------------------------------------------------------------

/** An answer that is an error: the members of the problem object that the server has sent (RFC 9457). */
export class SvcError extends Error {
  readonly status: number
  /** Stable, as `NOT_INDEXED`. */
  readonly code: string
  /** For people. */
  readonly detail: string
  readonly title: string
  /** Of a validation: a sentence for each fault. */
  readonly errors: readonly string[]
  /** Whether the same request may succeed later. */
  readonly retryable: boolean
  /** All that was sent. */
  readonly body: unknown

  constructor(status: number, problem: Readonly<Record<string, unknown>>, title: string, body: unknown) {
    const said = (name: string): string => (typeof problem[name] === "string" ? problem[name] : "")
    super(said("detail") || said("error") || said("title") || title || `HTTP ${status}`)
    this.name = "SvcError"
    this.status = status
    this.code = said("code")
    this.detail = said("detail") || said("error")
    this.title = said("title") || title
    this.errors = Array.isArray(problem["errors"]) ? problem["errors"].map(String) : []
    this.retryable = problem["retryable"] === true
    this.body = body
  }

  /** The error that an answer is. */
  static async of(answer: Response): Promise<SvcError> {
    const text = await answer.text().catch(() => "")
    let body: unknown = text
    try {
      body = JSON.parse(text)
    } catch {
      // what is between here and the server may answer with anything
    }
    const isObject = typeof body === "object" && body !== null
    return new SvcError(answer.status, isObject ? (body as Record<string, unknown>) : {}, answer.statusText, body)
  }
}

// --- the connection --------------------------------------------------------------------------------------------------------------------

export interface Options {
  /** Scheme, host and port of the server; without it the addresses are relative to the page. */
  baseUrl?: string
  /** An operation token, or a function that gives the current one; sent as `Authorization: Bearer`. */
  token?: string | (() => string | undefined | Promise<string | undefined>)
  /** Sent with each request. */
  headers?: Record<string, string>
  /** Whether cookies go along to another origin. */
  credentials?: "omit" | "same-origin" | "include"
  /** In place of the global `fetch`. */
  fetch?: typeof fetch
}

export interface Sending {
  /** Sent as JSON. */
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
}

export class Connection {
  readonly options: Options

  constructor(options: Options = {}) {
    this.options = options
  }

  /** The answer to a request, whatever it is. */
  async send(method: string, path: string, { body, headers = {}, signal }: Sending = {}): Promise<Response> {
    const { baseUrl = "", token, credentials } = this.options
    const sent: Record<string, string> = { Accept: "application/json", ...this.options.headers, ...headers }
    const current = typeof token === "function" ? await token() : token
    if (current !== undefined) sent["Authorization"] = `Bearer ${current}`
    if (body !== undefined) sent["Content-Type"] = "application/json"
    const init: RequestInit = { method, headers: sent }
    if (body !== undefined) init.body = JSON.stringify(body)
    if (credentials !== undefined) init.credentials = credentials
    if (signal !== undefined) init.signal = signal
    return await (this.options.fetch ?? fetch)(baseUrl.replace(/\/+$/, "") + path, init)
  }

  /** The value that a request is answered with; undefined without one. Throws SvcError. */
  async request(method: string, path: string, sending: Sending = {}): Promise<any> {
    const answer = await this.send(method, path, sending)
    if (!answer.ok) throw await SvcError.of(answer)
    const text = await answer.text()
    if (text === "") return undefined
    return /\bjson\b/.test(answer.headers.get("Content-Type") ?? "") ? JSON.parse(text) : text
  }
}

// --- addresses -------------------------------------------------------------------------------------------------------------------------

/** The part of an address that names a record. A dot or a slash in a key is escaped: it begins no extension, property or collection. */
export function keyPath(key: unknown): string {
  const parts = (Array.isArray(key) ? key : [key]) as readonly unknown[]
  if (parts.length === 0 || parts.every((part) => part === "" || part === null || part === undefined)) throw new TypeError("a record has a key that is not empty")
  return parts.map((part) => (typeof part === "number" ? String(part) : keyText(String(part)))).join("%2F")
}

function keyText(text: string): string {
  const escaped = segment(text).replace(/\./g, "%2E")
  // Where keys have no type, a numeral is a number, unless its first digit is escaped.
  return /^-?[0-9]/.test(text) ? `%${text.charCodeAt(0).toString(16).toUpperCase()}${escaped.slice(1)}` : escaped
}

function segment(part: unknown): string {
  return encodeURIComponent(String(part)).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
}

const OPERATORS: Record<string, string> = {
  equals: "==", not_equal: "!=", greater_than: "=gt=", greater_than_equal: "=ge=", less_than: "=lt=", less_than_equal: "=le=",
  starts_with: "=sw=", ends_with: "=ew=", contains: "=ct=", eq: "==", ne: "!=", gt: "=gt=", ge: "=ge=", lt: "=lt=", le: "=le=", sw: "=sw=", ew: "=ew=",
  ct: "=ct=", "=": "==", "==": "==", "===": "==", "!=": "!=", "!==": "!=", ">": "=gt=", ">=": "=ge=", "<": "=lt=", "<=": "=le=",
}
const RANGES: Record<string, readonly [string, string]> = {
  between: ["=ge=", "=le="], gelt: ["=ge=", "=lt="], gtle: ["=gt=", "=le="], gtlt: ["=gt=", "=lt="],
}

/** A value as the query of an address has it: a text that looks like something else says that it is one. */
function literal(value: unknown): string {
  if (value === null || value === undefined) return "null"
  if (value instanceof Date) return segment(value.toISOString())
  if (typeof value !== "string") return segment(value)
  const isOther = /^(null|true|false|[-+]?[0-9.]+([eE][-+]?[0-9]+)?|)$/.test(value) || /^(number|boolean|string|date):/.test(value)
  return (isOther ? "string:" : "") + segment(value)
}

function condition(given: any): string {
  if (Array.isArray(given.conditions)) return `(${joined(given.conditions, given.operator)})`
  const path = (Array.isArray(given.attribute) ? given.attribute : String(given.attribute).split(".")).map(segment).join(".")
  const ends = RANGES[given.comparator]
  if (ends !== undefined) return `${path}${ends[0]}${literal(given.value[0])}&${path}${ends[1]}${literal(given.value[1])}`
  return path + (OPERATORS[given.comparator ?? "equals"] ?? "==") + literal(given.value)
}

function joined(conditions: readonly any[], operator: "and" | "or" = "and"): string {
  const parts = conditions.map((each) => (operator === "or" && RANGES[each.comparator] !== undefined ? `(${condition(each)})` : condition(each)))
  return parts.join(operator === "or" ? "|" : "&")
}

/** The query of an address that says the same as a query object, without its question mark. */
export function queryString(query: Query<any> & { select?: readonly any[] }, live = false): string {
  const parts: string[] = []
  const conditions = query.conditions ?? []
  if (conditions.length > 0) parts.push(query.operator === "or" && conditions.length > 1 ? `(${joined(conditions, "or")})` : joined(conditions))
  const name = (given: any): string => (Array.isArray(given) ? given.map(segment).join(".") : String(given).split(".").map(segment).join("."))
  const item = (given: any): string => (typeof given === "string" ? name(given) : `${name(given.name)}{${[given.select].flat().map(item).join(",")}}`)
  if (query.select !== undefined) parts.push(`select(${query.select.map(item).join(",")}${query.select.length === 1 ? "," : ""})`)
  const keys: string[] = []
  for (let sort = query.sort; sort !== undefined; sort = sort.next) keys.push((sort.descending ? "-" : "+") + name(sort.attribute))
  if (keys.length > 0) parts.push(`sort(${keys.join(",")})`)
  if (query.limit !== undefined) parts.push(query.offset ? `limit(${query.offset},${query.offset + query.limit})` : `limit(${query.limit})`)
  if (live) parts.push("live()")
  return parts.join("&")
}

// --- events ----------------------------------------------------------------------------------------------------------------------------

export interface ChangeEvent<Key, Row> {
  /** `put`, `delete`, `message`, `invalidate`; of a live query `reset`, `snapshot`, `enter`, `update`, `leave` and others. */
  type: string
  id: Key
  value: Row
  version: number
  timestamp: number
  localTime: number
  /** Another node of the cluster, that has made the change. */
  node?: string
  index?: number
}

export interface Listening {
  /** Called when the connection is lost, before it is made again, and with the SvcError that ends the subscription. */
  onError?: (error: unknown) => void
  signal?: AbortSignal
}

/** Events, until it is closed. It connects again by itself, and goes on where it was. */
export class Subscription {
  /** Done when there are no more events. */
  readonly closed: Promise<void>
  private readonly stopping = new AbortController()

  constructor(connection: Connection, path: string, listener: (event: any) => void, { onError, signal }: Listening = {}) {
    if (signal?.aborted) this.stopping.abort()
    signal?.addEventListener("abort", () => this.close(), { once: true })
    this.closed = this.run(connection, path, listener, onError ?? (() => undefined))
  }

  close(): void {
    this.stopping.abort()
  }

  private async run(connection: Connection, path: string, listener: (event: any) => void, onError: (error: unknown) => void): Promise<void> {
    const signal = this.stopping.signal
    let last = ""
    let delay = 3000
    while (!signal.aborted) {
      try {
        const headers: Record<string, string> = { Accept: "text/event-stream", ...(last === "" ? {} : { "Last-Event-ID": last }) }
        const answer = await connection.send("GET", path, { headers, signal })
        if (!answer.ok) {
          const error = await SvcError.of(answer)
          onError(error)
          if (answer.status < 500) return
        } else if (answer.body !== null) {
          for await (const [field, value] of fields(answer.body)) {
            if (field === "id") last = value
            else if (field === "retry") delay = Number(value) || delay
            else this.pass(value, listener, onError)
          }
        }
      } catch (error) {
        if (!signal.aborted) onError(error)
      }
      if (!signal.aborted) await pause(delay, signal)
    }
  }

  private pass(data: string, listener: (event: any) => void, onError: (error: unknown) => void): void {
    try {
      listener(JSON.parse(data))
    } catch (error) {
      onError(error)
    }
  }
}

/** What an event stream says: `id`, `retry`, and `data` of whole events. */
async function* fields(body: ReadableStream<Uint8Array>): AsyncGenerator<["id" | "retry" | "data", string]> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ""
  let data: string[] = []
  let id: string | undefined
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n")
      rest = lines.pop() ?? ""
      for (const raw of lines) {
        const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw
        if (line === "") {
          if (data.length > 0) yield ["data", data.join("\n")]
          if (id !== undefined) yield ["id", id]
          data = []
          id = undefined
          continue
        }
        const colon = line.indexOf(":")
        const field = colon < 0 ? line : line.slice(0, colon)
        const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "")
        if (field === "data") data.push(text)
        else if (field === "id") id = text
        else if (field === "retry") yield ["retry", text]
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds)
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve() }, { once: true })
  })
}

// --- records ---------------------------------------------------------------------------------------------------------------------------

/** The records at one address. */
export class Collection<Key, Row, Data, Changes, Attributes> {
  readonly connection: Connection
  readonly path: string

  constructor(connection: Connection, path: string) {
    this.connection = connection
    this.path = path
  }

  /** The address of a record. */
  address(id: Key): string {
    return `${this.path}/${keyPath(id)}`
  }

  /** A record, or null. */
  get(id: Key): Promise<Row | null>
  /** What is selected of a record. */
  get<Name extends keyof Row & string>(id: Key, select: readonly Name[]): Promise<Pick<Row, Name> | null>
  async get(id: Key, select?: readonly string[]): Promise<unknown> {
    const query = select === undefined ? "" : `?${queryString({ select })}`
    try {
      return await this.connection.request("GET", this.address(id) + query)
    } catch (error) {
      if (error instanceof SvcError && error.status === 404) return null
      throw error
    }
  }

  /** The records that a query finds; all of them without one. */
  search(query?: Query<Attributes>): Promise<Row[]>
  /** What is selected of them. */
  search<Name extends keyof Row & string>(query: Query<Attributes> & { select: readonly Name[] }): Promise<Pick<Row, Name>[]>
  search(query: Query<Attributes> & { select: readonly Selected<Row>[] }): Promise<any[]>
  async search(query: Query<Attributes> & { select?: readonly unknown[] } = {}): Promise<unknown> {
    return await this.connection.request("QUERY", `${this.path}/`, { body: query })
  }

  /** How many records a query finds. */
  async count(query: Pick<Query<Attributes>, "conditions" | "operator"> = {}): Promise<number> {
    const found = await this.connection.request("QUERY", `${this.path}/`, { body: { ...query, aggregate: "count" } })
    return found.count
  }

  /** Make a record, under its key or a new one: its key. */
  async create(record: Data): Promise<Key> {
    return await this.connection.request("POST", `${this.path}/`, { body: record })
  }

  /** Make all records or none: their keys. */
  async createAll(records: readonly Data[]): Promise<Key[]> {
    return await this.connection.request("POST", `${this.path}/`, { body: records })
  }

  /** Store a record in place of what was there. */
  async put(id: Key, record: Data): Promise<void> {
    await this.connection.request("PUT", this.address(id), { body: record })
  }

  /** Change these properties of a record and leave the others. */
  async patch(id: Key, changes: Changes): Promise<void> {
    await this.connection.request("PATCH", this.address(id), { body: changes })
  }

  /** Call an action of a record, or with null of the collection: what a class of the application answers. */
  async post(id: Key | null, data?: unknown): Promise<any> {
    return await this.connection.request("POST", id === null ? `${this.path}/` : this.address(id), { body: data ?? null })
  }

  /** Delete a record. */
  async delete(id: Key): Promise<void> {
    await this.connection.request("DELETE", this.address(id))
  }

  /** The events of a record, of the records that a query finds, or of all: first what is there, then each change. */
  subscribe(
    target: { id: Key } | Query<Attributes>, listener: (event: ChangeEvent<Key, Row>) => void, listening: Listening & { live?: boolean } = {},
  ): Subscription {
    if ("id" in target) return new Subscription(this.connection, this.address(target.id), listener, listening)
    const query = queryString(target, listening.live ?? false)
    return new Subscription(this.connection, `${this.path}/${query === "" ? "" : `?${query}`}`, listener, listening)
  }
}
