import { PlatformError, RefusedByRuleError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { QueueRules } from '#core/manifest/queue-rules.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { SecretMask } from '#core/runs/masking/masking.ts';
import type { Series } from '#core/runs/queues/latest.ts';
import { type Queue, ruleIdOf } from '#core/runs/queues/queue.ts';
import type { Rate } from '#core/runs/queues/starts.ts';
import type { HeldBy } from '#core/runs/run.ts';
import type { CallInput } from '../input/call-input.ts';

/** The rules that say when the run of a call may begin. `key` is masked; null without a value. */
export interface TurnOfCall {
  readonly concurrency?: QueueOfCall;
  readonly rate?: RateOfCall;
  readonly debounce?: SeriesOfCall;
}
export interface QueueOfCall extends Queue {
  readonly rule: NonNullable<QueueRules['concurrency']>;
  readonly key: string | null;
}
export interface RateOfCall extends Rate {
  readonly key: string | null;
}
export interface SeriesOfCall extends Series {
  readonly seconds: number;
  readonly key: string | null;
}

interface KeyedCall {
  readonly agent: AgentVersion;
  readonly workspace: Pick<Workspace, 'id'>;
  /** The input with the schema's defaults. */
  readonly document: CallInput['document'];
  readonly mask: SecretMask;
}

/**
 * Returns the rules of a call with their keys. Calls whose input has no value at a key share the rule. Throws INVALID_INPUT
 * if the value is an object or a list.
 */
export function turnOf(
  { agent, workspace, document, mask }: KeyedCall,
  { concurrency, rate, debounce }: QueueRules,
): TurnOfCall {
  const named = (name: keyof QueueRules, pointer: string | undefined, more: readonly Json[] = []) => {
    const value = pointer === undefined ? undefined : valueAt(document as Json, pointer);
    if (typeof value === 'object' && value !== null) {
      throw new PlatformError(
        'INVALID_INPUT',
        `input${pointer}: must be a text, a number, true or false, because it is the key of the ${name} of ${refOf(agent)}.`,
      );
    }
    const id = ruleIdOf(agent, [name, ...more, ...(pointer === undefined ? [] : [pointer, value ?? null])]);
    return { id, key: value === undefined || value === null ? null : shown(mask.json(value), id) };
  };
  const { id: workspaceId } = workspace;
  const turn: { -readonly [Rule in keyof TurnOfCall]: TurnOfCall[Rule] } = {};
  if (concurrency !== undefined) {
    const { id: queueId, key } = named('concurrency', concurrency.key);
    turn.concurrency = { workspaceId, queueId, rule: concurrency, key };
  }
  if (rate !== undefined) {
    const { count, seconds } = rate;
    const { id: rateId, key } = named('rate', rate.key, [seconds]);
    turn.rate = { workspaceId, rateId, count, seconds, key };
  }
  if (debounce !== undefined) {
    const { id: seriesId, key } = named('debounce', debounce.key);
    turn.debounce = { workspaceId, seriesId, seconds: debounce.seconds, key };
  }
  return turn;
}

/** Follows a JSON pointer (RFC 6901). */
function valueAt(document: Json, pointer: string): Json | undefined {
  let value: Json | undefined = document;
  for (const part of pointer.slice(1).split('/')) {
    if (typeof value !== 'object' || value === null) return undefined;
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    value = Object.hasOwn(value, name) ? (value as { readonly [member: string]: Json })[name] : undefined;
  }
  return value;
}

/** Keys may be personal data of the author's customers: lists of runs tell them apart, but do not show them. */
function shown(value: Json, id: string): string {
  const characters = [...(typeof value === 'string' ? value.slice(0, 100) : JSON.stringify(value))];
  return `${characters.length < 8 ? '' : characters.slice(0, 3).join('')}…${id.slice(0, 6)}`;
}

type Called = Pick<KeyedCall, 'agent'>;
const runsText = (count: number): string => (count === 1 ? '1 run' : `${count} runs`);
const ofKey = (key: string | null): string => (key === null ? '' : ` for ${key}`);

const concurrencyText = ({ agent }: Called, { rule, key }: QueueOfCall): string =>
  `The concurrency of ${agent.orgSlug}/${agent.name} allows ${runsText(rule.limit)} at once${ofKey(key)}`;

export const rejected = (call: Called, queue: QueueOfCall): PlatformError =>
  new RefusedByRuleError('RATE_LIMITED', `${concurrencyText(call, queue)}, and rejects further calls.`, {
    hint: 'Call again when one has ended.',
    suggested_wait_time: 1,
  });

export const waitedTooLong = (call: Called, queue: QueueOfCall): PlatformError =>
  new RefusedByRuleError(
    'RATE_LIMITED',
    `${concurrencyText(call, queue)}, and none ended in half of the time of this call.`,
    {
      hint: 'Send Prefer: respond-async, so that the run waits for its turn, or call again later.',
      suggested_wait_time: 1,
    },
  );

/** @param waitMs Time until the next run may begin. */
export const aboveRate = ({ agent }: Called, { count, seconds, key }: RateOfCall, waitMs: number): PlatformError =>
  new RefusedByRuleError(
    'RATE_LIMITED',
    `The rate of ${agent.orgSlug}/${agent.name} lets ${runsText(count)} begin in ${seconds} seconds${ofKey(key)}.`,
    {
      hint: 'Send Prefer: respond-async, so that the run waits for up to a day, or call again later.',
      suggested_wait_time: Math.max(1, Math.ceil(waitMs / 1000)),
    },
  );

export const replacedCall = (): PlatformError =>
  new PlatformError('RUN_CANCELLED', 'The call was replaced by a newer one with the same key before its run began.');

/** The end of a run that has waited for its turn for too long. */
export const notInTime = ({ rule, limit, key }: HeldBy): PlatformError =>
  new PlatformError(
    'TIMEOUT',
    `The run waited for its turn until its time was over: the ${rule} of its agent allows ${runsText(limit)}${ofKey(key)}.`,
  );
