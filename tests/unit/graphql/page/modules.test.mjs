// The modules of the page that need no page: node --test. FILES: their folder; SCHEMA: a file with the answer to the introspection of a schema.
import assert from "node:assert/strict"
import {readFileSync} from "node:fs"
import {pathToFileURL} from "node:url"
import {test} from "node:test"

const load = (name) => import(pathToFileURL(`${process.env.FILES}/${name}.js`).href)
const {completionsAt} = await load("completion")
const {EventReader} = await load("events")
const {formatted} = await load("format")
const {History, fromFragment, toFragment} = await load("history")
const {indentedJson, offsetOf, placeOf, readJson, styledJson} = await load("json")
const {operationAt, outlineOf} = await load("outline")
const {bodyOf, headersOf, nameIn} = await load("requests")
const {errorsIn, sizeText} = await load("running")
const {INTROSPECTION, Schema, typeText} = await load("schema")
const {styled, tokensOf} = await load("tokens")

const schema = new Schema(JSON.parse(readFileSync(process.env.SCHEMA, "utf8")).__schema)

/** What is suggested at the bar. */
function labels(marked) {
  return completionsAt(marked.replace("|", ""), marked.indexOf("|"), schema).items.map(({label}) => label)
}

const has = (marked, ...names) => names.forEach((name) => assert.ok(labels(marked).includes(name), `${marked}: ${name} of ${labels(marked)}`))
const is = (marked, ...names) => assert.deepEqual(labels(marked), names, marked)

test("tokens cover the text and never fail", () => {
  const text = 'query A($a: [ID!] = ["x\\""]) @d { é a: b(c: -1.5e3, d: """x\\"""y""") ...F # end\n"open'
  const tokens = tokensOf(text)
  assert.deepEqual(tokens.slice(0, 6).map(({kind}) => kind), ["name", "name", "punctuator", "variable", "punctuator", "punctuator"])
  assert.equal(tokens.find(({kind}) => kind === "block").text, '"""x\\"""y"""')
  assert.equal(tokens.find(({kind}) => kind === "unknown").text, "é")
  let rest = text
  for (const token of tokens) {
    assert.equal(text.slice(token.start, token.end), token.text)
    rest = rest.replace(token.text, "")
  }
  assert.match(rest, /^[\s,]*$/)
  for (const odd of ['"""', '"', "$", "@", "..", "\u{1f600}", "\ud800", "'", "\\", "a\u0000b"]) assert.ok(tokensOf(odd).length)
})

test("a long document is read in linear time", () => {
  const pieces = ["{".repeat(200_000), '"'.repeat(200_001), '"""' + "\\".repeat(200_000), "#".repeat(200_000), "a ".repeat(100_000), "...".repeat(60_000)]
  for (const text of pieces) assert.ok(tokensOf(text).length >= 1)
})

test("names are shown by what they are", () => {
  const text = "query A($a: ID) { x: Product(name: $a, is: true) { ...on B { c } ...F } } fragment F on B { d }"
  const styles = Object.fromEntries(styled(text).map(({text: word, style}) => [word, style]))
  assert.equal(styles.query, "keyword")
  assert.equal(styles.A, "definition")
  assert.equal(styles.ID, "type")
  assert.equal(styles.Product, "field")
  assert.equal(styles.name, "argument")
  assert.equal(styles.true, "literal")
  assert.equal(styles.B, "type")
  assert.equal(styles.F, "definition")
})

test("the outline of a document that is not finished", () => {
  const {operations, fragments} = outlineOf("{ a } query A($x: Int, $y: [ID]) { b(c: $x, d: {e: $z}) } fragment F on T { c } mutation M { d")
  assert.deepEqual(operations.map(({kind, name, variables}) => [kind, name, variables]), [["query", "", []], ["query", "A", ["x", "y"]], ["mutation", "M", []]])
  assert.deepEqual(fragments.map(({name, on}) => [name, on]), [["F", "T"]])
  assert.equal(operationAt({operations}, 20).name, "A")
  assert.equal(operationAt(outlineOf(""), 0), null)
})

test("fields are suggested by type", () => {
  has("{ | }", "Product", "Brand", "__typename")
  is("{ Prod| }", "Product")
  has("{ Product { | } }", "id", "name", "brand")
  has("{ Product { brand { | } } }", "products", "country")
  has("{ x: Product(name: \"a\") { brand { name } | } }", "price")
  is("{ Product { br|and } }", "brandId", "brand")
  has("{ Product { |", "id")
  has("{ Product { ... on Brand { | } } }", "country")
  has("{ Product { ... { | } } }", "price")
  has("query A { a: Brand { b: products { | } } }", "price")
  has("fragment F on Brand { | }", "country")
  is("{ Unknown { | } }")
  is("{ Product { name { | } } }")
})

