import * as z from 'zod';
import { countText } from '#core/base/size-text.ts';

/** A program that handles one input after another (`docs/interface/warm-programs.md`). */
export type ProgramReuse = {
  mode: 'process';
  /** How long an idle program stays. @default {@link DEFAULT_IDLE_SECONDS} */
  idle_seconds?: number;
  /** Number of inputs after which it is started anew. @default {@link DEFAULT_MAX_USES} */
  max_uses?: number;
  /** Number of inputs that it may handle at once. @default 1 */
  concurrency?: number;
};

export const DEFAULT_IDLE_SECONDS = 300;
const MAX_IDLE_SECONDS = 3600;
export const DEFAULT_MAX_USES = 1000;
const MAX_USES = 1_000_000;
const MAX_CONCURRENCY = 100;

const IDLE_RULE = `must be a whole number of seconds from 1 to ${MAX_IDLE_SECONDS}`;
const USES_RULE = `must be a whole number from 1 to ${countText(MAX_USES)}`;
const CONCURRENCY_RULE = `must be a whole number from 1 to ${MAX_CONCURRENCY}`;

/** Shape of the member `reuse` of a manifest, and of a loop's tool. */
export const reuseShape = z.union(
  [
    z.literal('process'),
    z.strictObject({
      mode: z.literal('process'),
      idle_seconds: z.int(IDLE_RULE).min(1, IDLE_RULE).max(MAX_IDLE_SECONDS, IDLE_RULE).nullish(),
      max_uses: z.int(USES_RULE).min(1, USES_RULE).max(MAX_USES, USES_RULE).nullish(),
      concurrency: z.int(CONCURRENCY_RULE).min(1, CONCURRENCY_RULE).max(MAX_CONCURRENCY, CONCURRENCY_RULE).nullish(),
    }),
  ],
  `must be "process", or an object with "mode": "process", idle_seconds, which ${IDLE_RULE}, max_uses, which ${USES_RULE}, and concurrency, which ${CONCURRENCY_RULE}`,
);

export function programReuseOf(given: z.output<typeof reuseShape>): ProgramReuse {
  const { idle_seconds, max_uses, concurrency } = given === 'process' ? {} : given;
  return {
    mode: 'process',
    ...(idle_seconds != null && { idle_seconds }),
    ...(max_uses != null && { max_uses }),
    ...(concurrency != null && { concurrency }),
  };
}
