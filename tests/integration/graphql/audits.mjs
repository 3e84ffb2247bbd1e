// The audits of graphql-http: how a server fulfils the draft "GraphQL over HTTP".
import { serverAudits } from "graphql-http";

// url, authorization: string -> { id: { name, status: "ok" | "warn" | "error", reason } }
export async function audits(url, authorization) {
  const fetchFn = (address, options = {}) => fetch(address, { ...options, headers: { ...options.headers, authorization } });
  const found = {};
  for (const audit of serverAudits({ url, fetchFn })) {
    const { id, name, status, reason = null, response } = await audit.fn();
    await response?.body?.cancel?.();
    found[id] = { name, status, reason };
  }
  return found;
}
