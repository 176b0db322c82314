import { refuseMoving } from '#core/accounts/workspaces/moving.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { MAX_CALL_MS } from '#core/base/time-limits.ts';
import { callerTrace } from '#core/execution/calls/caller-trace.ts';
import { idempotent } from '#core/execution/idempotency/idempotent.ts';
import type { KeptAnswer } from '#core/execution/idempotency/stored-answer.ts';
import { mergeInput } from '#core/execution/input/payload.ts';
import type { HttpRequest } from '#core/http/message.ts';
import { readPayload } from '#core/http/payload.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { preventRun } from '../schedules/runs/open-runs.ts';
import { answerFromRun, runNow, type ScheduleRunAnswer } from '../schedules/runs/run.ts';
import type { Schedule } from '../schedules/schedule.ts';
import { findAnyItem } from '../schedules/store.ts';
import { endOf } from '../schedules/timing/ending.ts';
import { isWebhookSecret } from '../schedules/webhook-secret.ts';

/** A request to the URL of a webhook. */
export interface WebhookCall {
  readonly scheduleId: string;
  readonly secret: string;
  /** `Idempotency-Key`. */
  readonly key: string | undefined;
  readonly request: HttpRequest;
  /** ID of the run, if the call starts one. */
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

/** Response body for a webhook call. */
export interface WebhookAnswer extends ScheduleRunAnswer {
  /** Whether the result comes from an earlier call with the same key. */
  readonly deduplicated: boolean;
}

/**
 * Runs the agent of a webhook and waits for the end. Of the calls with the same key within 24 hours, only one runs; the
 * others wait for its result, even if their bodies differ. A run that was lost with its host counts as a result.
 *
 * Throws NOT_FOUND, FORBIDDEN for a wrong secret, CONFLICT while the schedule is disabled or has ended, and the errors of {@link
 * readPayload} for the body. In these cases nothing has run, and the key can be used again.
 */
export async function receiveWebhook(deps: Deps, call: WebhookCall): Promise<WebhookAnswer> {
  const { key, request, runId } = call;
  const { schedule, item } = await findWebhook(deps, call);
  const { maxCallBodyBytes, maxDirectBodyBytes = maxCallBodyBytes } = deps.config;
  const payload = await readPayload(request, { bytes: Math.min(maxCallBodyBytes, maxDirectBodyBytes) });
  const run = async (): Promise<ScheduleRunAnswer> => {
    const check = (current: Schedule): void => checkEnabled(current, deps.clock.now());
    check(schedule);
    const input = mergeInput(schedule.input, payload);
    const mayBePrevented = key !== undefined;
    const trace = await callerTrace(request.headers);
    const begin = { runId, source: 'webhook', input, item, mayBePrevented, check, ...trace } as const;
    const answer = await runNow(deps, schedule, begin);
    if (answer === undefined) throw unknownWebhook();
    return answer;
  };
  // Not tied to the request: a run outlives the connection of its sender, and a stopping host waits for it.
  if (key === undefined) return { ...(await inBackground(deps, run())), deduplicated: false };
  return inBackground(deps, runOnce(deps, schedule, { ...call, key }, run));
}

/** Runs the webhook, or returns the result of an earlier call with the same key. */
async function runOnce(
  deps: Deps,
  { id: scheduleId, workspaceId }: Schedule,
  { key, runId, receivedAt }: WebhookCall,
  run: () => Promise<ScheduleRunAnswer>,
): Promise<WebhookAnswer> {
  const outcome = await idempotent(
    deps,
    {
      workspaceId,
      // Headers cannot contain NUL, so this never collides with the key of an agent call.
      key: `webhook\0${scheduleId}\0${key}`,
      // The key alone decides whether two calls are equal.
      fingerprint: '',
      runId,
      deadline: receivedAt + MAX_CALL_MS,
      answerFrom: keptAnswerFrom,
      prevent: (lostRunId) => preventRun(deps, { scheduleId, runId: lostRunId }),
    },
    async (keep) => keep(kept(await run())),
  );
  const isFirst = 'result' in outcome;
  const { body } = isFirst ? outcome.result : outcome.replayed;
  return { ...(JSON.parse(body) as ScheduleRunAnswer), deduplicated: !isFirst };
}

async function findWebhook(deps: Deps, { scheduleId, secret }: WebhookCall) {
  const found = await findAnyItem(deps, scheduleId);
  const hash = found?.schedule.webhookSecretHash ?? null;
  if (found === undefined || hash === null) throw unknownWebhook();
  if (!isWebhookSecret(secret, hash)) {
    throw new PlatformError('FORBIDDEN', 'The secret in the URL of this webhook is wrong.', {
      hint: 'The URL is shown when the schedule is created or its URL is rotated; the previous URL then stops working.',
    });
  }
  if (found.item.moving === true) await refuseMoving(deps, found.schedule.workspaceId);
  return found;
}

function checkEnabled(schedule: Schedule, now: number): void {
  const endedBy = endOf(schedule, now) ?? schedule.endedReason;
  if (schedule.enabled && !endedBy) return;
  const isOver = endedBy ? `has ended, as its ${endedBy} says` : 'is disabled';
  throw new PlatformError('CONFLICT', `This webhook ${isOver}. Nothing was run.`, {
    hint: endedBy
      ? `An owner of its workspace can change ${endedBy} and enable the schedule.`
      : 'An owner of its workspace can enable the schedule.',
  });
}

const unknownWebhook = (): PlatformError => new PlatformError('NOT_FOUND', 'This webhook does not exist.');

async function inBackground<T>({ background }: Pick<Deps, 'background'>, work: Promise<T>): Promise<T> {
  background(work.then(ignore, ignore));
  return work;
}

const ignore = (): void => {};

const kept = (answer: ScheduleRunAnswer): KeptAnswer => ({ status: 200, body: JSON.stringify(answer) });

const keptAnswerFrom = (run: Run, output: Json | null): KeptAnswer => kept(answerFromRun(run, output));
