import { PlatformError } from '#core/base/errors.ts';

/**
 * Takes money for credits. The provider knows what was paid, refunded and disputed; its events only say that something has
 * changed. So whoever gets one reads the payment again: events may come late, twice, in any order, or never.
 */
export interface Payments {
  /**
   * A page at the provider on which a user pays. Repeating an order returns the same page.
   *
   * Throws UNPROCESSABLE where the operator has set up no provider.
   */
  createCheckout(order: Order): Promise<Checkout>;
  /** What the provider knows now; `undefined` if it knows no such payment, or only one that is not a top-up of credits. */
  retrieve(ref: PaymentRef): Promise<PaymentState | undefined>;
  /**
   * The payment that an event is about; `undefined` for events of other kinds. `body` is the text exactly as it came.
   *
   * Throws INVALID_INPUT unless the signature is the provider's and at most 300 seconds old.
   */
  parseEvent(body: string, signature: string | null): Promise<PaymentRef | undefined>;
  /** Payments with an event since then (epoch milliseconds, at most 30 days ago), delivered or not. May repeat some. */
  changedSince(at: number): AsyncIterable<PaymentRef>;
}

export interface Order {
  readonly topUpId: string;
  readonly workspaceId: string;
  /** US cents. */
  readonly cents: number;
  /** What the user buys, on the provider's page. */
  readonly title: string;
  /** The provider replaces `{CHECKOUT_SESSION_ID}`. */
  readonly successUrl: string;
  /** Epoch milliseconds, 30 minutes to 24 hours from now. */
  readonly expiresAt: number;
}

export interface Checkout {
  readonly sessionId: string;
  readonly url: string;
}

/** The page on which it was paid, or the payment that came of it. */
export type PaymentRef = { readonly sessionId: string } | { readonly paymentId: string };

export interface PaymentState {
  readonly sessionId: string;
  readonly topUpId: string;
  readonly workspaceId: string;
  /** `processing`: ordered, but the money is still on its way, as with bank transfers. `closed`: not paid in time. */
  readonly status: 'open' | 'processing' | 'paid' | 'closed';
  /** US cents; 0 unless paid. */
  readonly paidCents: number;
  /** Given back to the payer, all refunds together. */
  readonly refundedCents: number;
  /** What the payer's bank has taken back: in open disputes, and in lost ones. */
  readonly disputedCents: number;
  readonly hasOpenDispute: boolean;
  /** The provider's receipt or invoice. */
  readonly receiptUrl: string | null;
}

/** For hosts on which the operator has set up no provider. It knows no payment, and all signatures are wrong. */
export const noPayments: Payments = {
  async createCheckout() {
    throw new PlatformError('UNPROCESSABLE', 'This platform sells no credits: no payment provider is set up.', {
      hint: 'Its operator can set one up (docs/billing.md), or add credits.',
    });
  },
  retrieve: async () => undefined,
  async parseEvent() {
    throw new PlatformError('INVALID_INPUT', 'No payment provider is set up, so no event can be genuine.');
  },
  async *changedSince() {},
};

/** Loads the adapter on use: few requests need it, and its SDK is large. */
export const lazyPayments = (load: () => Promise<Payments>): Payments => ({
  createCheckout: async (order) => (await load()).createCheckout(order),
  retrieve: async (ref) => (await load()).retrieve(ref),
  parseEvent: async (body, signature) => (await load()).parseEvent(body, signature),
  async *changedSince(at) {
    yield* (await load()).changedSince(at);
  },
});
