import * as z from 'zod';
import { MAX_WAIT_SECONDS } from '#core/base/time-limits.ts';
import type { Approval } from './definition.ts';
import { type Found, show } from './field-error.ts';
import { checkSchema } from './json-schema/schema-validation.ts';

/** Approval of those tools of an MCP server that may delete or overwrite something, as the server says. */
export const DESTRUCTIVE = 'destructive';

const TIMEOUT_RULE = `must be from 1 to ${MAX_WAIT_SECONDS} seconds`;

/** Descriptions of the member and its parts. */
export const APPROVAL_TEXTS = {
  approval:
    'Which calls wait until a person has approved them: "always", "never" (the default), or an object. The loop is then durable.',
  when: 'JSON Schema of the arguments of the calls that wait; all calls without it.',
  timeout_seconds: 'How long a call waits, in seconds. Default: as long as the run may wait.',
  on_timeout: 'When nobody has decided in time: "deny" (the default) tells the model, "fail" ends the run.',
} as const;

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

/** Tools of the platform that wait. */
export const WAITING_TOOLS = ['ask_human', 'wait'] as const;

type Asking = readonly { readonly approval?: unknown }[];

/** A manifest, as it was given or as it is stored. */
interface Loop {
  readonly loop?: { readonly tools?: readonly string[] | null; readonly mcp_servers?: Asking | null } | null;
  readonly custom_tools?: Asking;
  readonly manifest?: { readonly dependencies?: Asking | null } | null;
}

/** Returns the first member of a loop that lets its runs wait for people, time or events; `undefined` if none does. */
export function waitingMember({ loop, custom_tools, manifest }: Loop): string | undefined {
  const tool = WAITING_TOOLS.find((name) => loop?.tools?.includes(name));
  if (tool !== undefined) return `loop.tools has "${tool}"`;
  const lists: readonly (readonly [string, Asking])[] = [
    ['custom_tools', custom_tools ?? []],
    ['mcp_servers', loop?.mcp_servers ?? []],
    ['manifest.dependencies', manifest?.dependencies ?? []],
  ];
  for (const [name, list] of lists) {
    const index = list.findIndex(({ approval = 'never' }) => approval !== null && approval !== 'never');
    if (index >= 0) return `${name}[${index}] has "approval"`;
  }
  return undefined;
}

/** Whether runs of the agent may wait. */
export const mayWait = (definition: Loop): boolean => waitingMember(definition) !== undefined;