test("arguments and their values are suggested", () => {
  has("{ Product(|) { id } }", "name", "place", "size")
  assert.ok(!labels('{ Product(name: "a", |) { id } }').includes("name"))
  has("{ Product(place: {|}) { id } }", "city")
  has("{ Product(place: {shelf: {|}}) { id } }", "row")
  has("query ($a: ID, $b: Int) { Product(name: |) { id } }", "$a", "$b", "null")
  has("query ($abc: ID) { Product(name: $a|) { id } }", "$abc")
  has("{ Product(size: |) { id } }", "SMALL", "LARGE")
  has("{ Product(sizes: [|]) { id } }", "SMALL")
  has("{ Product { id @inc| } }", "@include")
  has("{ Product { id @include(|) } }", "if")
  has("{ Product { id @include(if: |) } }", "true", "false")
  assert.equal(completionsAt("{ Product(na) }", 12, schema).items[0].insert, "name: ")
})

test("types, keywords and fragments are suggested", () => {
  has("query ($a: |) { b }", "ID", "PlaceInput")
  has("query ($a: [|]) { b }", "ID")
  assert.ok(!labels("query ($a: |) { b }").includes("Product"))
  is("|", "query", "mutation", "fragment")
  is("fr|", "fragment")
  is("{ a } q|", "query")
  has("fragment F on | { a }", "Product")
  assert.ok(!labels("fragment F on | { a }").includes("ID"))
  is("fragment F |", "on")
  has("{ Product { ...| } } fragment Some on Product { id }", "Some", "on")
  has("{ Product { ... on | } }", "Brand")
})

test("strings and comments get no suggestions, and without a schema there are still words", () => {
  for (const marked of ['{ Product(name: "na|me") }', "{ # na|", '{ Product(name: """ na| ', '{ Product(name: "na|']) is(marked)
  assert.deepEqual(completionsAt("", 0, null).items.map(({label}) => label), ["query", "fragment"])
  assert.deepEqual(completionsAt("{ a { b(c: ", 11, null).items.map(({label}) => label), ["true", "false", "null"])
})

test("suggestions at every place of a document, and of any beginning of one, do not fail", () => {
  const text = 'query A($a: [ID!]! = [1] @d(e: 1), $b: {) @x(y: {z: 1}) { a: Product(name: {x: [1, {y: $a}]}) @include(if: true) { ...F ... on Brand @x { id } ...{ a } } ]) } } fragment F on Product { id }'
  for (let end = 0; end <= text.length; end += 1) {
    completionsAt(text.slice(0, end), end, schema)
    completionsAt(text, end, schema)
    completionsAt(text.slice(end), 0, null)
  }
})

test("names of objects in JavaScript are names as others", () => {
  const odd = new Schema({
    queryType: {name: "__proto__"},
    types: [{kind: "OBJECT", name: "__proto__", fields: [{name: "constructor", args: [], type: {kind: "OBJECT", name: "toString"}}]}, {kind: "OBJECT", name: "toString"}],
  })
  assert.deepEqual(completionsAt("{ c", 3, odd).items.map(({label}) => label), ["constructor"])
  assert.deepEqual(completionsAt("{ constructor { ", 16, odd).items.map(({label}) => label), ["__typename"])
  assert.deepEqual(completionsAt("{ a(toString: {valueOf: ", 24, odd).items.map(({label}) => label), ["true", "false", "null"])
})

test("the schema is searched, names that begin with the words first", () => {
  const found = schema.search("BRAND", 100).map(({type, field}) => (field ? `${type.name}.${field.name}` : type.name))
  assert.ok(found.includes("Brand") && found.includes("Product.brand") && found.includes("Product.brandId"))
  assert.equal(schema.search("a", 3).length, 3)
  assert.deepEqual(schema.search(" ", 3), [])
  assert.equal(typeText({kind: "NON_NULL", ofType: {kind: "LIST", ofType: {kind: "SCALAR", name: "ID"}}}), "[ID]!")
  assert.match(INTROSPECTION, /__schema/)
})

