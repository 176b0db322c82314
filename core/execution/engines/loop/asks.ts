import { isDeepStrictEqual } from 'node:util';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { isUnchecked } from '#core/manifest/field-error.ts';
import { type Clock, isoTime } from '#core/ports/clock.ts';
import type { LlmToolCall } from '#core/ports/llm.ts';
import {
  type Asked,
  approvalIdOf,
  type Decision,
  MAX_WAITING_CALLS,
  type OnTimeout,
} from '#core/runs/approvals/approval.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import type { DecidedCall, Waits } from '../../durable/waits.ts';
import type { EngineRun } from '../engine.ts';
import type { PastTurn } from './record.ts';
import { ASK_HUMAN, WAIT } from './tool-definitions.ts';
import { errorOutcome, outcomeOf, type ToolOutcome } from './tool-outcome.ts';
import type { LoopTools } from './tools.ts';
import { waitUntil } from './wait-time.ts';

/** Longer arguments cannot be shown to a person. */
const MAX_SHOWN_BYTES = 64 * 1024;
/** A longer schema is not stored with the call: the tool checks changed arguments when it is called. */
const MAX_SCHEMA_BYTES = 32 * 1024;

const REFUSED_BEFORE =
  'A person has refused this call with the same arguments before, so nobody was asked again. Do not repeat it.';

/** What is approved when a loop may cost more: no tool has such a name. */
const MORE_COST = 'loop.max_cost_usd';
/** Stands for the number of a call, from 0, at what is asked about a turn. */
export const WHOLE_TURN = -1;

/** How a call that waited goes on: with these parameters, or with this result. */
export type Settled = { readonly call: LlmToolCall; readonly note?: string } | { readonly outcome: ToolOutcome };

/** The calls of a durable loop that wait until something is decided about them (`docs/interface/approvals.md`). */
export class LoopAsks {
  readonly #clock: Clock;
  readonly #run: EngineRun;
  readonly #tools: LoopTools;
  /** Calls that were refused, by tool and arguments. */
  readonly #refused = new Set<string>();
  /** Tools whose calls need no approval any more in this run. */
  readonly #approvedTools = new Set<string>();

  constructor(clock: Clock, run: EngineRun, tools: LoopTools) {
    this.#clock = clock;
    this.#run = run;
    this.#tools = tools;
  }

  /** Restores what was decided in a turn of another process. */
  restore({ answer, decisions }: PastTurn): void {
    for (const [number, decision] of decisions) {
      const call = answer.toolCalls[number];
      if (call !== undefined) this.#learn(call, decision);
    }
  }

