import { createHmac, randomBytes } from 'node:crypto';
import type { Clock } from '#core/ports/clock.ts';
import { formOf, isExpanded, missing, type Nested, WireError, wrong } from './stripe-wire.ts';

/** Test cards of Stripe's test mode (docs.stripe.com/testing), and a bank transfer. */
export const TEST_CARDS = {
  '4242424242424242': 'pays at once',
  '4000000000000002': 'is declined',
  '4000000000000259': 'pays, and its owner disputes the payment at once',
  '4000000000005126': 'pays, and refunds to it fail later',
  bank: 'pays later: this page then asks whether the money arrives',
} as const;
export type TestCard = keyof typeof TEST_CARDS;

interface Session {
  readonly id: string;
  readonly cents: number;
  readonly title: string;
  readonly metadata: Record<string, string>;
  readonly reference: string | null;
  readonly successUrl: string;
  readonly created: number;
  readonly expires: number;
  status: 'open' | 'complete' | 'expired';
  payment: string | null;
}
interface Payment {
  readonly id: string;
  readonly charge: string;
  readonly cents: number;
  readonly card: TestCard;
  readonly metadata: Record<string, string>;
  status: 'processing' | 'succeeded' | 'requires_payment_method';
}
interface Refund {
  readonly id: string;
  readonly payment: string;
  readonly cents: number;
  status: 'succeeded' | 'failed';
}
interface Dispute {
  readonly id: string;
  readonly payment: string;
  readonly cents: number;
  status: 'needs_response' | 'won' | 'lost';
}
interface Delivery {
  readonly event: string;
  tries: number;
  /** Epoch milliseconds of the next attempt. */
  due: number;
}

/** Persistent state of the provider, as JSON. */
export interface ScriptedState {
  readonly sessions: Record<string, Session>;
  readonly payments: Record<string, Payment>;
  readonly refunds: Record<string, Refund>;
  readonly disputes: Record<string, Dispute>;
  /** Events as sent, oldest first. */
  readonly events: { readonly id: string; readonly created: number; readonly type: string; readonly data: unknown }[];
  /** Responses by Idempotency-Key. */
  readonly answers: Record<string, { readonly path: string; readonly status: number; readonly body: unknown }>;
  deliveries: Delivery[];
}
export const emptyState = (): ScriptedState => ({
  sessions: {},
  payments: {},
  refunds: {},
  disputes: {},
  events: [],
  answers: {},
  deliveries: [],
});

export interface ScriptedStripeProps {
  readonly clock: Pick<Clock, 'now'>;
  readonly key: string;
  readonly webhookSecret: string;
  readonly state: ScriptedState;
  /** Called after each change of the state. */
  readonly changed: () => void;
}

/** Events are retried after 2, 4, 8 seconds and so on, up to hourly, for three days. */
const MAX_PAUSE_MS = 3_600_000;
const MAX_TRIES = 80;
const MIN_CENTS = 50;

/**
 * A fake payment provider with the subset of Stripe's API that the platform uses: Checkout sessions, refunds, disputes,
 * signed events and retries. `local/scripted-stripe/server.ts` serves it.
 */
export class ScriptedStripe {
  readonly #props: ScriptedStripeProps;
  /** Origin of the payment pages. */
  url = 'http://127.0.0.1';

  constructor(props: ScriptedStripeProps) {
    this.#props = props;
  }

  /** Handles a request to `/v1/...`. Returns status and JSON body. */
  answer(method: string, path: string, headers: Headers, body: string): { status: number; body: unknown } {
    try {
      if (headers.get('authorization') !== `Bearer ${this.#props.key}`) {
        throw new WireError(401, 'invalid_request_error', 'Invalid API Key provided.');
      }
      const url = new URL(path, this.url);
      const form = formOf(method === 'GET' ? url.search.slice(1) : body);
      const idempotencyKey = headers.get('idempotency-key');
      if (method !== 'POST' || idempotencyKey === null) return { status: 200, body: this.#route(method, url, form) };
      return this.#once(idempotencyKey, url.pathname, () => this.#route(method, url, form));
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      return error.answer();
    }
  }

  #once(key: string, path: string, work: () => unknown): { status: number; body: unknown } {
    const { answers } = this.#props.state;
    const before = answers[key];
    if (before !== undefined && before.path !== path) {
      const message = `Keys for idempotent requests can only be used for the same endpoint they were first used for.`;
      return new WireError(400, 'idempotency_error', message).answer();
    }
    if (before !== undefined) return before;
    const body = work();
    answers[key] = { path, status: 200, body };
    this.#props.changed();
    return { status: 200, body };
  }

