import Stripe from 'stripe';
import * as z from 'zod';
import { PlatformError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Order, PaymentRef, PaymentState, Payments } from '#core/ports/payments.ts';

export interface StripeSettings {
  /** A secret or restricted key. */
  readonly key: string;
  /** Secret that signs events, `whsec_...`. */
  readonly webhookSecret: string;
  /** Origin of another server with Stripe's API. @default - Stripe's own */
  readonly url?: string;
}

/** Maximum age of an event's signature, in seconds (docs.stripe.com/webhooks#replay-attacks). */
const TOLERANCE_SECONDS = 300;
/** Request timeout: two attempts must end before API Gateway's 29 seconds. */
const REQUEST_MS = 10_000;
const RETRIES = 1;

/** Events that cause a payment to be read again. */
const EVENTS = [
  'checkout.session.completed',
  'checkout.session.async_payment_succeeded',
  'checkout.session.async_payment_failed',
  'checkout.session.expired',
  'charge.refunded',
  'refund.updated',
  'refund.failed',
  'charge.dispute.created',
  'charge.dispute.closed',
] as const satisfies Stripe.Event['type'][];

/** Dispute statuses that withhold no money: early warnings, and disputes that were won. */
const HARMLESS_DISPUTES: readonly string[] = [
  'warning_needs_response',
  'warning_under_review',
  'warning_closed',
  'prevented',
  'won',
];
const UNMADE_REFUNDS: readonly (string | null)[] = ['failed', 'canceled'];

/** {@link Payments} over Stripe Checkout, with the SDK's API version. */
export function createStripePayments(settings: StripeSettings, clock: Pick<Clock, 'now'>): Payments {
  const stripe = new Stripe(settings.key, {
    ...(settings.url !== undefined && serverAt(settings.url)),
    timeout: REQUEST_MS,
    maxNetworkRetries: RETRIES,
    telemetry: false,
  });
  return new StripePayments(stripe, settings.webhookSecret, clock);
}

function serverAt(url: string): Pick<Stripe.StripeConfig, 'host' | 'port' | 'protocol'> {
  const { protocol, hostname, port } = new URL(url);
  const isPlain = protocol === 'http:';
  return { protocol: isPlain ? 'http' : 'https', host: hostname, port: port || (isPlain ? 80 : 443) };
}

class StripePayments implements Payments {
  readonly #stripe: Stripe;
  readonly #secret: string;
  readonly #clock: Pick<Clock, 'now'>;

  constructor(stripe: Stripe, secret: string, clock: Pick<Clock, 'now'>) {
    this.#stripe = stripe;
    this.#secret = secret;
    this.#clock = clock;
  }

