/* What was run, in the storage of the browser: queries, variables and operation names, never header fields. Also links that hold a request. */

const KEY = "svc.graphql.history"
const DRAFT = "svc.graphql.draft"
const MOST = 100 // entries, and as many favourites
const LONGEST = 50_000 // characters of an entry; longer ones are not kept

export class History {
  /** `storage`: as localStorage; what it refuses is kept in memory. */
  constructor(storage, now = Date.now) {
    this.storage = storage
    this.now = now
    const kept = this.read(KEY, [])
    this.entries = Array.isArray(kept) ? kept.filter(isEntry).slice(0, 2 * MOST) : []
  }

  read(key, missing) {
    try {
      return JSON.parse(this.storage.getItem(key)) ?? missing
    } catch {
      return missing
    }
  }

  write(key, value) {
    try {
      this.storage.setItem(key, JSON.stringify(value))
      return true
    } catch {
      return false // full, or not allowed
    }
  }

  /** Puts a request first; one that is there already moves there. */
  add({query, variables, operationName}) {
    if (query.length + variables.length > LONGEST) return
    const isSame = (entry) => entry.query === query && entry.variables === variables && entry.operationName === operationName
    const before = this.entries.find(isSame)
    const entry = {query, variables, operationName, at: this.now(), isFavourite: before?.isFavourite ?? false}
    this.keep([entry, ...this.entries.filter((other) => !isSame(other))])
  }

  mark(entry, isFavourite) {
    this.keep(this.entries.map((other) => (other === entry ? {...entry, isFavourite} : other)))
  }

  remove(entry) {
    this.keep(this.entries.filter((other) => other !== entry))
  }

  /** Forgets all but the favourites. */
  clear() {
    this.keep(this.entries.filter(({isFavourite}) => isFavourite))
  }

  keep(entries) {
    const counts = {true: 0, false: 0}
    this.entries = entries.filter(({isFavourite}) => (counts[isFavourite] += 1) <= MOST)
    let kept = this.entries
    while (!this.write(KEY, kept) && kept.length) kept = kept.slice(0, kept.length >> 1)
  }

  /** Favourites first, then the newest; those that contain the words. */
  find(words) {
    const wanted = words.trim().toLowerCase()
    const fitting = this.entries.filter(({query, operationName}) => `${operationName}\n${query}`.toLowerCase().includes(wanted))
    return [...fitting.filter(({isFavourite}) => isFavourite), ...fitting.filter(({isFavourite}) => !isFavourite)]
  }

  get draft() {
    const draft = this.read(DRAFT, null)
    return draft && isRequest(draft) ? draft : null
  }

  set draft({query, variables}) {
    if (query.length + variables.length <= LONGEST) this.write(DRAFT, {query, variables, operationName: ""})
  }
}

function isRequest(value) {
  return typeof value === "object" && value !== null && ["query", "variables", "operationName"].every((name) => typeof value[name] === "string")
}

function isEntry(value) {
  return isRequest(value) && typeof value.at === "number" && typeof value.isFavourite === "boolean"
}

/** The fragment of an address that holds a request. */
export function toFragment(request) {
  const fields = ["query", "variables", "operationName"].filter((name) => request[name]).map((name) => [name, request[name]])
  return `#${new URLSearchParams(fields)}`
}

/** The request in the fragment of an address; null if it holds none. */
export function fromFragment(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""))
  if (!fields.get("query")) return null
  return {query: fields.get("query"), variables: fields.get("variables") ?? "", operationName: fields.get("operationName") ?? ""}
}
