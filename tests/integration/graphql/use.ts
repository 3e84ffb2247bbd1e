import type { DearQuery, OneProductQuery, OneProductQueryVariables } from "./generated.js";

export const variables: OneProductQueryVariables = { id: "1" };

export function names(found: OneProductQuery): string[] {
  return found.Product.map((product) => `${product.name ?? "?"} of ${product.brand?.name ?? "?"}, ${product.tags?.[0] ?? "?"}`);
}

export function total(found: DearQuery): number {
  return found.Product.reduce((sum, product) => sum + (product.price ?? 0), 0);
}

// @ts-expect-error: an id is asked for
export const missing: OneProductQueryVariables = {};

// @ts-expect-error: no such attribute is selected
export const unknown = (found: OneProductQuery) => found.Product[0]!.weight;
