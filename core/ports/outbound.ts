/**
 * Requests to addresses that users provide, such as alerts. `checkOutboundUrl` checks the address; the host name is
 * resolved here, and only public addresses are connected to.
 */
export interface Outbound {
  /**
   * POSTs JSON in one attempt of at most 10 seconds. Follows at most three redirects (307 or 308) by the same rules;
   * other redirects are failures. Never throws because of the receiver.
   */
  post(request: OutboundRequest): Promise<OutboundResult>;
}

/** Requests whose answers are read. The rules of {@link Outbound} apply. */
export interface OutboundExchanges {
  /**
   * Sends one request on a new connection and returns the answer when its headers arrive, whatever its status.
   * Redirects are not followed. Aborting the signal closes the connection, also while the body is read.
   *
   * Throws {@link OutboundFailure}, and the signal's reason once it is aborted; reading the body throws the same.
   */
  exchange(request: OutboundExchange): Promise<OutboundAnswer>;
}

export interface OutboundRequest {
  readonly url: string;
  /** JSON text of at most 64 KB. */
  readonly body: string;
  /** Names in lower case. `content-type` is JSON unless it is given; `content-length` is always set. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Must be false if the headers have a secret that is meant for this address alone. @default true */
  readonly followsRedirects?: boolean;
}

/**
 * `ok` means a status of 200 to 299; the body is not read. `problem` is a sentence for the user who set the address and
 * contains nothing that the receiver sent. `isFinal`: a retry would fail, too.
 */
export type OutboundResult =
  | { readonly ok: true; readonly status: number }
  | { readonly ok: false; readonly problem: string; readonly isFinal: boolean };

export const MAX_OUTBOUND_BYTES = 64 * 1024;

export interface OutboundExchange {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
}

export interface OutboundAnswer {
  readonly status: number;
  /** Names in lower case; values of repeated headers are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** Unbounded. Ending the iteration closes the connection. */
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Why a request got no answer, as a predicate that follows the receiver's name. Contains nothing that the receiver
 * sent.
 */
export class OutboundFailure extends Error {
  readonly code = 'OUTBOUND_FAILED';
  /** Whether a retry would fail, too. */
  readonly isFinal: boolean;

  constructor(message: string, isFinal: boolean) {
    super(message);
    this.isFinal = isFinal;
  }
}
