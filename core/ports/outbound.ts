/** Requests to addresses that users name, such as alerts. All of them are POSTs of JSON. */
export interface Outbound {
  /**
   * One attempt of at most 10 seconds. Never throws because of the receiver.
   *
   * The address is checked by `checkOutboundUrl`, and its name is resolved here: only public addresses are connected to,
   * also after a redirect (at most three of 307 or 308; other redirects are failures).
   */
  post(request: OutboundRequest): Promise<OutboundResult>;
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
