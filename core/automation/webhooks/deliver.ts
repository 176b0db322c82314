import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { MAX_CALL_MS } from '#core/base/time-limits.ts';
import type { Deps } from '#core/ports/deps.ts';

import { idempotent } from '#core/running/idempotency/idempotent.ts';
import type { KeptAnswer } from '#core/running/idempotency/kept-answer.ts';
import type { Run } from '#core/runs/run.ts';
import { answerFromRun, runNow, type ScheduleRunAnswer } from '../schedules/run.ts';
import { findAnySchedule, preventRun, type Schedule } from '../schedules/store.ts';
import { isWebhookSecret } from '../schedules/webhook-secret.ts';
import { mergeInput, readPayload } from './payload.ts';

/** What came to a webhook. */
export interface Delivery {
  readonly scheduleId: string;
  readonly secret: string;
  /** `Idempotency-Key`. */
  readonly key: string | undefined;
  readonly request: Request;
  /** Of the run that it would begin. */
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

export interface DeliveryAnswer extends ScheduleRunAnswer {
  /** Whether it is the result of an earlier delivery with the same key. */
  readonly deduplicated: boolean;
}

/**
 * Runs the agent of a webhook and answers how that ended. Of deliveries with the same key within 24 hours one runs, and
 * the others wait for its result, whichever bodies they have; a run that was lost with its host is a result, too.
 *
 * Throws NOT_FOUND, FORBIDDEN for a wrong secret, CONFLICT while the schedule is disabled, and for a body what
 * {@link readPayload} throws: then nothing ran, and the key is free.
 */
export async function receiveDelivery(deps: Deps, delivery: Delivery): Promise<DeliveryAnswer> {
  const { key, request, runId, receivedAt } = delivery;
  const schedule = await findWebhook(deps, delivery);
  const { maxCallBodyBytes, maxDirectBodyBytes = maxCallBodyBytes } = deps.config;
  const payload = await readPayload(request, { bytes: Math.min(maxCallBodyBytes, maxDirectBodyBytes) });
  const run = async (): Promise<ScheduleRunAnswer> => {
    if (!schedule.enabled) {
      throw new PlatformError('CONFLICT', 'This webhook is disabled: nothing was run.', {
        hint: 'An owner of its workspace can enable the schedule.',
      });
    }
    const input = mergeInput(schedule.input_data, payload);
    const answer = await runNow(deps, schedule, { runId, source: 'webhook', input });
    if (answer === undefined) throw unknownWebhook();
    return answer;
  };
  // Not tied to the request: a run outlives its sender's connection, and a host that stops waits for it.
  if (key === undefined) return { ...(await inBackground(deps, run())), deduplicated: false };

  const work = idempotent(
    deps,
    {
      workspaceId: schedule.workspace_id,
      // No header can hold a NUL, so no call's key is the same as a webhook's.
      key: `webhook\0${schedule.id}\0${key}`,
      // The key alone says what is the same delivery.
      fingerprint: '',
      runId,
      deadline: receivedAt + MAX_CALL_MS,
      answerFrom: keptAnswerFrom,
      prevent: (run_id) => preventRun(deps, { schedule_id: schedule.id, run_id }),
    },
    async (keep) => keep(kept(await run())),
  );
  const outcome = await inBackground(deps, work);
  const isFirst = 'result' in outcome;
  const { body } = isFirst ? outcome.result : outcome.replayed;
  return { ...(JSON.parse(body) as ScheduleRunAnswer), deduplicated: !isFirst };
}

async function findWebhook(deps: Deps, { scheduleId, secret }: Delivery): Promise<Schedule> {
  const schedule = await findAnySchedule(deps, scheduleId);
  const hash = schedule?.webhook_secret_hash ?? null;
  if (schedule === undefined || hash === null) throw unknownWebhook();
  if (!isWebhookSecret(secret, hash)) {
    throw new PlatformError('FORBIDDEN', 'The secret in the address of this webhook is wrong.', {
      hint: 'The address is shown when the schedule is made, and when it is regenerated: the one before is dead then.',
    });
  }
  return schedule;
}

const unknownWebhook = (): PlatformError => new PlatformError('NOT_FOUND', 'There is no such webhook.');

async function inBackground<T>({ background }: Pick<Deps, 'background'>, work: Promise<T>): Promise<T> {
  background(work.then(ignore, ignore));
  return work;
}

const ignore = (): void => {};

const kept = (answer: ScheduleRunAnswer): KeptAnswer => ({ status: 200, body: JSON.stringify(answer) });

const keptAnswerFrom = (run: Run, output: Json | null): KeptAnswer => kept(answerFromRun(run, output));
