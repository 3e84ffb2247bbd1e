// Mutations and subscriptions: graphql-ws, graphql-sse, Apollo Client over both HTTP and graphql-ws.
import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql } from "@apollo/client/core";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { OperationTypeNode } from "graphql";
import { createClient as createSseClient } from "graphql-sse";
import { createClient as createWsClient } from "graphql-ws";

const DEAR = 'subscription Dear { Product(_where: "price=gt=100", _sort: ["-price"]) { id price brand { name } } }';
const UNKNOWN = "subscription { Nothing { id } }";
const CREATE = "mutation ($input: ProductInput!) { create_Product(input: $input) { id name price } }";
const PATCH = "mutation ($id: ID!, $input: ProductInput!) { patch_Product(id: $id, input: $input) { id price } }";
const DELETE = "mutation ($id: ID!) { delete_Product(id: $id) }";

// [query, variables] -> what is sent after each list that has come
const changesOf = (id) => [
  [CREATE, { input: { id, name: "Gem", price: 900, brandId: "1" } }],
  [PATCH, { id, input: { price: 901 } }],
  [DELETE, { id }],
];

const codes = (error) => (Array.isArray(error) ? error : error.errors ?? [error]).map((each) => each.extensions?.code ?? String(each));

async function one(client, query, variables) {
  for await (const result of client.iterate({ query, variables })) return result.data ?? codes(result.errors);
}

async function followed(client, id, change = (query, variables) => one(client, query, variables)) {
  const changes = changesOf(id);
  const lists = [];
  const answers = [];
  for await (const { data, errors } of client.iterate({ query: DEAR })) {
    if (errors) return errors;
    lists.push(data.Product);
    if (changes.length === 0) break;
    answers.push(await change(...changes.shift()));
  }
  return { lists, answers };
}

async function refused(client, query) {
  try {
    return await one(client, query);
  } catch (error) {
    return codes(error);
  }
}

const addressOf = (url) => url.replace("http", "ws");

export async function graphqlWs(url, token) {
  const client = createWsClient({ url: addressOf(url), connectionParams: { Authorization: `Bearer ${token}` } });
  const stranger = createWsClient({ url: addressOf(url), connectionParams: { Authorization: "Bearer none" }, retryAttempts: 0 });
  try {
    return {
      ...(await followed(client, "ws")),
      query: await one(client, "query ($id: ID!) { Product(id: $id) { name } }", { id: "1" }),
      unknown: await refused(client, UNKNOWN),
      stranger: await one(stranger, "{ Product { id } }").catch((event) => event.code),
    };
  } finally {
    await client.dispose();
    await stranger.dispose();
  }
}

export async function graphqlSse(url, headers) {
  const client = createSseClient({ url, headers });
  const stranger = createSseClient({ url, retryAttempts: 0 });
  try {
    return {
      ...(await followed(client, "sse")),
      unknown: await refused(client, UNKNOWN),
      stranger: await one(stranger, "{ Product { id } }").catch((error) => error.response?.status ?? String(error)),
    };
  } finally {
    client.dispose();
    stranger.dispose();
  }
}

export async function apolloChanges(url, headers, token) {
  const socket = createWsClient({ url: addressOf(url), connectionParams: { Authorization: `Bearer ${token}` } });
  const link = ApolloLink.split(
    ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
    new GraphQLWsLink(socket),
    new HttpLink({ uri: url, headers }),
  );
  const client = new ApolloClient({ link, cache: new InMemoryCache() });
  const cached = () => client.cache.extract()["Product:apollo"]?.price;
  const changes = changesOf("apollo");
  const lists = [];
  const prices = [];
  try {
    await new Promise((resolve, reject) => {
      const subscription = client.subscribe({ query: gql(DEAR) }).subscribe({
        async next({ data, error }) {
          if (error) return reject(error);
          lists.push(data.Product.map(({ id, price }) => [id, price]));
          if (changes.length === 0) {
            subscription.unsubscribe();
            return resolve();
          }
          const [mutation, variables] = changes.shift();
          await client.mutate({ mutation: gql(mutation), variables }).catch(reject);
          prices.push(cached());
        },
        error: reject,
      });
    });
  } finally {
    await socket.dispose();
  }
  return { lists, prices };
}
