// Queries through graphql-request, urql and Apollo Client.
import { ApolloClient, HttpLink, InMemoryCache, gql as apolloGql } from "@apollo/client/core";
import { Client, cacheExchange, fetchExchange, gql as urqlGql } from "@urql/core";
import { ClientError, GraphQLClient, gql } from "graphql-request";

const ONE = "query ($id: ID!) { Product(id: $id) { id name brand { id name } } }";
const ALL = "{ Product { id name brand { id name } } Brand { id products { id name } } }";
const BROKEN = "query { Nothing { id } }";
const NEEDS = "query ($id: ID!) { Product(id: $id) { id } }";

export async function graphqlRequest(url, headers) {
  const client = new GraphQLClient(url, { headers });
  const byGet = new GraphQLClient(url, { headers, method: "GET", jsonSerializer: JSON });
  const fault = (error) => [error instanceof ClientError, error.response.status, error.response.errors[0].extensions.code];
  return {
    one: await client.request(gql([ONE]), { id: "1" }),
    byGet: await byGet.request(ONE, { id: "1" }),
    several: await client.request("query A { Product(id: 1) { id } B: Brand(id: 2) { id } }"),
    broken: await client.request(BROKEN).catch(fault),
    missing: await client.request(NEEDS).catch(fault),
    anonymous: await new GraphQLClient(url).request(ONE, { id: "1" }).catch(fault),
  };
}

export async function urql(url, headers) {
  let requests = 0;
  const counted = (...all) => (requests++, fetch(...all));
  const options = { url, fetchOptions: { headers }, fetch: counted, exchanges: [cacheExchange, fetchExchange] };
  const client = new Client({ ...options, preferGetMethod: false });
  const byGet = new Client({ ...options, preferGetMethod: "force" });
  const ask = async (client, text, variables) => {
    const { data, error } = await client.query(urqlGql(text), variables).toPromise();
    return error ? error.graphQLErrors.map((each) => each.extensions.code) : data;
  };
  return {
    one: await ask(client, ONE, { id: "1" }),
    again: await ask(client, ONE, { id: "1" }),
    requests,
    byGet: await ask(byGet, ONE, { id: "1" }),
    broken: await ask(client, BROKEN),
    missing: await ask(client, NEEDS, {}),
  };
}

export async function apollo(url, headers) {
  let requests = 0;
  const counted = (...all) => (requests++, fetch(...all));
  const cache = new InMemoryCache();
  const client = new ApolloClient({ link: new HttpLink({ uri: url, headers, fetch: counted }), cache });
  const all = (await client.query({ query: apolloGql(ALL) })).data;
  const before = requests;
  // Everything that this asks for is in the cache, by type and id.
  const again = await client.query({ query: apolloGql("{ Brand { id products { id name } } }") });
  const fault = (error) => [error.name, error.errors?.map((each) => each.extensions.code) ?? error.statusCode];
  return {
    all,
    again: again.data,
    requests: [before, requests],
    normalised: Object.keys(cache.extract()).sort(),
    pen: cache.extract()["Product:1"],
    one: (await client.query({ query: apolloGql(ONE), variables: { id: "1" } })).data,
    broken: await client.query({ query: apolloGql(BROKEN) }).catch(fault),
    missing: await client.query({ query: apolloGql(NEEDS), fetchPolicy: "network-only" }).catch(fault),
  };
}