test("a document is formatted", () => {
  assert.equal(formatted('query   A($a:[ID!]!=["x"]$b:Int@d){a:Product(name:$a,price:{x:1 y:[1 2]})@include(if:true){...F...on B{c}...@skip(if:$b){d}}#end\n}fragment F on B{e}'), `query A($a: [ID!]! = ["x"], $b: Int @d) {
  a: Product(name: $a, price: {x: 1, y: [1, 2]}) @include(if: true) {
    ...F
    ... on B {
      c
    }
    ... @skip(if: $b) {
      d
    }
  } #end
}

fragment F on B {
  e
}
`)
  assert.equal(formatted("query($a:Int){a}"), "query ($a: Int) {\n  a\n}\n")
  assert.equal(formatted("# first\n{a # one\n# two\nb(# three\nc:1)}\n# last"), "# first\n{\n  a # one\n  # two\n  b( # three\n    c: 1)\n}\n\n# last\n")
  for (const broken of ["{", "}", "{ a(b: 1 }", "{ é }", '{ a(b: "x) }', '{ a(b: """x) }']) assert.equal(formatted(broken), null)
  assert.equal(formatted(""), "")
})

test("formatting changes no token, and twice is once", () => {
  const parts = ["a", "a: b", "a(b: 1, c: {d: [1 2, {e: $f}]})", "...F", "... on T { x }", "...{ y }", "@d", "a @d(e: 1) { z }", "# c\n", 'a(b: """\n x\n  y""")', '"s"', "on", "query"]
  let seed = 7
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below
  const written = (text) => tokensOf(text).map(({kind, text: word}) => (kind === "comment" ? word.trimEnd() : word))
  for (let round = 0; round < 500; round += 1) {
    const text = `query Q($f: [Int!] = [1]) { ${Array.from({length: random(8)}, () => parts[random(parts.length)]).join(random(2) ? " " : "\n")} \n}`
    const once = formatted(text)
    assert.deepEqual(written(once), written(text), text)
    assert.equal(formatted(once), once, text)
  }
})

test("JSON is read as JSON.parse reads it, or has a place where it is wrong", () => {
  const value = (node) => {
    if (node.kind === "object") return Object.fromEntries(node.entries.map(([key, inner]) => [key, value(inner)]))
    return node.kind === "array" ? node.items.map(value) : node.kind === "string" ? node.value : JSON.parse(node.text)
  }
  const good = ['{"a": [1, -2.5e+3, true, null, "x\\u00e9\\n"], "b": {}}', "[]", "{}", ' "x" ', "0", "[[[]], {}]", '{"": ""}']
  for (const text of good) {
    assert.deepEqual(value(readJson(text).tree), JSON.parse(text))
    assert.deepEqual(JSON.parse(indentedJson(text)), JSON.parse(text))
  }
  assert.equal(indentedJson('{"a":[1,{}],"b":[]}'), '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}')
  assert.equal(indentedJson("12345678901234567890"), "12345678901234567890")
  const pieces = ["{", "}", "[", "]", ",", ":", '"a"', "1", "true", " ", "01", "'", "nul", '"\\x"', "\u00a0"]
  let seed = 3
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below
  for (let round = 0; round < 2000; round += 1) {
    const text = Array.from({length: 1 + random(7)}, () => pieces[random(pieces.length)]).join("")
    let isJson = true
    try {
      JSON.parse(text)
    } catch {
      isJson = false
    }
    assert.equal(readJson(text).fault === undefined, isJson, text)
  }
  const {line, column} = readJson('{\n  "a": 1,\n  b: 2\n}').fault
  assert.deepEqual([line, column], [3, 3])
  assert.equal(offsetOf("ab\ncd\n", {line: 2, column: 2}), 4)
  assert.equal(offsetOf("ab", {line: 9, column: 9}), 2)
  assert.deepEqual(placeOf("ab\ncd", 4), {line: 2, column: 2})
  assert.equal(readJson("[".repeat(100_000)).fault.offset, 100_000)
  assert.ok(readJson("[".repeat(100_000) + "]".repeat(100_000)).tree)
  assert.deepEqual(styledJson('{"a": "b" é').map(({style}) => style), ["punctuator", "argument", "string", "punctuator"])
})

test("events of a stream, however it is cut", () => {
  const stream = ": hello\nevent: next\ndata: {\"a\":\ndata: 1}\nid: 3\n\r\n\ndata:x\r\n\r\nevent: complete\ndata\n\ndata: not finished"
  const expected = [{type: "next", data: '{"a":\n1}'}, {type: "message", data: "x"}, {type: "complete", data: ""}]
  for (let size = 1; size <= stream.length; size += 1) {
    const reader = new EventReader()
    const found = []
    for (let start = 0; start < stream.length; start += size) found.push(...reader.receive(stream.slice(start, start + size)))
    assert.deepEqual(found, expected, size)
  }
})

test("requests hold the variables as they were written", () => {
  assert.equal(bodyOf({query: 'a"', variables: '{"id": 9007199254740993}', operationName: "A"}), '{"query":"a\\"","operationName":"A","variables":{"id": 9007199254740993}}')
  assert.equal(bodyOf({query: "a", variables: " \n"}), '{"query":"a"}')
})

