// node main.mjs URL AUTHORIZATION: asks a server through clients of GraphQL and writes what they got to stdout, as one object of JSON.
// A part that throws is { "threw": stack }.
import { audits } from "./audits.mjs";
import { generated } from "./generated.mjs";
import { apollo, graphqlRequest, urql } from "./requests.mjs";

const [url, authorization] = process.argv.slice(2);
const headers = { authorization };
const parts = {
  audits: () => audits(url, authorization),
  graphqlRequest: () => graphqlRequest(url, headers),
  urql: () => urql(url, headers),
  apollo: () => apollo(url, headers),
  generated: () => generated(url, headers, import.meta.dirname),
};
const told = {};
for (const [name, run] of Object.entries(parts)) {
  const before = process.cpuUsage();
  told[name] = await run().catch((error) => ({ threw: String(error.stack) }));
  const used = process.cpuUsage(before);
  console.error(name, Math.round((used.user + used.system) / 1000), "ms of CPU");
}
process.stdout.write(JSON.stringify(told));
