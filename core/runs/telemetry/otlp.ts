import { VERSION } from '#core/base/version.ts';

/*
 * OTLP/HTTP with JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp): ids in hexadecimal, 64-bit numbers as text,
 * enumerations as numbers.
 */

/** `undefined` is left out. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;
type AttributeValue = string | number | boolean | readonly string[];

/** `SPAN_KIND_INTERNAL` and `SPAN_KIND_CLIENT`. */
export const SPAN_KINDS = { internal: 1, client: 3 } as const;
/** `STATUS_CODE_ERROR`. Other spans leave their status unset, as the specification asks of libraries. */
const ERROR = 2;

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string | undefined;
  readonly name: string;
  readonly kind: keyof typeof SPAN_KINDS;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Attributes;
  readonly events?: readonly { readonly name: string; readonly at: number; readonly attributes: Attributes }[];
  /** Message of a span that failed. */
  readonly failure?: string | undefined;
}

const nanos = (milliseconds: number): string => `${BigInt(Math.round(milliseconds * 1000)) * 1000n}`;

export const keyValues = (attributes: Attributes) =>
  Object.entries(attributes).flatMap(([key, value]) => {
    if (value === undefined || (typeof value === 'number' && !Number.isFinite(value))) return [];
    return { key, value: encodedValue(value) };
  });

const encodedValue = (value: AttributeValue) =>
  typeof value === 'object' ? { arrayValue: { values: value.map(anyValue) } } : anyValue(value);

function anyValue(value: string | number | boolean) {
  if (typeof value === 'string') return { stringValue: value.toWellFormed() };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** Returns a span as it is in a request. */
export const encodeSpan = (span: Span) => ({
  traceId: span.traceId,
  spanId: span.spanId,
  ...(span.parentSpanId !== undefined && { parentSpanId: span.parentSpanId }),
  name: span.name,
  kind: SPAN_KINDS[span.kind],
  startTimeUnixNano: nanos(span.startedAt),
  endTimeUnixNano: nanos(Math.max(span.startedAt, span.endedAt)),
  attributes: keyValues(span.attributes),
  ...(span.events?.length && {
    events: span.events.map(({ name, at, attributes }) => ({
      name,
      timeUnixNano: nanos(at),
      attributes: keyValues(attributes),
    })),
  }),
  ...(span.failure !== undefined && { status: { code: ERROR, message: span.failure } }),
});

const scope = { name: 'agent-platform', version: VERSION };

/**
 * Returns the body of a request to `/v1/traces`.
 *
 * @param spans JSON of encoded spans, so that their sizes are known before.
 */
export const tracesBody = (resource: Attributes, spans: readonly string[]): string =>
  `{"resourceSpans":[{"resource":${JSON.stringify({ attributes: keyValues(resource) })},"scopeSpans":[{"scope":${JSON.stringify(scope)},"spans":[${spans.join(',')}]}]}]}`;