test("header fields are checked before they are sent", () => {
  const of = (text) => headersOf(readJson(text).tree)
  assert.deepEqual({...of('{"Authorization": "Bearer x"}').headers}, {Authorization: "Bearer x"})
  assert.deepEqual(headersOf(null), {headers: {}})
  for (const bad of ["[]", '{"a": 1}', '{"a b": "c"}', '{"a": "b\\nc"}', '{"a": "\\u20ac"}', '{"": "x"}']) assert.ok(of(bad).fault, bad)
  assert.deepEqual(Object.keys(of('{"__proto__": "x"}').headers), ["__proto__"])
  assert.equal(nameIn({authorization: `Basic ${btoa("ann:s3cret:x")}`}), "ann")
  assert.equal(nameIn({Authorization: `Bearer a.${btoa('{"sub":"bob"}')}.c`}), "bob")
  assert.equal(nameIn({Authorization: "Bearer opaque"}), "the owner of a token")
  assert.equal(nameIn({Authorization: "Basic"}), "")
  assert.equal(nameIn({}), null)
})

test("errors are read from any answer", () => {
  assert.deepEqual(errorsIn('{"errors":[{"message":"no","locations":[{"line":2,"column":3},{"line":0}]},{}]}'), [
    {message: "no", locations: [{line: 2, column: 3}]}, {message: "", locations: []},
  ])
  for (const odd of ["", "[]", "null", '{"errors": 1}', '{"errors":[1,null,[]]}', '{"errors":[{"locations":{}}]}', "<html>"]) assert.ok(Array.isArray(errorsIn(odd)), odd)
  assert.deepEqual([sizeText(12), sizeText(1234), sizeText(2_500_000)], ["12 B", "1.2 kB", "2.5 MB"])
})

class Storage {
  constructor(room = Infinity, kept = {}) {
    Object.assign(this, {room, kept: new Map(Object.entries(kept))})
  }

  getItem(key) {
    return this.kept.get(key) ?? null
  }

  setItem(key, value) {
    if (value.length > this.room) throw new Error("full")
    this.kept.set(key, value)
  }
}

const asked = (query) => ({query, variables: "", operationName: "", headers: {Authorization: "secret"}})

test("the history keeps a hundred requests and all favourites, and no credentials", () => {
  const storage = new Storage()
  const history = new History(storage, () => 1)
  for (let count = 0; count < 150; count += 1) history.add(asked(`{ a${count} }`))
  assert.equal(history.entries.length, 100)
  history.mark(history.entries[99], true)
  history.add(asked("{ more }"))
  assert.equal(history.entries.length, 101)
  assert.equal(history.find("")[0].query, "{ a50 }")
  assert.equal(history.find("MORE").length, 1)
  history.add(asked("{ a50 }"))
  assert.ok(history.entries[0].isFavourite)
  assert.ok(!storage.getItem("svc.graphql.history").includes("secret"))
  assert.deepEqual(new History(storage).entries, history.entries)
  history.clear()
  assert.deepEqual(history.entries.map(({query}) => query), ["{ a50 }"])
  history.remove(history.entries[0])
  assert.deepEqual(history.entries, [])
  history.add(asked("x".repeat(100_000)))
  assert.deepEqual(history.entries, [])
})

test("a storage that is full, damaged or closed does not stop the page", () => {
  const small = new History(new Storage(300), () => 1)
  for (let count = 0; count < 20; count += 1) small.add(asked(`{ a${count} }`))
  assert.equal(small.entries.length, 20)
  assert.ok(new History(small.storage).entries.length > 0)
  for (const text of ["{", "null", "1", '"x"', '[1, null, {"query": 1}]', '{"filter": 1}']) {
    const history = new History(new Storage(Infinity, {"svc.graphql.history": text, "svc.graphql.draft": text}))
    assert.deepEqual([history.entries, history.draft], [[], null], text)
  }
  const closed = new History(null)
  closed.add(asked("{ a }"))
  assert.equal(closed.entries.length, 1)
})

test("links hold a request in the fragment", () => {
  const request = {query: "{ a(b: \"&#+ é\") }", variables: '{"x": 1}', operationName: "A"}
  assert.deepEqual(fromFragment(toFragment(request)), request)
  assert.deepEqual(fromFragment("#query=a"), {query: "a", variables: "", operationName: ""})
  for (const fragment of ["", "#", "#query-text", "#query=", "#%"]) assert.equal(fromFragment(fragment), null)
})
