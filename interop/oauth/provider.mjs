// A certified OpenID provider with one client and as many users as anybody names.
//
//   provider.mjs PORT CLIENT_SECRET ACCESS_TOKEN_SECONDS REDIRECT_URI...
//
// Run from the folder that holds node_modules. Says `ready` when it listens.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [port, secret, life, ...redirects] = process.argv.slice(2);
const found = createRequire(pathToFileURL(`${process.cwd()}/`)).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(found));

const provider = new Provider(`http://localhost:${port}`, {
  clients: [{
    client_id: "muster",
    client_secret: secret,
    redirect_uris: redirects,
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
  }],
  cookies: { keys: ["interop"] },
  scopes: ["openid", "profile", "email", "groups", "offline_access"],
  claims: { openid: ["sub"], email: ["email"], profile: ["name"], groups: ["groups"] },
  conformIdTokenClaims: false,
  issueRefreshToken: async () => true,
  rotateRefreshToken: true,
  pkce: { required: () => true },
  ttl: { AccessToken: Number(life), IdToken: Number(life), Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
  findAccount: async (_, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, email: `${id}@example.com`, name: id, groups: ["staff"] }),
  }),
});
provider.listen(Number(port), "localhost", () => console.log("ready"));
