/**
 * W3C Trace Context, Level 1 (https://www.w3.org/TR/trace-context/). The sender chooses the ids freely: they only correlate
 * spans, and must never decide on access or on whether two requests are the same.
 */
export interface TraceContext {
  /** 32 lowercase hexadecimal digits, not all zero. */
  readonly traceId: string;
  /** The caller's span: 16 lowercase hexadecimal digits, not all zero. */
  readonly spanId: string;
  readonly sampled: boolean;
  /** At most 512 characters and 32 members. */
  readonly tracestate?: string;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** Longer values are of no version that exists. Keeps the expression from long texts. */
const MAX_TRACEPARENT = 256;
const MAX_TRACESTATE = 512;
const MAX_MEMBERS = 32;
const MEMBER =
  /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/**
 * Reads `traceparent` and `tracestate` of a request. Returns undefined without a valid `traceparent`. Never throws: a
 * caller's mistake in tracing must not fail its call.
 *
 * @param get Returns a header by its lowercase name.
 */
export function traceContextOf(get: (name: string) => string | undefined): TraceContext | undefined {
  const text = get('traceparent')?.trim();
  if (text === undefined || text.length > MAX_TRACEPARENT) return undefined;
  const [, version, traceId, spanId, flags, more] = TRACEPARENT.exec(text) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (isZero(traceId!) || isZero(spanId!)) return undefined;
  const tracestate = tracestateOf(get('tracestate'));
  return {
    traceId: traceId!,
    spanId: spanId!,
    sampled: (Number.parseInt(flags!, 16) & 1) === 1,
    ...(tracestate !== undefined && { tracestate }),
  };
}

/** Returns the header `traceparent` of requests whose parent is the span of `context`. */
export const traceparentOf = ({ traceId, spanId, sampled }: Omit<TraceContext, 'tracestate'>): string =>
  `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;

const isZero = (id: string): boolean => /^0+$/.test(id);

/** Keeps the members at the beginning that fit whole. A malformed member voids the list, as the specification says. */
function tracestateOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const start = text.slice(0, MAX_TRACESTATE);
  const parts = start.split(',');
  const isCut = text.length > MAX_TRACESTATE && text[MAX_TRACESTATE] !== ',';
  const whole = (isCut ? parts.slice(0, -1) : parts).map((part) => part.trim()).filter((part) => part !== '');
  const members = whole.slice(0, MAX_MEMBERS);
  return members.length > 0 && members.every((member) => MEMBER.test(member)) ? members.join(',') : undefined;
}

/** Headers of a request, by lowercase name. */
export type TraceHeaders = Readonly<Partial<Record<'traceparent' | 'tracestate', string>>>;

/** Returns the headers of requests whose parent is the span of `context`. */
export const traceHeadersOf = (context: TraceContext): TraceHeaders => ({
  traceparent: traceparentOf(context),
  ...(context.tracestate !== undefined && { tracestate: context.tracestate }),
});
