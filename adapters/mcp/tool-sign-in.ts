import { lazy } from '#core/base/lazy.ts';
import type { OutboundExchanges } from '#core/ports/outbound.ts';
import type { ToolSignIn } from '#core/ports/tool-sign-in.ts';

/** {@link ToolSignIn} with the OAuth functions of MCP's SDK. Everything is loaded on first use. */
export function createToolSignIn(deps: { readonly outbound: OutboundExchanges }): ToolSignIn {
  const load = lazy(async () => (await import('./oauth-client.ts')).loadOAuthClient(deps.outbound));
  return {
    begin: async (wish) => (await load()).begin(wish),
    finish: async (attempt, answer) => (await load()).finish(attempt, answer),
    refresh: async (grant, refreshToken) => (await load()).refresh(grant, refreshToken),
    revoke: async (grant, tokens) => (await load()).revoke(grant, tokens),
  };
}
