import * as z from 'zod';
import { MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import { DESTRUCTIVE } from '../approval.ts';
import type { Approval } from '../definition.ts';
import { type Found, show } from '../field-error.ts';
import { checkSchema } from '../json-schema/schema-validation.ts';

const TIMEOUT_RULE = `must be from 1 to ${MAX_WAIT_SECONDS} seconds`;

const shape = z.strictObject({
  when: z.unknown().optional(),
  timeout_seconds: z.int(TIMEOUT_RULE).min(1, TIMEOUT_RULE).max(MAX_WAIT_SECONDS, TIMEOUT_RULE).nullish(),
  on_timeout: z.enum(['deny', 'fail'], 'must be "deny" or "fail"').nullish(),
});

/** Shape of the member of a tool or a dependency. */
export const approvalShape = z.union(
  [z.literal(['always', 'never']), shape],
  'must be "always", "never", or an object with "when" (a JSON Schema), "timeout_seconds" and "on_timeout"',
);

/** Shape of the member of an MCP server. */
export const serverApprovalShape = z.union(
  [z.literal(['always', 'never', DESTRUCTIVE]), shape],
  'must be "always", "never", "destructive", or an object with "when" (a JSON Schema), "timeout_seconds" and "on_timeout"',
);

/** Returns the member as it is stored: nothing for `never`. */
export function approvalOf<Given extends z.output<typeof serverApprovalShape>>(
  given: Given | null | undefined,
  field: string,
  { errors }: Found,
): { approval?: Approval | Extract<Given, typeof DESTRUCTIVE> } {
  if (given == null || given === 'never') return {};
  if (given === 'always') return { approval: {} };
  if (given === DESTRUCTIVE) return { approval: given as Extract<Given, typeof DESTRUCTIVE> };
  const { when, timeout_seconds, on_timeout } = given as z.output<typeof shape>;
  if (when !== undefined) {
    if (typeof when === 'object' && when !== null) errors.push(...checkSchema(when, `${field}.when`));
    else errors.push({ field: `${field}.when`, message: `must be a JSON Schema (an object), but is ${show(when)}` });
  }
  return {
    approval: {
      ...(when !== undefined && { when: when as Record<string, unknown> }),
      ...(timeout_seconds != null && { timeout_seconds }),
      ...(on_timeout != null && { on_timeout }),
    },
  };
}
