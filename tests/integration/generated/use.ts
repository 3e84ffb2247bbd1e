// A program that uses what openapi-typescript has generated, with openapi-fetch. Checked by tsc, then run by Node.js: use.ts URL URL-OF-OPERATIONS PASSWORD.

import createClient from "openapi-fetch"
import type { paths as OperationPaths } from "./operations.ts"
import type { components, paths } from "./shop.ts"

declare const process: { argv: string[] }

type Product = components["schemas"]["Product"]

const [, , baseUrl = "", operationsUrl = "", password = ""] = process.argv
const authorization = `Basic ${btoa(`admin:${password}`)}`
const client = createClient<paths>({ baseUrl, headers: { Authorization: authorization } })
const DAY = "2026-03-01T12:30:00.000Z"

function check(condition: unknown, ...shown: unknown[]): asserts condition {
  if (!condition) throw new Error(`not so: ${JSON.stringify(shown)}`)
}

async function record(id: string): Promise<Product> {
  const { data, error } = await client.GET("/Product/{id}", { params: { path: { id } } })
  check(data, error)
  return data
}

async function listed(query: NonNullable<paths["/Product/"]["get"]["parameters"]["query"]>): Promise<string[]> {
  const { data, error } = await client.GET("/Product/", { params: { query } })
  check(data, error)
  return data.map((each) => each.id)
}

// Create: one, with a key and without, and several.
const pen: components["schemas"]["ProductCreate"] = { id: "pen/1", state: "USED", name: "Pen", price: 2.5, stock: 3, made: DAY, sold: true, tags: ["a"], seal: "AAEC", brandId: "acme", place: { city: "Oslo" } }
const one = await client.POST("/Product/", { body: pen })
check(one.response.status === 201 && one.data === "pen/1", one)
const made = await client.POST("/Product/", { body: { name: "Without a key" } })
check(typeof made.data === "string", made)
const several = await client.POST("/Product", {
  body: [
    { id: "ink", name: "Ink", price: 4 },
    { id: "cap", name: "Cap", price: 1 },
  ],
})
check(several.data?.join() === "ink,cap", several)
check((await client.POST("/Brand/", { body: { id: "acme", name: "Acme" } })).data === "acme")

// Read and find.
const found = await record("pen/1")
check(found.price === 2.5 && found.place?.city === "Oslo" && found.tags?.[0] === "a" && found.made === DAY && found.seal === "AAEC", found)
check((await listed({ name: "Ink" })).join() === "ink")
check((await listed({ sold: true, made: DAY, state: "USED" })).join() === "pen/1")
const sorted = await client.GET("/Product/", {
  params: { query: { _where: "price>=1&(name==Ink|name==Cap|price<3)", _sort: "-price,name", _limit: 2, _offset: 1, _count: "exact" } },
})
check(sorted.data?.map((each) => each.id).join() === "pen/1,cap" && sorted.response.headers.get("x-total-count") === "3", sorted)
const selected = await client.GET("/Product/.json", { params: { query: { _select: "name,double,brand{name}", id: "pen/1" } } })
const [part] = selected.data ?? []
check(part?.name === "Pen" && part.double === 5 && part.brand?.name === "Acme" && part.id === undefined, selected)
let after: string | null = ""
const paged: string[] = []
while (after !== null) {
  const page: { data?: Product[]; response: Response } = await client.GET("/Product/", { params: { query: { _sort: "name", _limit: 3, _after: after } } })
  paged.push(...(page.data ?? []).map((each) => each.name))
  const next: string | undefined = /<([^>]*)>; rel="next"/.exec(page.response.headers.get("link") ?? "")?.[1]
  after = next ? new URL(next, page.response.url).searchParams.get("_after") : null
}
check(paged.join() === "Cap,Ink,Pen,Without a key", paged)
const refused = await client.GET("/Product/", { params: { query: { _sort: "weigth" } } })
check(refused.error?.status === 400, refused)

// Another document, that of the operations.
const operations = createClient<OperationPaths>({ baseUrl: operationsUrl, headers: { Authorization: authorization } })
const described = await operations.POST("/", { body: { operation: "describe_table", table: "Product" } })
check((described.data as { name?: string }).name === "Product", described)

// Change.
const changed = await client.PATCH("/Product/{id}", { params: { path: { id: "pen/1" } }, body: { stock: { __op__: "add", value: 2 }, price: null } })
check(changed.response.status === 204, changed)
check((await record("pen/1")).stock === 5)
const replaced = await client.PUT("/Product/{id}", { params: { path: { id: "ink" } }, body: { name: "Red ink" } })
check(replaced.response.status === 204 && (await record("ink")).price === undefined)
check((await client.PUT("/Product/", { body: [{ id: "lid", name: "Lid" }] })).response.status === 204)

// Content: a type of a file is the client's business, the generated one is that of text.
const bytes = new Uint8Array([255, 216, 1])
const sent = await client.PUT("/Product/{id}/photo", {
  params: { path: { id: "ink" } },
  body: bytes as unknown as string,
  bodySerializer: (body) => body,
  headers: { "Content-Type": "image/jpeg" },
})
check(sent.response.status === 204, sent)
const photo = await client.GET("/Product/{id}/photo", { params: { path: { id: "ink" } }, parseAs: "arrayBuffer" })
check(photo.response.headers.get("content-type") === "image/jpeg" && new Uint8Array(photo.data as ArrayBuffer).join() === bytes.join(), photo)

// Another database, keys that are numbers.
const order = await client.POST("/shop/orders/", { body: { number: 7, text: "two pens" } })
check(order.data === 7, order)
check((await client.GET("/shop/orders/{number}", { params: { path: { number: 7 } } })).data?.text === "two pens")

// Faults.
const missing = await client.GET("/Product/{id}", { params: { path: { id: "none" } } })
check(missing.error?.code === "NOT_FOUND" && missing.error.status === 404, missing)
const again = await client.POST("/Product/", { body: { id: "ink", name: "Ink" } })
check(again.error?.status === 409, again)
const late = await client.DELETE("/Product/{id}", { params: { path: { id: "ink" }, header: { "If-Match": '"AAAAAAAAAAA"' } } })
check(late.error?.status === 412, late)
const stranger = await createClient<paths>({ baseUrl }).GET("/Product/", {})
check(stranger.response.status === 401 && stranger.error, stranger)

// Delete.
check((await client.DELETE("/Product/{id}", { params: { path: { id: "ink" } } })).response.status === 204)
check((await client.GET("/Product/{id}", { params: { path: { id: "ink" } } })).response.status === 404)
const deleted = await client.DELETE("/Product/", { params: { query: { name: "Lid" } } })
check(deleted.response.headers.get("x-deleted-count") === "1", deleted)

// What the types forbid.
export function wrong(): void {
  // @ts-expect-error: there is no such attribute
  found.weigth
  // @ts-expect-error: a required one is missing
  void client.POST("/Product/", { body: { price: 1 } })
  // @ts-expect-error: no value of the enum
  void client.PATCH("/Product/{id}", { params: { path: { id: "a" } }, body: { state: "OLD" } })
  // @ts-expect-error: of another type
  void client.PATCH("/Product/{id}", { params: { path: { id: "a" } }, body: { sold: "yes" } })
}
