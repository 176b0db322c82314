/** What goes out of the platform to addresses that its users name: alerts and other webhooks, all of it POSTed JSON. */
export interface Outbound {
  /**
   * One try, of 10 seconds at most. Never throws for what the other side does, or is.
   *
   * The address is checked by the rules of {@link checkOutboundUrl}, and the name in it is resolved here: what is
   * connected to is a public address, also after a redirect (307 and 308, three at most; others are failures).
   */
  post(request: OutboundRequest): Promise<OutboundResult>;
}

export interface OutboundRequest {
  readonly url: string;
  /** JSON text of at most 64 KB. */
  readonly body: string;
  /** In lower case; `content-type` and `content-length` are set anyway. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * `ok` is an answer of 200 to 299; its body is not read. `problem` is a sentence for whoever named the address, without
 * anything that the other side sent. `isFinal`: another try would be refused, too.
 */
export type OutboundResult =
  | { readonly ok: true; readonly status: number }
  | { readonly ok: false; readonly problem: string; readonly isFinal: boolean };

export const MAX_OUTBOUND_BYTES = 64 * 1024;
