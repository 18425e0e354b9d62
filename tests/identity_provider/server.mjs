// The npm package `oidc-provider` as a test starts it: its own pages for logging in and consent, any password is right.
// Argument: {"port", "redirect", "after", "groups"} as JSON.
import { Provider } from 'oidc-provider';

const given = JSON.parse(process.argv[2]);
const issuer = `http://localhost:${given.port}`;

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'desk',
    client_secret: 'a-secret-of-the-desk/with+signs=',
    redirect_uris: [given.redirect],
    post_logout_redirect_uris: [given.after],
    response_types: ['code'],
    grant_types: ['authorization_code'],
  }],
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'], email: ['email', 'email_verified'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['only for tests'] },
  pkce: { required: () => true },
  async findAccount(_ctx, id) {
    const claims = { sub: id, preferred_username: id, email: `${id}@acme.example`, email_verified: true, groups: given.groups };
    return { accountId: id, claims: async () => claims };
  },
});

provider.listen(given.port, '127.0.0.1', () => console.log('ready'));