  #route(method: string, url: URL, form: Nested): unknown {
    const [, , ...parts] = url.pathname.split('/');
    const pattern = `${method} ${parts.map((part) => (/^(cs|pi|re|dp)_/.test(part) ? '*' : part)).join('/')}`;
    const id = parts.find((part) => /^(cs|pi|re|dp)_/.test(part)) ?? '';
    const { sessions, refunds, disputes, events } = this.#props.state;
    switch (pattern) {
      case 'POST checkout/sessions':
        return this.#createSession(form);
      case 'GET checkout/sessions':
        return listOf(
          Object.values(sessions).filter(
            ({ payment }) => form.payment_intent === undefined || payment === form.payment_intent,
          ),
          (session) => this.#sessionView(session, isExpanded(form, 'data.payment_intent.latest_charge')),
          form,
        );
      case 'GET checkout/sessions/*':
        return this.#sessionView(this.#session(id), isExpanded(form, 'payment_intent.latest_charge'));
      case 'POST checkout/sessions/*/expire': {
        const session = this.#session(id);
        if (session.status !== 'open') throw wrong('Only Checkout Sessions with a status in ["open"] can be expired.');
        this.#expire(session);
        return this.#sessionView(session);
      }
      case 'POST refunds':
        return this.#refund(form);
      case 'GET refunds':
        return listOf(of(Object.values(refunds), form), refundView, form);
      case 'GET disputes':
        return listOf(of(Object.values(disputes), form), disputeView, form);
      case 'POST disputes/*': {
        const dispute = this.#open(id);
        // The text of the evidence decides the outcome, as in Stripe's test mode.
        const evidence = (form.evidence as Nested | undefined)?.uncategorized_text;
        if (evidence === 'winning_evidence') this.#close(dispute, 'won');
        if (evidence === 'losing_evidence') this.#close(dispute, 'lost');
        return disputeView(dispute);
      }
      case 'POST disputes/*/close':
        return disputeView(this.#close(this.#open(id), 'lost'));
      case 'POST test/refunds/*/fail':
        return this.#failRefund(id);
      case 'POST test/disputes':
        return disputeView(this.#dispute(this.#payment(String(form.payment_intent)), cents(form.amount)));
      case 'POST test/bank/*/arrive':
      case 'POST test/bank/*/bounce':
        return this.#endTransfer(this.#payment(id), pattern.endsWith('arrive'));
      case 'GET events': {
        const since = Number((form.created as Nested | undefined)?.gte ?? 0);
        const types = Object.values((form.types as Nested | undefined) ?? {});
        const wanted = events.filter(
          ({ created, type }) => created >= since && (types.length === 0 || types.includes(type)),
        );
        return listOf(wanted, (event) => event, form);
      }
      default:
        throw new WireError(404, 'invalid_request_error', `Unrecognized request URL (${method}: ${url.pathname}).`);
    }
  }

  #createSession(form: Nested): unknown {
    const known = [
      'mode',
      'client_reference_id',
      'metadata',
      'payment_intent_data',
      'line_items',
      'success_url',
      'expires_at',
      'expand',
    ];
    const unknown = Object.keys(form).find((name) => !known.includes(name));
    if (unknown !== undefined) throw wrong(`Received unknown parameter: ${unknown}`, unknown, 'parameter_unknown');
    if (form.mode !== 'payment') throw wrong('This provider takes one-time payments only.', 'mode');
    const item = (form.line_items as Nested | undefined)?.['0'] as Nested | undefined;
    const price = item?.price_data as Nested | undefined;
    if (price === undefined) throw missing('line_items');
    if (price.currency !== 'usd')
      throw wrong('This provider takes US dollars only.', 'line_items[0][price_data][currency]');
    const amount = cents(price.unit_amount) * cents(item!.quantity ?? '1');
    if (amount < MIN_CENTS) throw wrong('The amount must be at least $0.50 usd.', 'line_items', 'amount_too_small');
    const now = this.#seconds();
    const expires = form.expires_at === undefined ? now + 24 * 3600 : cents(form.expires_at);
    if (expires < now + 30 * 60 - 60 || expires > now + 24 * 3600 + 60) {
      throw wrong('The `expires_at` timestamp must be between 30 minutes and 24 hours from creation.', 'expires_at');
    }
    if (typeof form.success_url !== 'string') throw missing('success_url');
    const session: Session = {
      id: newId('cs_test_', 29),
      cents: amount,
      title: String((price.product_data as Nested | undefined)?.name ?? ''),
      metadata: (form.metadata ?? {}) as Record<string, string>,
      reference: (form.client_reference_id as string | undefined) ?? null,
      successUrl: form.success_url,
      created: now,
      expires,
      status: 'open',
      payment: null,
    };
    this.#props.state.sessions[session.id] = session;
    this.#props.changed();
    return this.#sessionView(session);
  }

