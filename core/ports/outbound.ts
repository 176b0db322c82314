/**
 * Requests to addresses that users name, such as alerts. The address is checked by `checkOutboundUrl`, and its name is
 * resolved here: only public addresses are connected to.
 */
export interface Outbound {
  /**
   * POSTs JSON: one attempt of at most 10 seconds. Follows at most three redirects of 307 or 308, by the same rules; other
   * redirects are failures. Never throws because of the receiver.
   */
  post(request: OutboundRequest): Promise<OutboundResult>;
}

/** Requests whose answers are read, by the rules of {@link Outbound}. */
export interface OutboundExchanges {
  /**
   * Sends one request on a connection of its own and returns the answer as soon as it begins, whatever its status.
   * Redirects are not followed. The signal ends the connection, also while the body is read.
   *
   * Throws {@link OutboundFailure}, and the signal's reason once it is aborted; reading the body throws the same.
   */
  exchange(request: OutboundExchange): Promise<OutboundAnswer>;
}

export interface OutboundRequest {
  readonly url: string;
  /** JSON text of at most 64 KB. */
  readonly body: string;
  /** Names in lower case; `content-type` and `content-length` are always set. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * `ok` means a status of 200 to 299; the body is not read. `problem` is a sentence for the user who named the address and
 * contains nothing that the receiver sent. `isFinal`: another attempt would fail, too.
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
  /** Names in lower case; of a header that comes twice, the values joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** As large as the other side likes. To stop reading it closes the connection. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Why a request got no answer: a sentence that follows the receiver's name and contains nothing that it sent. */
export class OutboundFailure extends Error {
  readonly code = 'OUTBOUND_FAILED';
  /** Whether another attempt would fail, too. */
  readonly isFinal: boolean;

  constructor(message: string, isFinal: boolean) {
    super(message);
    this.isFinal = isFinal;
  }
}