  /** Returns the numbers of the calls, from 0, that wait. Calls with wrong parameters do not: the model corrects them. */
  async among(calls: readonly LlmToolCall[]): Promise<readonly number[]> {
    if (this.#run.durable === undefined) return [];
    const waits = await Promise.all(calls.map((call) => this.#waits(call)));
    return [...calls.keys()].filter((number) => waits[number]);
  }

  /** Returns the result of a call that was refused before with the same arguments. */
  refusedBefore(call: LlmToolCall): ToolOutcome | undefined {
    return this.#refused.has(keyOf(call)) ? errorOutcome(REFUSED_BEFORE) : undefined;
  }

  /** Reads what was decided about calls of an unfinished turn since the journal was written, by their numbers from 0. */
  async newDecisions({ turn, answer, decisions: known }: PastTurn): Promise<Map<number, Decision>> {
    const waits = await this.#run.durable!.waits();
    const decisions = new Map<number, Decision>();
    for (const [call, decided] of await waits.decided(turn)) {
      if (known.has(call - 1)) continue;
      decisions.set(call - 1, decided.decision);
      this.#traceDecision({ turn, call, tool: answer.toolCalls[call - 1]?.name ?? MORE_COST }, decided);
    }
    return decisions;
  }

  /**
   * Asks whether the run may cost more, and leaves the process until that is decided: throws {@link RunContinuesError}. Returns
   * what was decided, or `undefined` if nobody can be asked.
   */
  async moreCost(
    turn: number,
    { spentUsd, maxUsd }: { readonly spentUsd: number; readonly maxUsd: number },
  ): Promise<Decision | undefined> {
    const waits = await this.#run.durable!.waits();
    const place = { turn, call: WHOLE_TURN + 1, tool: MORE_COST };
    const decided = (await waits.decided(turn)).get(place.call);
    if (decided !== undefined) {
      this.#traceDecision(place, decided);
      return decided.decision;
    }
    const before = (await waits.asked(turn)).get(place.call);
    if (before === undefined && waits.leftMs <= 0) return undefined;
    const asked: Asked = {
      ...{ ...place, kind: 'approve', args: { max_cost_usd: 2 * maxUsd } },
      question: `The run has cost $${rounded(spentUsd)} of the $${maxUsd} that it may cost. May it cost more?`,
      schema: {
        type: 'object',
        properties: { max_cost_usd: { type: 'number', exclusiveMinimum: maxUsd } },
        required: ['max_cost_usd'],
        additionalProperties: false,
      },
      ...{ expiresAt: this.#clock.now() + waits.leftMs, onTimeout: 'deny' },
    };
    if (before === undefined && !(await waits.ask([asked]))) return undefined;
    const shown = before ?? asked;
    this.#tell([shown], before === undefined ? [asked] : [], shown.expiresAt);
    throw new RunContinuesError(this.#run.runId, 'wait', shown.expiresAt);
  }

  #traceDecision({ turn, call, tool }: Pick<Asked, 'turn' | 'call' | 'tool'>, { decision, by }: DecidedCall): void {
    const approval_id = approvalIdOf({ runId: this.#run.runId, turn, call });
    const payload = { tool_name: tool.slice(0, 64), turn, approval_id, decision: decision.type, by };
    this.#run.trace.add({ event_type: 'approval_decided', payload });
  }

  /** Learns what was decided about a call, and returns how it goes on. Throws TIMEOUT if its run ends with it. */
  settle(call: LlmToolCall, decision: Decision): Settled {
    this.#learn(call, decision);
    switch (decision.type) {
      case 'approve': {
        if (decision.args === undefined) return { call };
        const input = unmasked(decision.args, this.#run.mask.json(call.input!), call.input!);
        const shown = JSON.stringify(decision.args);
        const note = `[A person changed the arguments of this call before approving it, to ${shown}]`;
        return { call: { ...call, input }, note };
      }
      case 'deny': {
        const reason = decision.reason === undefined ? '' : ` The reason: ${decision.reason}`;
        return {
          outcome: errorOutcome(`A person refused this call, so it was not made. Do not repeat it.${reason}`),
        };
      }
      case 'answer': {
        const { answer } = decision;
        const text = answer === null ? '(no payload)' : typeof answer === 'string' ? answer : JSON.stringify(answer);
        return { outcome: { text, isError: false } };
      }
      case 'expired':
        return { outcome: this.#expired(call, decision.onTimeout) };
    }
  }

  /**
   * Asks about calls of a turn, and leaves the process until something is decided: throws {@link RunContinuesError}. Returns
   * how calls go on about which nobody can be asked, by number from 0.
   */
  async wait(turn: number, calls: readonly LlmToolCall[], numbers: readonly number[]): Promise<Map<number, Settled>> {
    const waits = await this.#run.durable!.waits();
    // Calls about which an earlier process asked wait on as they did.
    const before = await waits.asked(turn);
    const answers = new Map<number, Settled>();
    const asked: Asked[] = [];
    for (const number of numbers.filter((each) => !before.has(each + 1))) {
      const wanted = await this.#asked(turn, number, calls[number]!, waits);
      if ('problem' in wanted) answers.set(number, { outcome: errorOutcome(wanted.problem) });
      else if (before.size + asked.length < MAX_WAITING_CALLS) asked.push(wanted);
      else answers.set(number, { outcome: errorOutcome(tooManyCalls) });
    }
    // The results of the others come first: then the rest is asked.
    if (answers.size > 0) return answers;
    if (asked.length > 0 && !(await waits.ask(asked))) {
      return new Map(asked.map(({ call }) => [call - 1, { outcome: errorOutcome(tooManyRuns) }]));
    }
    const all = [...before.values(), ...asked];
    const until = Math.min(...all.map(({ expiresAt }) => expiresAt));
    this.#tell(all, asked, until);
    throw new RunContinuesError(this.#run.runId, 'wait', until);
  }

  async #waits(call: LlmToolCall): Promise<boolean> {
    const { name, input } = call;
    const definition = this.#tools.definitionOf(name);
    if (definition === undefined) return false;
    const isOwn = name === ASK_HUMAN.name || name === WAIT.name;
    const approval = isOwn ? undefined : this.#tools.approvalOf(name);
    if (!isOwn && (approval === undefined || this.#approvedTools.has(name))) return false;
    if (this.#refused.has(keyOf(call))) return false;
    if (input === undefined || (await this.#mismatches(definition.inputSchema, input))) return false;
    if (name === WAIT.name) return 'at' in waitUntil(input as Members, this.#clock.now());
    if (approval?.when === undefined) return true;
    return !(await this.#mismatches(approval.when, input));
  }

  /** Whether a value does not match a schema. What could not be checked in time counts as a match, so that a person is asked. */
  async #mismatches(schema: Readonly<Record<string, unknown>>, value: Json): Promise<boolean> {
    return (await this.#run.validate(schema, value)).some((problem) => !isUnchecked(problem));
  }

  async #asked(
    turn: number,
    number: number,
    { name, input }: LlmToolCall,
    waits: Waits,
  ): Promise<Asked | { readonly problem: string }> {
    const { leftMs } = waits;
    const now = this.#clock.now();
    const latest = now + leftMs;
    if (leftMs <= 0) return { problem: 'This run has waited for as long as it may, so it cannot wait again.' };
    const place = { turn, call: number + 1, tool: name };
    const args = this.#run.mask.json(input!);
    if (Buffer.byteLength(JSON.stringify(args)) > MAX_SHOWN_BYTES) {
      return {
        problem: `The arguments are longer than ${MAX_SHOWN_BYTES / 1024} KB, too long for a person to approve.`,
      };
    }
    if (name === WAIT.name) {
      const wait = waitUntil(input as Members, now);
      if ('problem' in wait) return wait;
      const { at: expiresAt } = wait;
      const { event } = input as Members;
      if (event !== undefined) {
        const isKnown = await waits.hasEvent(event as string);
        if (!isKnown) return { problem: `The event ${event} has no address yet: make one with event_url first.` };
        return { ...place, kind: 'event', args, expiresAt: Math.min(latest, expiresAt), onTimeout: 'deny' };
      }
      const seconds = Math.floor(leftMs / 1000);
      if (expiresAt > latest) return { problem: `This run may wait for ${seconds} more seconds, not so long.` };
      return { ...place, kind: 'time', args, expiresAt, onTimeout: 'continue' };
    }
    if (name === ASK_HUMAN.name) {
      const { question, options, schema } = args as unknown as QuestionInput;
      const ofAnswer = schema ?? (options && { type: 'string', enum: options });
      return {
        ...{ ...place, kind: 'answer', args, question, expiresAt: latest, onTimeout: 'deny' },
        ...(options && { options }),
        ...(ofAnswer && { schema: ofAnswer as NonNullable<Asked['schema']> }),
      };
    }
    const { timeout_seconds, on_timeout = 'deny' } = this.#tools.approvalOf(name) ?? {};
    const expiresAt = timeout_seconds === undefined ? latest : Math.min(latest, now + timeout_seconds * 1000);
    const schema = this.#tools.definitionOf(name)!.inputSchema as NonNullable<Asked['schema']>;
    const isShort = Buffer.byteLength(JSON.stringify(schema)) <= MAX_SCHEMA_BYTES;
    return { ...place, kind: 'approve', args, expiresAt, onTimeout: on_timeout, ...(isShort && { schema }) };
  }

  #tell(all: readonly Asked[], asked: readonly Asked[], until: number): void {
    const { runId, trace, emit } = this.#run;
    const idOf = ({ turn, call }: Asked): string => approvalIdOf({ runId, turn, call });
    const approvals = all.map((each) => ({
      ...{ id: idOf(each), kind: each.kind, tool: each.tool.slice(0, 64) },
      ...(each.question !== undefined && { question: each.question }),
    }));
    for (const each of asked) {
      const { tool, turn, kind, expiresAt } = each;
      const about = { tool_name: tool.slice(0, 64), turn, approval_id: idOf(each), kind };
      const payload = { ...about, expires_at: isoTime(expiresAt) };
      trace.add({ event_type: 'approval_requested', payload });
    }
    emit({ type: 'waiting', approvals, until: isoTime(until) });
  }

  #learn(call: LlmToolCall, decision: Decision): void {
    if (decision.type === 'deny') this.#refused.add(keyOf(call));
    if (decision.type === 'approve' && decision.forRun === true) this.#approvedTools.add(call.name);
  }

  #expired({ name }: LlmToolCall, onTimeout: OnTimeout): ToolOutcome {
    if (onTimeout === 'continue') return outcomeOf(`The time has come: it is ${isoTime(this.#clock.now())}.`);
    if (onTimeout === 'fail') {
      throw new PlatformError('TIMEOUT', `Nobody decided in time about a call of the tool ${name}.`, {
        hint: 'With "on_timeout": "deny" in its "approval", the model is told, and the run continues.',
      });
    }
    if (name === ASK_HUMAN.name) return errorOutcome('Nobody answered in time.');
    if (name === WAIT.name) return errorOutcome('The event did not happen in time.');
    return errorOutcome('Nobody decided about this call in time, so it was not made.');
  }
}

const tooManyCalls = `At most ${MAX_WAITING_CALLS} calls wait at the same time. Make this one again later.`;
const tooManyRuns = 'Too many runs of the workspace wait already, so nobody was asked. The call was not made.';

/** Six digits are a ten-thousandth of a cent. */
const rounded = (usd: number): number => Math.round(usd * 1e6) / 1e6;

type Members = { readonly [name: string]: Json };

interface QuestionInput {
  readonly question: string;
  readonly options?: readonly string[];
  readonly schema?: Json;
}

const keyOf = ({ name, input }: LlmToolCall): string => `${name} ${JSON.stringify(input)}`;

/**
 * Returns changed arguments with the values of secrets where the person saw their masks: what was shown and not changed is
 * what the model gave.
 */
function unmasked(changed: Json, shown: Json, given: Json): Json {
  if (isDeepStrictEqual(changed, shown)) return given;
  if (Array.isArray(changed) && Array.isArray(shown) && Array.isArray(given)) {
    return changed.map((each, index) => (index < shown.length ? unmasked(each, shown[index]!, given[index]!) : each));
  }
  if (!isObject(changed) || !isObject(shown) || !isObject(given)) return changed;
  return Object.fromEntries(
    Object.entries(changed).map(([name, value]) => [
      name,
      Object.hasOwn(shown, name) ? unmasked(value, shown[name]!, given[name]!) : value,
    ]),
  );
}

const isObject = (value: Json): value is { [member: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
