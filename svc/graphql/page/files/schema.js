/* A schema, as the answer to `INTROSPECTION` describes it (GraphQL October 2021, section 4). Names are keys of Maps only, for any name may come. */

const TYPE_REF = "kind name ofType{".repeat(8) + "kind name" + "}".repeat(8)
const INPUT = `name description type{${TYPE_REF}} defaultValue`

export const INTROSPECTION = `query Introspection {
  __schema {
    queryType { name } mutationType { name } subscriptionType { name }
    types {
      kind name description
      fields(includeDeprecated: true) { name description args { ${INPUT} } type { ${TYPE_REF} } isDeprecated deprecationReason }
      inputFields { ${INPUT} }
      interfaces { name }
      enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
      possibleTypes { name }
    }
    directives { name description locations args { ${INPUT} } }
  }
}`

const BUILT_IN_FIELDS = [{name: "__typename", description: "The name of the type.", args: [], type: {kind: "SCALAR", name: "String"}}]
const COMPOSITE = new Set(["OBJECT", "INTERFACE", "UNION"])
const INPUT_KINDS = new Set(["SCALAR", "ENUM", "INPUT_OBJECT"])

export class Schema {
  /** `described`: the member `__schema` of the answer. */
  constructor(described) {
    this.types = new Map((described.types ?? []).map((type) => [type.name, type]))
    this.directives = new Map((described.directives ?? []).map((directive) => [directive.name, directive]))
    this.roots = new Map()
    for (const kind of ["query", "mutation", "subscription"]) {
      const type = this.types.get(described[`${kind}Type`]?.name)
      if (type) this.roots.set(kind, type)
    }
  }

  /** The type behind lists and non-nulls; undefined for one that is not described. */
  named(reference) {
    let inner = reference
    while (inner?.ofType) inner = inner.ofType
    return this.types.get(inner?.name)
  }

  fieldsOf(type) {
    return type && COMPOSITE.has(type.kind) ? [...(type.fields ?? []), ...BUILT_IN_FIELDS] : []
  }

  field(type, name) {
    return this.fieldsOf(type).find((field) => field.name === name)
  }

  /** Types that a selection may be made of. */
  compositeTypes() {
    return [...this.types.values()].filter(({kind}) => COMPOSITE.has(kind))
  }

  /** Types that a variable may have. */
  inputTypes() {
    return [...this.types.values()].filter(({kind}) => INPUT_KINDS.has(kind))
  }

  /** Types and fields whose names contain the words, at most `limit`: [{type, field}], `field` undefined for a type itself. Those that begin with it first. */
  search(words, limit) {
    const wanted = words.trim().toLowerCase()
    if (!wanted) return []
    const found = []
    for (const type of this.types.values()) {
      if (type.name.startsWith("__")) continue
      if (rank(type.name, wanted) < 2) found.push({type, rank: rank(type.name, wanted)})
      for (const field of [...(type.fields ?? []), ...(type.inputFields ?? []), ...(type.enumValues ?? [])]) {
        if (rank(field.name, wanted) < 2) found.push({type, field, rank: rank(field.name, wanted)})
      }
    }
    return found.sort((a, b) => a.rank - b.rank).slice(0, limit)
  }
}

/** How well a name fits what was typed: 0 it begins with it, 1 it contains it, 2 not at all. Case does not matter; `wanted` is in lower case. */
export function rank(name, wanted) {
  const place = name.toLowerCase().indexOf(wanted)
  return place < 0 ? 2 : Math.min(place, 1)
}

/** `[Product!]!`, as a document writes it. */
export function typeText(reference) {
  if (!reference) return ""
  if (reference.kind === "NON_NULL") return `${typeText(reference.ofType)}!`
  if (reference.kind === "LIST") return `[${typeText(reference.ofType)}]`
  return reference.name ?? ""
}
