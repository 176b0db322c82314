import * as z from 'zod';

/** Codes of failed runs that a policy may name: what failed may work later. */
export const RETRIED_CODES = [
  'LLM_ERROR',
  'LLM_RATE_LIMITED',
  'TIMEOUT',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
  'SANDBOX_ERROR',
  'UNPROCESSABLE',
] as const;
export type RetriedCode = (typeof RETRIED_CODES)[number];

/**
 * Codes that are retried by default: a client may repeat such a call. A program that fails (`SANDBOX_ERROR`) usually
 * fails again.
 */
const BY_DEFAULT: readonly RetriedCode[] = [
  'LLM_ERROR',
  'LLM_RATE_LIMITED',
  'TIMEOUT',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
];
/** A durable run continues where it failed: these failures would only repeat themselves. */
const NOT_IF_DURABLE: readonly RetriedCode[] = ['TIMEOUT', 'SANDBOX_ERROR', 'UNPROCESSABLE'];

/** Which failures of a run are retried, how often and when (`docs/interface/retries.md`). */
export type RetryPolicy = {
  /** Number of tries after the first one. */
  max: number;
  /** Seconds before each further try; the last number counts for all that follow. */
  backoff_seconds: number[];
  on: RetriedCode[];
};

const MAX_RETRIES = 10;
const MAX_BACKOFF_SECONDS = 24 * 3600;
const MAX_RULE = `must be a whole number from 1 to ${MAX_RETRIES}`;
const BACKOFF_RULE = `must be from 1 to ${MAX_BACKOFF_SECONDS} seconds`;
const CODES_RULE = `must be one of ${RETRIED_CODES.join(', ')}`;

/** Descriptions of the members of `retry`. */
export const RETRY_TEXTS = {
  max: 'Number of tries after the first one: 1 to 10.',
  backoff_seconds:
    'Seconds before each further try; the last number counts for all that follow. Default: `[10, 60, 600]`.',
  on: 'Error codes of runs that are tried again. Default: those that a client may retry.',
} as const;

/** A policy as manifests and schedules write it. */
export const retryShape = z.strictObject({
  max: z.int(MAX_RULE).min(1, MAX_RULE).max(MAX_RETRIES, MAX_RULE).describe(RETRY_TEXTS.max),
  backoff_seconds: z
    .array(z.int(BACKOFF_RULE).min(1, BACKOFF_RULE).max(MAX_BACKOFF_SECONDS, BACKOFF_RULE), 'must be a list')
    .min(1, 'must have at least one number')
    .max(MAX_RETRIES, `must have at most ${MAX_RETRIES} numbers`)
    .nullish()
    .describe(RETRY_TEXTS.backoff_seconds),
  on: z
    .array(z.enum(RETRIED_CODES, CODES_RULE), 'must be a list')
    .min(1, 'must have at least one code')
    .max(RETRIED_CODES.length, 'must name each code once')
    .nullish()
    .describe(RETRY_TEXTS.on),
});

/** A policy as answers show it. */
export const retryView = z.object({
  max: z.int().describe(RETRY_TEXTS.max),
  backoff_seconds: z.array(z.int()).describe(RETRY_TEXTS.backoff_seconds),
  on: z.array(z.enum(RETRIED_CODES)).describe(RETRY_TEXTS.on),
});

/** Returns a policy with its defaults. */
export function retryPolicyOf(
  { max, backoff_seconds, on }: z.infer<typeof retryShape>,
  { isDurable }: { readonly isDurable: boolean },
): RetryPolicy {
  const codes = on ?? (isDurable ? withoutRepeated(BY_DEFAULT) : BY_DEFAULT);
  return { max, backoff_seconds: backoff_seconds ?? [10, 60, 600], on: [...new Set(codes)] };
}

/** Returns the codes that are tried again even by a durable run. */
export const withoutRepeated = (codes: readonly RetriedCode[]): RetriedCode[] =>
  codes.filter((code) => !NOT_IF_DURABLE.includes(code));
