import { createHash } from 'node:crypto';
import { hasEnded } from '#core/base/run-kinds.ts';
import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import { Zone } from '#core/base/zone.ts';
import type { Handlers } from '#core/http/route.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, lessThan } from '#core/ports/table.ts';
import { RunStore } from '#core/runs/store.ts';
import { findSchedule, scheduleNotFound } from '../find.ts';
import { answerFromRun, runNow, type ScheduleRunAnswer, unfinished } from '../runs/run.ts';
import type { Schedule, ScheduleInput } from '../schedule.ts';
import { momentOf } from '../timing/moment.ts';
import type { scheduleTriggerRoutes } from './routes.ts';

/** Longer than any run, plus the time after which a run without an end counts as lost. */
const LOCK_SECONDS = 360;
const POLL_MS = 100;

export const triggerSchedule =
  (deps: Deps): Handlers<typeof scheduleTriggerRoutes>['triggerSchedule'] =>
  async ({ caller, params, query, body, requestUuid: runId }) => {
    const schedule = await findSchedule(deps, caller, params.schedule_id);
    const input = inputOf(schedule, body);
    const { scheduled_at } = query;
    const moment = scheduled_at === undefined ? undefined : momentOf(scheduled_at, Zone.of(schedule.timezone));
    const answer = await triggerOnce(deps, schedule, { keyId: caller.keyId, runId, input, moment });
    if (answer === undefined) throw scheduleNotFound(caller, params.schedule_id);
    return { status: 200, body: answer };
  };

/** Clients send the input itself, or wrap it in `input_data`. An empty body means the schedule's own input. */
function inputOf({ input: stored }: Schedule, body: ScheduleInput): ScheduleInput {
  const [[name, value] = [], ...others] = Object.entries(body);
  if (name === undefined) return stored;
  const isWrapped = name === 'input_data' && others.length === 0 && typeof value === 'object' && value !== null;
  return isWrapped && !Array.isArray(value) ? value : body;
}

type TriggerAnswer = ScheduleRunAnswer & { readonly deduplicated: boolean };

/**
 * Runs the schedule, or waits for the run of an equal request. Clients time out after 15 s and retry twice: requests
 * with the same API key, moment and input share the answer of the run in progress.
 *
 * Counters table: `SCHEDULE#<id>#TRIGGERS / <hash of key, input and moment>` is the run in progress.
 */
async function triggerOnce(
  deps: Deps,
  schedule: Schedule,
  { keyId, runId, input, moment }: { keyId: string; runId: string; input: ScheduleInput; moment: number | undefined },
): Promise<TriggerAnswer | undefined> {
  const { counters, clock } = deps;
  const runs = new RunStore(deps, schedule.workspaceId);
  const hash = createHash('sha256')
    .update(`${keyId}\n${JSON.stringify(input)}${moment === undefined ? '' : `\n${moment}`}`)
    .digest('hex');
  const key = { pk: `SCHEDULE#${schedule.id}#TRIGGERS`, sk: hash };
  let firstRunId: string | undefined;
  const heldUntil = clock.now() + HELD_CALL_MS;
  for (;;) {
    // Checked before the lock is taken: the lock is released only after the run has ended.
    const run = firstRunId === undefined ? undefined : await runs.find(firstRunId);
    if (run && hasEnded(run.status)) {
      const body = await runs.body(run.id);
      return { ...answerFromRun(run, body?.output ?? null), deduplicated: true };
    }
    if (run && clock.now() >= heldUntil) return { ...unfinished(run.id, HELD_CALL_MS), deduplicated: true };
    const now = epochSeconds(clock.now());
    const lock = { ...key, run_id: runId, ttl: now + LOCK_SECONDS };
    if ((await counters.put(lock, anyOf(absent(), lessThan('ttl', now)))).ok) break;
    firstRunId = ((await counters.get(key))?.run_id as string | undefined) ?? firstRunId;
    await clock.sleep(POLL_MS);
  }
  const work = runNow(deps, schedule, {
    runId,
    source: 'manual',
    input,
    scheduledAt: moment ?? clock.now(),
  }).finally(() => counters.delete(key));
  // The run outlives the connection of its client; a stopping host waits for it.
  deps.background(
    work.then(
      () => {},
      () => {},
    ),
  );
  const answer = await work;
  return answer && { ...answer, deduplicated: false };
}