  async createCheckout(order: Order) {
    // Refunds and disputes belong to the payment intent, not to the session, so the metadata is on both.
    const metadata = { workspace_id: order.workspaceId, topup_id: order.topUpId };
    const session = await this.#stripe.checkout.sessions.create(
      {
        mode: 'payment',
        client_reference_id: order.workspaceId,
        metadata,
        payment_intent_data: { metadata },
        line_items: [
          {
            quantity: 1,
            price_data: { currency: 'usd', unit_amount: order.cents, product_data: { name: order.title } },
          },
        ],
        success_url: order.successUrl,
        expires_at: Math.floor(order.expiresAt / 1000),
      },
      { idempotencyKey: `topup:${order.topUpId}` },
    );
    if (session.url === null) throw new Error(`the checkout session ${session.id} has no address`);
    return { sessionId: session.id, url: session.url };
  }

  async retrieve(ref: PaymentRef): Promise<PaymentState | undefined> {
    const session = await this.#findSession(ref);
    const { workspace_id: workspaceId, topup_id: topUpId } = session?.metadata ?? {};
    if (!session || workspaceId === undefined || topUpId === undefined) return undefined;
    const intent = session.payment_intent as Stripe.PaymentIntent | null;
    const charge = intent?.latest_charge as Stripe.Charge | null | undefined;
    const isPaid = session.status === 'complete' && session.payment_status !== 'unpaid';
    // Read only if the charge says that there are any.
    const refunds = charge && charge.amount_refunded > 0 ? await this.#refundedOf(intent!.id) : 0;
    const disputes = charge?.disputed ? await this.#disputesOf(intent!.id) : { cents: 0, hasOpen: false };
    return {
      sessionId: session.id,
      topUpId,
      workspaceId,
      status: isPaid ? 'paid' : statusOfUnpaid(session, intent),
      paidCents: isPaid && session.currency === 'usd' ? (session.amount_total ?? 0) : 0,
      refundedCents: refunds,
      disputedCents: disputes.cents,
      hasOpenDispute: disputes.hasOpen,
      receiptUrl: charge?.receipt_url ?? null,
    };
  }

  async parseEvent(body: string, signature: string | null): Promise<PaymentRef | undefined> {
    let event: unknown;
    try {
      event = await this.#stripe.webhooks.constructEventAsync(
        body,
        signature ?? '',
        this.#secret,
        TOLERANCE_SECONDS,
        undefined,
        this.#clock.now(),
      );
    } catch {
      // The check makes no request, so every error is due to the event itself: a malformed header fails in several
      // ways.
      throw new PlatformError(
        'INVALID_INPUT',
        'header.stripe-signature: it is not the signature of this body, or it is older than 300 seconds.',
        { hint: 'The platform and the endpoint at Stripe must have the same signing secret (docs/billing.md).' },
      );
    }
    const { data, error } = eventShape.safeParse(event);
    if (error) {
      const [{ path, message }] = error.issues as [z.core.$ZodIssue];
      throw new PlatformError('INVALID_INPUT', `body${path.map((name) => `.${String(name)}`).join('')}: ${message}`);
    }
    return refOf(data);
  }

  async *changedSince(at: number): AsyncIterable<PaymentRef> {
    const created = { gte: Math.floor(at / 1000) };
    for await (const event of this.#stripe.events.list({ types: [...EVENTS], created, limit: 100 })) {
      const ref = refOf(eventShape.parse(event));
      if (ref) yield ref;
    }
  }

  async #findSession(ref: PaymentRef): Promise<Stripe.Checkout.Session | undefined> {
    const { sessions } = this.#stripe.checkout;
    if ('paymentId' in ref) {
      const expand = ['data.payment_intent.latest_charge'];
      return (await sessions.list({ payment_intent: ref.paymentId, limit: 1, expand })).data[0];
    }
    try {
      return await sessions.retrieve(ref.sessionId, { expand: ['payment_intent.latest_charge'] });
    } catch (error) {
      if (error instanceof Stripe.errors.StripeInvalidRequestError && error.code === 'resource_missing')
        return undefined;
      throw error;
    }
  }

  async #refundedOf(payment: string): Promise<number> {
    let cents = 0;
    for await (const { status, amount } of this.#stripe.refunds.list({ payment_intent: payment, limit: 100 })) {
      if (!UNMADE_REFUNDS.includes(status)) cents += amount;
    }
    return cents;
  }

  async #disputesOf(payment: string): Promise<{ cents: number; hasOpen: boolean }> {
    let [cents, hasOpen] = [0, false];
    for await (const { status, amount } of this.#stripe.disputes.list({ payment_intent: payment, limit: 100 })) {
      if (HARMLESS_DISPUTES.includes(status)) continue;
      cents += amount;
      hasOpen ||= status !== 'lost';
    }
    return { cents, hasOpen };
  }
}

function statusOfUnpaid(session: Stripe.Checkout.Session, intent: Stripe.PaymentIntent | null): PaymentState['status'] {
  if (session.status === 'open') return 'open';
  // The session stays complete if a bank transfer fails later; its payment then awaits another method.
  return session.status === 'complete' && intent?.status === 'processing' ? 'processing' : 'closed';
}

/** Returns the payment of an event in {@link EVENTS}. */
function refOf({ type, data }: z.output<typeof eventShape>): PaymentRef | undefined {
  if (!(EVENTS as readonly string[]).includes(type)) return undefined;
  const { object: kind, id, payment_intent: payment } = data.object;
  if (kind === 'checkout.session') return id === undefined ? undefined : { sessionId: id };
  if (payment === null || payment === undefined) return undefined;
  return { paymentId: typeof payment === 'string' ? payment : payment.id };
}

/** The relevant part of an event (docs.stripe.com/api/events/object): a session, charge, refund or dispute. */
const eventShape = z.object({
  type: z.string(),
  data: z.object({
    object: z.object({
      object: z.string().optional(),
      id: z.string().optional(),
      payment_intent: z.union([z.string(), z.object({ id: z.string() })]).nullish(),
    }),
  }),
});
