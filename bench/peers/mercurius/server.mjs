// The peer made of Fastify, Mercurius and SQLite: items and brands in GraphQL. BENCH_DATABASE names the file, BENCH_PORT the port.
// Operations are compiled at their first use (`jit`), and a list comes with its brands in one statement.
import Fastify from "fastify";
import mercurius from "mercurius";
import { DatabaseSync } from "node:sqlite";

const database = new DatabaseSync(process.env.BENCH_DATABASE, { readOnly: true });
const select =
  "SELECT item.id, item.name, category, price, brandId, brand.name AS brandName FROM item LEFT JOIN brand ON brand.id = brandId WHERE ";
const byId = database.prepare(`${select} item.id = ?`);
const byCategory = database.prepare(`${select} category = ?`);

const schema = `
  type Brand { id: ID! name: String! }
  type Item { id: ID! name: String! category: String! price: Float! brand: Brand }
  type Query { Item(id: ID, category: String): [Item!]! }
`;
const itemOf = (row) => ({ ...row, brand: row.brandName === null ? null : { id: row.brandId, name: row.brandName } });
const resolvers = {
  Query: { Item: (_, { id, category }) => (id === undefined ? byCategory.all(category) : byId.all(id)).map(itemOf) },
};

const app = Fastify({ logger: false });
app.register(mercurius, { schema, resolvers, jit: 1 });
await app.listen({ port: Number(process.env.BENCH_PORT), host: "127.0.0.1" });
