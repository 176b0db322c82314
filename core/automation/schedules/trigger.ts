import { createHash } from 'node:crypto';
import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, lessThan } from '#core/ports/table.ts';
import { RunStore } from '#core/runs/store.ts';
import type { scheduleTriggerRoutes } from './routes.ts';
import { answerFromRun, runNow, type ScheduleRunAnswer } from './run.ts';
import { type Schedule, ScheduleStore } from './store.ts';

/** Past the longest run, and past the time after which one without an end counts as lost. */
const LOCK_SECONDS = 360;
const POLL_MS = 100;

export const scheduleTriggerHandlers = (deps: Deps): Handlers<typeof scheduleTriggerRoutes> => ({
  async triggerSchedule({ caller, params, body, requestUuid: runId }) {
    const schedule = await new ScheduleStore(deps, caller.workspace.id).find(params.schedule_id);
    const input = schedule && inputOf(schedule, body);
    const answer = schedule && (await triggerOnce(deps, schedule, { keyId: caller.keyId, runId, input: input! }));
    if (answer === undefined) {
      const id = params.schedule_id.slice(0, 64);
      throw new PlatformError(
        'NOT_FOUND',
        `The workspace "${caller.workspace.slug}" has no schedule with the id "${id}".`,
      );
    }
    return { status: 200, body: answer };
  },
});

/** `contract.md` 7.2: clients send the input itself, the document of the API has it in `input_data`; empty is none. */
function inputOf({ input_data: stored }: Schedule, body: Schedule['input_data']): Schedule['input_data'] {
  const [[name, value] = [], ...others] = Object.entries(body);
  if (name === undefined) return stored;
  const isWrapped = name === 'input_data' && others.length === 0 && typeof value === 'object' && value !== null;
  return isWrapped && !Array.isArray(value) ? value : body;
}

type TriggerAnswer = ScheduleRunAnswer & { readonly deduplicated: boolean };

/**
 * Clients that wait 15 s for an answer ask three times (`contract.md` 15.9): whoever triggers the schedule with the same
 * key and the same input while the first run goes on gets that run's answer.
 *
 * Counters table: `SCHEDULE#<id>#TRIGGERS / <hash of key and input>` is the run that goes on.
 */
async function triggerOnce(
  deps: Deps,
  schedule: Schedule,
  { keyId, runId, input }: { keyId: string; runId: string; input: Schedule['input_data'] },
): Promise<TriggerAnswer | undefined> {
  const { counters, clock } = deps;
  const runs = new RunStore(deps, schedule.workspace_id);
  const hash = createHash('sha256')
    .update(`${keyId}\n${JSON.stringify(input)}`)
    .digest('hex');
  const key = { pk: `SCHEDULE#${schedule.id}#TRIGGERS`, sk: hash };
  let first: string | undefined;
  for (;;) {
    // Before the lock: it is given back after the run has ended.
    const run = first === undefined ? undefined : await runs.find(first);
    if (run && run.status !== 'running' && run.status !== 'queued') {
      const body = await runs.body(run.id);
      return { ...answerFromRun(run, body?.output ?? null), deduplicated: true };
    }
    const now = epochSeconds(clock.now());
    const lock = { ...key, run_id: runId, ttl: now + LOCK_SECONDS };
    if ((await counters.put(lock, anyOf(absent(), lessThan('ttl', now)))).ok) break;
    first = ((await counters.get(key))?.run_id as string | undefined) ?? first;
    await clock.sleep(POLL_MS);
  }
  const work = runNow(deps, schedule, { runId, source: 'manual', input }).finally(() => counters.delete(key));
  // The run outlives its client's connection, and a host that stops waits for it.
  deps.background(
    work.then(
      () => {},
      () => {},
    ),
  );
  const answer = await work;
  return answer && { ...answer, deduplicated: false };
}
