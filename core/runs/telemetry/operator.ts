import type { Sampler } from '#core/base/samplers.ts';
import { withoutEnd } from '#core/base/text.ts';
import type { TraceContext } from '#core/base/trace-context.ts';
import { VERSION } from '#core/base/version.ts';
import type { OperatorTelemetry } from '#core/ports/operator-telemetry.ts';
import { type OutboundExchanges, OutboundFailure } from '#core/ports/outbound.ts';

/** The settings of the operator's export, which both hosts have. */
export interface OperatorSettings extends Sampling, Pick<OperatorTelemetry, 'headers'> {
  /** Base address of all signals. */
  readonly endpoint: string;
  readonly serviceName: string;
  /** More attributes of the resource. */
  readonly attributes: Readonly<Record<string, string>>;
}

/** Which traces are sent. */
export interface Sampling {
  readonly sampler: Sampler;
  /** Part of the traces that the samplers with `traceidratio` send, from 0 to 1. */
  readonly ratio: number;
}

export const operatorTelemetry = ({
  endpoint,
  headers,
  serviceName,
  attributes,
  ...sampling
}: OperatorSettings): OperatorTelemetry => ({
  url: `${withoutEnd(endpoint, '/')}/v1/traces`,
  headers,
  exchanges: direct,
  resource: { 'service.version': VERSION, ...attributes, 'service.name': serviceName },
  isSampled: samplerOf(sampling),
});

/**
 * Reads W3C Baggage without properties, the form of `OTEL_EXPORTER_OTLP_HEADERS`. Throws an error that begins with `name`
 * and shows no value.
 */
export function pairsOf(name: string, text: string): Record<string, string> {
  const parts = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  return Object.fromEntries(
    parts.map((part): [string, string] => {
      const end = part.indexOf('=');
      const key = part.slice(0, Math.max(end, 0)).trim();
      if (key === '' || /\s/.test(key)) throw new Error(`${name}: must be name=value, separated by commas.`);
      return [key, decoded(part.slice(end + 1).trim())];
    }),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The last 56 bits of a trace id are random, also of those that follow from ids of runs. */
const RANDOM_DIGITS = 14;

export function samplerOf({ sampler, ratio }: Sampling): OperatorTelemetry['isSampled'] {
  const own = sampler.replace('parentbased_', '');
  const isParentBased = own !== sampler;
  const threshold = (1 - ratio) * 16 ** RANDOM_DIGITS;
  const isChosen = ({ traceId }: TraceContext): boolean => {
    if (own !== 'traceidratio') return own === 'always_on';
    return ratio > 0 && Number.parseInt(traceId.slice(-RANDOM_DIGITS), 16) >= threshold;
  };
  return (span, hasCaller) => (isParentBased && hasCaller ? span.sampled : isChosen(span));
}

/** Requests to the operator's own address, which may be private. Redirects are not followed. */
const direct: OutboundExchanges = {
  async exchange({ method, url, headers, body, signal }) {
    const sent = fetch(url, { method, headers, redirect: 'manual', signal, ...(body !== undefined && { body }) });
    const answer = await sent.catch((error: Error) => {
      signal.throwIfAborted();
      const { code } = (error.cause ?? {}) as { code?: string };
      throw new OutboundFailure(`it cannot be connected to${code === undefined ? '' : ` (${code})`}`, false);
    });
    return {
      status: answer.status,
      headers: Object.fromEntries(answer.headers),
      body: answer.body ?? (async function* () {})(),
    };
  },
};
