// Code with faults: the compiler reports each line that is marked, and no other.

import { Client, type ProductData } from "./client.ts"

const client = new Client()
export const missing: ProductData = { stock: 3 } // wrong: the name is missing
export const unknown: ProductData = { name: "Pen", stock: 3, nmae: 1 } // wrong: unknown attribute
export const mistaken: ProductData = { name: "Pen", stock: "3" } // wrong: a number
export const old: ProductData = { name: "Pen", stock: 3, state: "OLD" } // wrong: no value of the enum
export const empty: ProductData = { name: null, stock: 3 } // wrong: null is refused
const pen = await client.Product.get("pen")
console.log(pen.name) // wrong: it may be null
console.log(pen?.nmae) // wrong: unknown attribute
export const text: string | undefined = pen?.stock // wrong: a number
console.log(client.Prodct) // wrong: unknown table
await client.Product.get(3) // wrong: the key is a text
await client.Product.search({ conditions: [{ attribute: "nmae", value: "x" }] }) // wrong: unknown attribute
await client.Product.search({ conditions: [{ attribute: "price", value: "cheap" }] }) // wrong: type of the value
await client.Product.search({ conditions: [{ attribute: "price", comparator: "less", value: 3 }] }) // wrong: unknown comparator
await client.Product.search({ conditions: [{ attribute: "price", comparator: "between", value: 3 }] }) // wrong: needs two values
await client.Product.search({ sort: { attribute: "nmae" } }) // wrong: unknown attribute
await client.Product.patch("pen", { price: "3" }) // wrong: a number
await client.Product.patch("pen", { name: { __op__: "add", value: 1 } }) // wrong: no number
const few = await client.Product.search({ select: ["name"] })
console.log(few[0]?.price) // wrong: it was not selected
