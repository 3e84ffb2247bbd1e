// node main.mjs URL AUTHORIZATION TOKEN: asks a server through clients of GraphQL and writes what they got to stdout, as one object of JSON.
// A part that throws is { "threw": stack }.
import { audits } from "./audits.mjs";
import { apolloChanges, graphqlSse, graphqlWs } from "./changes.mjs";
import { generated } from "./generated.mjs";
import { apollo, graphqlRequest, urql } from "./requests.mjs";

// urql aborts a request whose answer it has, and handles no rejection of it.
process.on("unhandledRejection", (error) => {
  if (error.name !== "AbortError") throw error;
});

const [url, authorization, token] = process.argv.slice(2);
const headers = { authorization };
const parts = {
  audits: () => audits(url, authorization),
  graphqlRequest: () => graphqlRequest(url, headers),
  urql: () => urql(url, headers),
  apollo: () => apollo(url, headers),
  graphqlWs: () => graphqlWs(url, token),
  graphqlSse: () => graphqlSse(url, headers),
  apolloChanges: () => apolloChanges(url, headers, token),
  generated: () => generated(url, headers, import.meta.dirname),
};
const told = {};
for (const [name, run] of Object.entries(parts)) {
  told[name] = await run().catch((error) => ({ threw: String(error.stack) }));
}
process.stdout.write(JSON.stringify(told));
