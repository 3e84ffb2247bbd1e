// What GraphQL Code Generator makes of the introspection, and what the compiler of TypeScript says of code that uses it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codegen } from "@graphql-codegen/core";
import * as operationsPlugin from "@graphql-codegen/typescript-operations";
import * as typesPlugin from "@graphql-codegen/typescript";
import { buildClientSchema, getIntrospectionQuery, parse, printSchema, validate, validateSchema } from "graphql";
import ts from "typescript";

export async function introspected(url, headers) {
  const query = getIntrospectionQuery({ specifiedByUrl: true, inputValueDeprecation: true, schemaDescription: true, directiveIsRepeatable: true });
  const options = { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify({ query }) };
  const { data } = await (await fetch(url, options)).json();
  return buildClientSchema(data);
}

export async function generated(url, headers, directory) {
  const schema = await introspected(url, headers);
  const operations = parse(readFileSync(join(directory, "operations.graphql"), "utf8"));
  const config = { strictScalars: false, skipTypename: true };
  const text = await codegen({
    schema: parse(printSchema(schema)),
    schemaAst: schema,
    documents: [{ location: "operations.graphql", document: operations }],
    filename: "generated.ts",
    config,
    plugins: [{ types: {} }, { operations: {} }],
    pluginMap: { types: typesPlugin, operations: operationsPlugin },
  });
  writeFileSync(join(directory, "generated.ts"), text);
  return {
    schema: validateSchema(schema).map(String),
    operations: validate(schema, operations).map(String),
    printed: printSchema(schema),
    text,
    compiled: compiled(join(directory, "use.ts")),
  };
}

function compiled(file) {
  const options = {
    strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, lib: ["lib.es2022.d.ts"],
    noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, types: [],
  };
  const program = ts.createProgram([file], options);
  return ts.getPreEmitDiagnostics(program).map((found) => ts.flattenDiagnosticMessageText(found.messageText, "\n"));
}
