import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { type Clock, isoTime } from '#core/ports/clock.ts';
import { type Approval, type Asked, approvalIdOf } from '#core/runs/approvals/approval.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import type { EntryEnd, PlacedWait } from '../../steps/entry.ts';
import type { DurableWork, EngineRun } from '../engine.ts';

const KINDS = { ask_human: 'answer', sleep: 'time', wait_for_event: 'event' } as const;

/** A wait of a program is the only call of the turn that its position names. */
const CALL = 1;

/**
 * Lets a run wait if its program has ended for that: throws {@link RunContinuesError}. Throws RATE_LIMITED if too many runs
 * wait.
 *
 * @param stepsBefore Position of the last entry when the program started.
 * @param onWait Called before the run waits.
 */
export async function leaveIfSuspended(
  run: EngineRun,
  durable: DurableWork,
  { stepsBefore, onWait }: { readonly stepsBefore: number; readonly onWait: () => Promise<void> },
): Promise<void> {
  const steps = await durable.steps();
  if (steps === undefined || !(await steps.isSuspended(stepsBefore))) return;
  const open = await steps.waits();
  if (open.length === 0) return;
  const waits = await durable.waits();
  const before = new Set((await waits.all()).map(({ turn }) => turn));
  const all = open.map((wait) => askedOf(run, wait));
  const asked = all.filter(({ turn }) => !before.has(turn));
  if (asked.length > 0 && !(await waits.ask(asked))) {
    throw new PlatformError('RATE_LIMITED', 'Too many runs of the workspace wait already.', { is_retryable: false });
  }
  await onWait();
  const until = Math.min(...all.map(({ expiresAt }) => expiresAt));
  tell(run, { all, asked, until });
  throw new RunContinuesError(run.runId, 'wait', until);
}

/** Gives a program the values of waits that have ended, before it starts. Returns the position of its last entry. */
export async function startSteps(
  { clock }: { readonly clock: Clock },
  run: EngineRun,
  durable: DurableWork,
): Promise<number> {
  const steps = await durable.steps();
  if (steps === undefined || durable.journal.begun === 1) return 0;
  const open = new Set((await steps.waits()).map(({ position }) => position));
  if (open.size === 0) return steps.start(new Map());
  const approvals = await (await durable.waits()).all();
  const settled = approvals
    .filter(({ turn, decision }) => open.has(turn) && decision !== null)
    .sort((a, b) => timeOf(a) - timeOf(b));
  const before = await steps.start(new Map(settled.map((approval) => [approval.turn, endOf(approval, clock)])));
  for (const approval of settled) {
    const { tool, turn, decision, decidedBy } = approval;
    const payload = { tool_name: tool, turn, approval_id: approvalIdOf(approval), decision: decision!.type };
    run.trace.add({ event_type: 'approval_decided', payload: { ...payload, by: decidedBy } });
  }
  return before;
}

const timeOf = ({ decidedAt, expiresAt }: Approval): number => (decidedAt === null ? expiresAt : Date.parse(decidedAt));

function endOf({ decision, kind }: Approval, clock: Clock): EntryEnd {
  if (decision!.type === 'answer') return { value: decision!.answer };
  if (kind === 'time') return { value: isoTime(clock.now()) };
  const message = kind === 'answer' ? 'Nobody answered in time.' : 'The event did not happen in time.';
  return { error: { code: 'TIMEOUT', message } };
}

function askedOf({ mask }: EngineRun, { kind, text, position, wait }: PlacedWait): Asked {
  const { expiresAt, options, schema } = wait;
  const question = kind === 'ask_human' ? mask.text(text) : undefined;
  const shown = mask.json({
    ...(question !== undefined && { question }),
    ...(kind === 'wait_for_event' && { event: text }),
    ...(options && { options: [...options] }),
    ...(schema && !options && { schema }),
    ...(kind === 'sleep' && { until: isoTime(expiresAt) }),
  } as Json) as { readonly options?: readonly string[]; readonly schema?: Asked['schema'] };
  const ofAnswer = shown.schema ?? (shown.options && { type: 'string', enum: [...shown.options] });
  return {
    ...{
      kind: KINDS[kind as keyof typeof KINDS],
      tool: kind,
      turn: position,
      call: CALL,
      args: shown as Json,
      expiresAt,
    },
    onTimeout: kind === 'sleep' ? 'continue' : 'deny',
    ...(question !== undefined && { question }),
    ...(shown.options && { options: shown.options }),
    ...(ofAnswer && { schema: ofAnswer }),
  };
}

function tell(
  { runId, trace, emit }: EngineRun,
  { all, asked, until }: { readonly all: readonly Asked[]; readonly asked: readonly Asked[]; readonly until: number },
): void {
  const idOf = ({ turn, call }: Asked): string => approvalIdOf({ runId, turn, call });
  for (const each of asked) {
    const { tool: tool_name, turn, kind, expiresAt } = each;
    const payload = { tool_name, turn, approval_id: idOf(each), kind, expires_at: isoTime(expiresAt) };
    trace.add({ event_type: 'approval_requested', payload });
  }
  const approvals = all.map((each) => ({
    ...{ id: idOf(each), kind: each.kind, tool: each.tool },
    ...(each.question !== undefined && { question: each.question }),
  }));
  emit({ type: 'waiting', approvals, until: isoTime(until) });
}
