import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { readBounded } from '#core/http/body.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { returnPage } from './return-page.ts';
import type { topUpRoutes } from './routes.ts';
import { addTopUp, noteSession } from './store.ts';
import { type SyncDeps, syncTopUp } from './sync.ts';

/** Lifetime of a payment page; the provider allows 30 minutes to 24 hours. */
const PAGE_MS = 2 * 3600 * 1000;
/** Larger than any event of the provider. */
const MAX_EVENT_BYTES = 1024 * 1024;
const SESSION_ID = /^cs_\w{1,252}$/;

export function topUpHandlers(deps: SyncDeps & Pick<Deps, 'config'>): Handlers<typeof topUpRoutes> {
  const checkout = async ({ caller, body }: Incoming<(typeof topUpRoutes)[0]>) => ({
    status: 200 as const,
    body: await createCheckout(deps, caller, centsOf(body)),
  });
  return {
    createCheckout: checkout,
    addCredits: checkout,

    async getCheckout({ params: { session_id: sessionId }, request }) {
      const { topUp } = SESSION_ID.test(sessionId) ? await syncTopUp(deps, { sessionId }) : {};
      if (!topUp) throw new PlatformError('NOT_FOUND', 'There is no such purchase of credits.');
      const { status, cents } = topUp;
      if (request.headers.get('accept')?.includes('text/html')) {
        return {
          status: 200,
          raw: { contentType: 'text/html; charset=utf-8', content: returnPage({ status, cents }) },
        };
      }
      return { status: 200, body: { session_id: sessionId, status, amount_cents: cents } };
    },

    async receivePaymentEvent({ request }) {
      const body = new TextDecoder().decode(await readBounded(request, { bytes: MAX_EVENT_BYTES }));
      const ref = await deps.payments.parseEvent(body, request.headers.get('stripe-signature'));
      // An error here is answered with status 500, and the provider sends the event again.
      if (ref) await syncTopUp(deps, ref);
      return { status: 200, body: { received: true } };
    },
  };
}

/** Returns the amount in cents. Clients send null for the member that they do not use. Throws INVALID_INPUT. */
function centsOf({ amount_usd, amount_cents }: { amount_usd?: number | null; amount_cents?: number | null }): number {
  const [usd, cents] = [amount_usd ?? undefined, amount_cents ?? undefined];
  if ((usd === undefined) === (cents === undefined)) {
    throw new PlatformError('INVALID_INPUT', 'body: give either amount_usd or amount_cents.');
  }
  return usd === undefined ? cents! : Math.round(usd * 100);
}

async function createCheckout(deps: SyncDeps & Pick<Deps, 'config'>, { workspace }: Caller, cents: number) {
  const topUp = await addTopUp(deps, workspace.id, cents);
  const { sessionId, url } = await deps.payments.createCheckout({
    topUpId: topUp.id,
    workspaceId: workspace.id,
    cents,
    title: `Credits of the workspace ${workspace.slug}`,
    successUrl: `${deps.config.baseUrl ?? ''}/billing/checkout/{CHECKOUT_SESSION_ID}`,
    expiresAt: deps.clock.now() + PAGE_MS,
  });
  await noteSession(deps, topUp, sessionId);
  return { checkout_url: url, session_id: sessionId };
}
