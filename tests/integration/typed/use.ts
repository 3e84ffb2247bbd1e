// Uses the client of the schema beside this file against a server; prints what it has got, as one JSON object.

import { Client, SvcError, keyPath, queryString, type ChangeEvent, type Product, type ProductChanges, type ProductData } from "./client.ts"

const [baseUrl, user, password] = process.argv.slice(2)
const headers = { Authorization: `Basic ${btoa(`${user}:${password}`)}` }
const client = new Client({ baseUrl: `${baseUrl}/`, headers })
const told: Record<string, unknown> = {}

const pen: ProductData = { name: "Pen", stock: 3, price: 2.5, since: new Date(0), sizes: [1, 2], tags: ["a", null], place: { hall: "A" }, class: "x" }
await client.Product.put("pen", pen)
const found: Product | null = await client.Product.get("pen")
told["found"] = found
const name: string | undefined = found?.name
told["name"] = name
told["missing"] = await client.Product.get("none")
told["selected"] = await client.Product.get("pen", ["name", "price"])
told["one"] = await client.Product.get("pen", ["name"])

const made: string = await client.Product.create({ name: "Ink", stock: 0, brandName: "b/1.x", state: "NEW", states: ["USED"] })
told["made"] = typeof made
told["both"] = (await client.Product.createAll([{ id: "5", name: "Five", stock: 5 }, { id: "null", name: "null", stock: 6 }])).length
await client.Brand.put("b/1.x", { country: "FR" })
told["brand"] = await client.Brand.get("b/1.x")
told["undivided"] = await client.Brand.get("b")

const changes: ProductChanges = { price: 3, stock: { __op__: "add", value: -1 } }
await client.Product.patch("pen", changes)
told["search"] = await client.Product.search({
  conditions: [{ attribute: "price", comparator: "between", value: [1, 5] }, { attribute: "name", comparator: "starts_with", value: "P" }],
  sort: { attribute: "price", descending: true, next: { attribute: "name" } },
  limit: 2,
})
told["joined"] = await client.Product.search({ conditions: [{ attribute: ["brand", "country"], value: "FR" }], select: ["name", { name: "brand", select: ["country"] }] })
told["either"] = (await client.Product.search({ operator: "or", conditions: [{ attribute: "name", value: "Ink" }, { attribute: "name", value: "Five" }] })).length
told["count"] = await client.Product.count()
told["counted"] = await client.Product.count({ conditions: [{ attribute: "since", comparator: "le", value: new Date(1) }] })
told["seat"] = await client["shop.Seat"].create({ code: "A1", price: 3 })

for (const [at, act] of Object.entries({
  invalid: () => client.Product.put("bad", { name: 3, stock: "x" } as unknown as ProductData),
  unknown: () => client.Product.search({ conditions: [{ attribute: "nothing" as "name", value: "x" }] }),
  anonymous: () => new Client({ baseUrl: baseUrl ?? "" }).Product.get("pen"),
  wrongToken: () => new Client({ baseUrl: baseUrl ?? "", token: async () => "no token" }).Product.get("pen"),
  taken: () => client.Product.create({ id: "pen", name: "Pen", stock: 1 }),
})) {
  try {
    await act()
    told[at] = "nothing was thrown"
  } catch (error) {
    if (!(error instanceof SvcError)) throw error
    told[at] = [error.status, error.code, error.errors.length, error.retryable, error.message === error.detail]
  }
}

// What happens while a subscription is there comes through it, in order.
const events: ChangeEvent<string, Product>[] = []
const wanted: [number, () => void][] = []
const come = (count: number): Promise<void> => new Promise((resolve) => { wanted.push([count, resolve]); look() })
const look = (): void => { for (const [count, resolve] of wanted) if (events.length >= count) resolve() }
const faults: unknown[] = []
const conditions = [{ attribute: "name", comparator: "sw", value: "P" }, { attribute: "price", comparator: "ge", value: 1 }] as const
const subscription = client.Product.subscribe({ conditions }, (event) => { events.push(event); look() }, { onError: (error) => faults.push(error) })
await come(1)
await client.Product.patch("pen", { price: 4 })
await come(2)
await client.Product.delete("pen")
await come(3)
subscription.close()
await subscription.closed
told["events"] = events.map(({ type, id, value }) => [type, id, value?.price ?? null])
told["faults"] = faults.length

const refused: unknown[] = []
await client.Product.subscribe({ conditions: [{ attribute: "nothing" as "name", value: 1 as unknown as string }] }, () => undefined, { onError: (error) => refused.push(error) }).closed
told["refused"] = refused.map((error) => (error instanceof SvcError ? error.code : String(error)))
const one = client.Brand.subscribe({ id: "b/1.x" }, (event) => { told["followed"] = event.value.country; one.close() })
await one.closed

// A text that looks like something else is a text nevertheless.
for (const text of ["null", "5", "string:x", "true"]) told[`query of ${text}`] = queryString({ conditions: [{ attribute: "name", value: text }] })
told["query"] = queryString({
  operator: "or",
  conditions: [{ attribute: "a.b", comparator: "gelt", value: [1, 2] }, { operator: "and", conditions: [{ attribute: "c", value: "x y*&" }] }],
  select: ["name", { name: "brand", select: ["country", "name"] }], sort: { attribute: "a", next: { attribute: "b", descending: true } }, limit: 5, offset: 10,
} as never)
told["keys"] = ["a/b", "a.csv", "5", 5, ["a", "b"], "ä ?#%"].map(keyPath)
try {
  await client.Product.delete("")
} catch (error) {
  told["empty"] = error instanceof TypeError
}
told["left"] = await client.Product.count()
await client.Folder.put(["a", "b.csv", "c"], { name: "deep" })
told["folder"] = [(await client.Folder.get(["a", "b.csv", "c"]))?.name, await client.Folder.get("a")]
await client.Brand.put("ends/", { country: "DE" })
told["slash"] = (await client.Brand.get("ends/"))?.country
await client.Brand.delete("ends/")
told["brands"] = await client.Brand.count()
await client.Loose.put("7", { note: "text" })
await client.Loose.put(7, { note: "number" })
told["loose"] = [(await client.Loose.get("7"))?.note, (await client.Loose.get(7))?.note]
console.log(JSON.stringify(told))