  /** Returns the session for the payment page, or `undefined` if it does not exist. */
  find(sessionId: string): Readonly<Session> | undefined {
    return Object.hasOwn(this.#props.state.sessions, sessionId) ? this.#session(sessionId) : undefined;
  }

  /** Whether a session awaits a pending bank transfer. */
  isAwaited({ payment }: Pick<Session, 'payment'>): boolean {
    return payment !== null && this.#props.state.payments[payment]?.status === 'processing';
  }

  /** Completes the pending bank transfer of a session, if any. Returns the address for the browser's redirect. */
  transfer(sessionId: string, hasArrived: boolean): { readonly goTo: string } {
    const session = this.#session(sessionId);
    if (this.isAwaited(session)) this.#endTransfer(this.#payment(session.payment!), hasArrived);
    return { goTo: returnUrl(session) };
  }

  /** Pays an open session as a user would on its page. Returns the redirect address, or the problem to show. */
  pay(sessionId: string, card: TestCard): { readonly goTo: string } | { readonly problem: string } {
    const session = this.#session(sessionId);
    if (session.status !== 'open') return { problem: 'This page has been used, or it is too old.' };
    if (card === '4000000000000002') return { problem: 'Your card was declined.' };
    const payment: Payment = {
      id: newId('pi_', 12),
      charge: newId('ch_', 12),
      cents: session.cents,
      card,
      metadata: session.metadata,
      status: card === 'bank' ? 'processing' : 'succeeded',
    };
    this.#props.state.payments[payment.id] = payment;
    session.status = 'complete';
    session.payment = payment.id;
    this.#tell('checkout.session.completed', this.#sessionView(session));
    if (card === '4000000000000259') this.#dispute(payment, payment.cents);
    return { goTo: returnUrl(session) };
  }

  #endTransfer(payment: Payment, hasArrived: boolean): unknown {
    if (payment.status !== 'processing') throw wrong('This transfer has ended.');
    payment.status = hasArrived ? 'succeeded' : 'requires_payment_method';
    const session = Object.values(this.#props.state.sessions).find((each) => each.payment === payment.id)!;
    this.#tell(`checkout.session.async_payment_${hasArrived ? 'succeeded' : 'failed'}`, this.#sessionView(session));
    return { id: payment.id, status: payment.status };
  }

  #refund(form: Nested): unknown {
    const payment = this.#payment(String(form.payment_intent));
    const left = payment.cents - this.#refundedOf(payment.id);
    const amount = form.amount === undefined ? left : cents(form.amount);
    if (payment.status !== 'succeeded') throw wrong('This PaymentIntent does not have a successful charge to refund.');
    if (amount > left || amount < 1) {
      throw wrong(
        `Refund amount ($${amount / 100}) is greater than unrefunded amount on charge ($${left / 100})`,
        'amount',
      );
    }
    const refund: Refund = { id: newId('re_', 12), payment: payment.id, cents: amount, status: 'succeeded' };
    this.#props.state.refunds[refund.id] = refund;
    this.#tell('charge.refunded', this.#chargeView(payment));
    if (payment.card === '4000000000005126') this.#failRefund(refund.id);
    return refundView(refund);
  }

