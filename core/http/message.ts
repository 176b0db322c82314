/**
 * Headers of a request, by case-insensitive name. Values of a repeated header are joined by commas, those of `Cookie`
 * by semicolons. A web `Headers` satisfies it.
 */
export interface RequestHeaders {
  get(name: string): string | null;
  has(name: string): boolean;
}

/**
 * The part of a request that the platform uses. A web `Request` satisfies it; hosts use lighter objects, because the
 * first `Request` of a process loads Node's complete HTTP client, which takes 18 ms in Lambda.
 */
export interface HttpRequest {
  readonly method: string;
  /** Only its path and query are used: `https://host/agents?name=x` or `/agents?name=x`. */
  readonly url: string;
  readonly headers: RequestHeaders;
  /** Null for a request without a body. The body can be read once, from here or with {@link HttpRequest.bytes}. */
  readonly body: AsyncIterable<Uint8Array> | null;
  /** The whole body, empty if there is none. */
  bytes(): Promise<Uint8Array>;
}

/** A stream may split or join the chunks of its writer. */
export type ResponseBody = string | Uint8Array | AsyncIterable<Uint8Array> | null;

/** An answer. Hosts add `Content-Length`, and omit the body of an answer to HEAD. */
export interface HttpResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ResponseBody;
}

/** Path and query of a request as they were sent: percent-encoded, the query without its question mark. */
export interface Target {
  readonly path: string;
  readonly query: string;
}

/**
 * Matches URLs that a parser would not change: no fragment, nothing to encode, and no segments `.` and `..`, even as
 * `%2e`.
 */
const PLAIN = /^\/[!$&-;=@-Z_a-z~%]*(?:\?[!$%&(-;=?@-Z_a-z~]*)?$/;
const DOT_SEGMENT = /\/(?:\.|%2e){1,2}(?:[/?]|$)/i;

/** Normalizes the target of a request (RFC 3986, section 6.2.2.3); `undefined` for an invalid URL. */
export function targetOf(url: string): Target | undefined {
  let normal = url;
  if (!PLAIN.test(url) || DOT_SEGMENT.test(url)) {
    // With the prefix, two slashes at the beginning do not name another host.
    const parsed = URL.parse(url.startsWith('/') ? `http://host${url}` : url);
    if (parsed === null || !parsed.protocol.startsWith('http')) return undefined;
    normal = parsed.pathname + parsed.search;
  }
  const end = normal.indexOf('?');
  return end < 0 ? { path: normal, query: '' } : { path: normal.slice(0, end), query: normal.slice(end + 1) };
}
