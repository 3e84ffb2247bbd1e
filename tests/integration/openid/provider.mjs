// A provider of OpenID Connect: node provider.mjs PORT REDIRECT_URI...; anybody may log in with any password, as anybody whose name does not begin with "no".
import Provider from "oidc-provider"

const [port, ...redirects] = process.argv.slice(2)
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{client_id: "shop", client_secret: "s3cret/:?", redirect_uris: redirects}],
  claims: {openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "preferred_username"]},
  conformIdTokenClaims: process.env.CLAIMS_IN_TOKEN !== "true",
  cookies: {keys: ["of a test"]},
  pkce: {required: () => true},
  findAccount: (context, id) => ({
    accountId: id,
    claims: () => ({sub: id, email: `${id}@example.org`, email_verified: !id.startsWith("un"), name: id.toUpperCase(), preferred_username: id}),
  }),
})
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"))