  #failRefund(id: string): unknown {
    const refund = this.#props.state.refunds[id];
    if (!refund) throw new WireError(404, 'invalid_request_error', `No such refund: '${id}'`, 'id', 'resource_missing');
    refund.status = 'failed';
    this.#tell('refund.failed', refundView(refund));
    return refundView(refund);
  }

  #dispute(payment: Payment, amount: number): Dispute {
    const dispute: Dispute = { id: newId('dp_', 12), payment: payment.id, cents: amount, status: 'needs_response' };
    this.#props.state.disputes[dispute.id] = dispute;
    this.#tell('charge.dispute.created', disputeView(dispute));
    return dispute;
  }

  #open(id: string): Dispute {
    const dispute = this.#props.state.disputes[id];
    if (!dispute)
      throw new WireError(404, 'invalid_request_error', `No such dispute: '${id}'`, 'id', 'resource_missing');
    if (dispute.status !== 'needs_response') throw wrong('This dispute is already closed');
    return dispute;
  }

  #close(dispute: Dispute, status: 'won' | 'lost'): Dispute {
    dispute.status = status;
    this.#tell('charge.dispute.closed', disputeView(dispute));
    return dispute;
  }

  #expire(session: Session): void {
    session.status = 'expired';
    this.#tell('checkout.session.expired', this.#sessionView(session));
  }

  #session(id: string): Session {
    const session = this.#props.state.sessions[id];
    if (!session) {
      throw new WireError(
        404,
        'invalid_request_error',
        `No such checkout.session: ${id}`,
        'session',
        'resource_missing',
      );
    }
    if (session.status === 'open' && session.expires <= this.#seconds()) this.#expire(session);
    return session;
  }

  #payment(id: string): Payment {
    const payment = this.#props.state.payments[id];
    if (payment) return payment;
    throw new WireError(404, 'invalid_request_error', `No such payment_intent: '${id}'`, 'intent', 'resource_missing');
  }

  #refundedOf(payment: string): number {
    const made = Object.values(this.#props.state.refunds).filter((each) => each.payment === payment);
    return made.filter(({ status }) => status === 'succeeded').reduce((sum, refund) => sum + refund.cents, 0);
  }

  #sessionView(session: Session, isFull = false): unknown {
    const payment = session.payment === null ? undefined : this.#payment(session.payment);
    return {
      id: session.id,
      object: 'checkout.session',
      amount_total: session.cents,
      currency: 'usd',
      client_reference_id: session.reference,
      metadata: session.metadata,
      mode: 'payment',
      status: session.status,
      payment_status: payment?.status === 'succeeded' ? 'paid' : 'unpaid',
      payment_intent: payment && isFull ? this.#paymentView(payment) : session.payment,
      created: session.created,
      expires_at: session.expires,
      success_url: session.successUrl,
      url: session.status === 'open' ? `${this.url}/pay/${session.id}` : null,
      livemode: false,
    };
  }

  #paymentView(payment: Payment): unknown {
    return {
      id: payment.id,
      object: 'payment_intent',
      amount: payment.cents,
      currency: 'usd',
      metadata: payment.metadata,
      status: payment.status,
      latest_charge: payment.status === 'succeeded' ? this.#chargeView(payment) : null,
    };
  }

  #chargeView(payment: Payment): unknown {
    const refunded = this.#refundedOf(payment.id);
    return {
      id: payment.charge,
      object: 'charge',
      amount: payment.cents,
      amount_refunded: refunded,
      refunded: refunded === payment.cents,
      disputed: Object.values(this.#props.state.disputes).some((dispute) => dispute.payment === payment.id),
      currency: 'usd',
      metadata: payment.metadata,
      payment_intent: payment.id,
      receipt_url: `${this.url}/receipts/${payment.charge}`,
      status: 'succeeded',
    };
  }

  /** Returns the data of a receipt, or `undefined` if the charge does not exist. */
  receipt(charge: string): { readonly cents: number; readonly refundedCents: number } | undefined {
    const payment = Object.values(this.#props.state.payments).find((each) => each.charge === charge);
    return payment && { cents: payment.cents, refundedCents: this.#refundedOf(payment.id) };
  }

  #tell(type: string, subject: unknown): void {
    const { state, clock, changed } = this.#props;
    const id = newId('evt_', 12);
    // A copy of the current state: a later change is a separate event.
    const data = { object: structuredClone(subject) };
    const rest = { object: 'event', api_version: null, livemode: false, pending_webhooks: 1, request: null };
    state.events.push({ id, created: this.#seconds(), type, data, ...rest } as never);
    state.deliveries.push({ event: id, tries: 0, due: clock.now() });
    changed();
  }

  /** Returns an event as its receiver gets it: the body and a fresh `stripe-signature` header. */
  signed(eventId: string): { readonly body: string; readonly signature: string } {
    const body = JSON.stringify(this.#props.state.events.find(({ id }) => id === eventId));
    const time = this.#seconds();
    const mac = createHmac('sha256', this.#props.webhookSecret).update(`${time}.${body}`).digest('hex');
    return { body, signature: `t=${time},v1=${mac}` };
  }

  /** Sends the due events. Returns when the next ones are due, in epoch milliseconds. */
  async deliver(post: (message: { body: string; signature: string }) => Promise<boolean>): Promise<number | undefined> {
    const { state, clock, changed } = this.#props;
    for (const delivery of state.deliveries.filter(({ due }) => due <= clock.now())) {
      delivery.tries += 1;
      const isDone = (await post(this.signed(delivery.event))) || delivery.tries >= MAX_TRIES;
      delivery.due = clock.now() + Math.min(1000 * 2 ** delivery.tries, MAX_PAUSE_MS);
      if (isDone) state.deliveries = state.deliveries.filter((each) => each !== delivery);
      changed();
    }
    return state.deliveries.length === 0 ? undefined : Math.min(...state.deliveries.map(({ due }) => due));
  }

  #seconds(): number {
    return Math.floor(this.#props.clock.now() / 1000);
  }
}

const returnUrl = ({ id, successUrl }: Session): string => successUrl.replaceAll('{CHECKOUT_SESSION_ID}', id);

const newId = (prefix: string, bytes: number): string => prefix + randomBytes(bytes).toString('hex');

function cents(text: unknown): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw wrong(`Invalid integer: ${String(text)}`);
  return value;
}

const of = <T extends { readonly payment: string }>(all: readonly T[], { payment_intent: wanted }: Nested): T[] =>
  all.filter(({ payment }) => wanted === undefined || payment === wanted);

const refundView = ({ id, payment, cents, status }: Refund) => ({
  id,
  object: 'refund',
  amount: cents,
  currency: 'usd',
  payment_intent: payment,
  status,
});

const disputeView = ({ id, payment, cents, status }: Dispute) => ({
  id,
  object: 'dispute',
  amount: cents,
  currency: 'usd',
  payment_intent: payment,
  reason: 'fraudulent',
  status,
});

/** One page of a list, newest first. */
function listOf<T extends { readonly id: string }>(
  all: readonly T[],
  view: (one: T) => unknown,
  form: Nested,
): unknown {
  const newestFirst = all.toReversed();
  const start =
    form.starting_after === undefined ? 0 : newestFirst.findIndex(({ id }) => id === form.starting_after) + 1;
  const limit = Math.min(cents(form.limit ?? '10'), 100);
  const data = newestFirst.slice(start, start + limit).map(view);
  return { object: 'list', data, has_more: newestFirst.length > start + limit, url: '/v1/list' };
}
