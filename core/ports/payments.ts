import { PlatformError } from '#core/base/errors.ts';

/**
 * Takes money for credits. The provider is the source of truth about payments, refunds and disputes; its events only
 * say that something has changed. The receiver of an event reads the payment again: events may be late, duplicated,
 * reordered or lost.
 */
export interface Payments {
  /**
   * Creates a page at the provider on which a user pays. Repeating an order returns the same page.
   *
   * Throws UNPROCESSABLE if the operator has configured no provider.
   */
  createCheckout(order: Order): Promise<Checkout>;
  /**
   * Reads the current state of a payment; `undefined` if the provider does not know it, or if it is not a top-up of
   * credits.
   */
  retrieve(ref: PaymentRef): Promise<PaymentState | undefined>;
  /**
   * Returns the payment that an event is about; `undefined` for other kinds of events. `body` is the raw text as
   * received.
   *
   * Throws INVALID_INPUT unless the signature is the provider's and at most 300 seconds old.
   */
  parseEvent(body: string, signature: string | null): Promise<PaymentRef | undefined>;
  /**
   * Lists payments with an event since `at` (epoch milliseconds, at most 30 days ago), delivered or not. May contain
   * duplicates.
   */
  changedSince(at: number): AsyncIterable<PaymentRef>;
}

export interface Order {
  readonly topUpId: string;
  readonly workspaceId: string;
  /** US cents. */
  readonly cents: number;
  /** Title of the purchase on the provider's page. */
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

/** The checkout page, or the payment made there. */
export type PaymentRef = { readonly sessionId: string } | { readonly paymentId: string };

export interface PaymentState {
  readonly sessionId: string;
  readonly topUpId: string;
  readonly workspaceId: string;
  /** `processing`: ordered, but the money has not arrived yet, as with bank transfers. `closed`: not paid in time. */
  readonly status: 'open' | 'processing' | 'paid' | 'closed';
  /** US cents; 0 unless paid. */
  readonly paidCents: number;
  /** Sum of all refunds. */
  readonly refundedCents: number;
  /** Amount that the payer's bank has taken back in open and lost disputes. */
  readonly disputedCents: number;
  readonly hasOpenDispute: boolean;
  /** The provider's receipt or invoice. */
  readonly receiptUrl: string | null;
}

/** {@link Payments} of hosts without a provider. It has no payments, and rejects all signatures. */
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
