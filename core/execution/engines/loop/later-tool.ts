import { isPlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { MAX_DELAY_SECONDS } from '#core/base/time-limits.ts';
import { requestTime } from '#core/http/request-time.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { EngineRun } from '../engine.ts';
import { errorOutcome, outcomeOf, type ToolOutcome } from './tool-outcome.ts';

/** Calls the tool `later`. What the platform refuses is told to the model. */
export async function callLater(
  { later }: Pick<EngineRun, 'later'>,
  { input = {}, delay_seconds: delay, run_at: time }: { readonly [name: string]: Json },
  { requestId, now }: { readonly requestId: string | undefined; readonly now: number },
): Promise<ToolOutcome> {
  if ((delay === undefined) === (time === undefined)) return errorOutcome('Give either delay_seconds or run_at.');
  const runAt = time === undefined ? now + (delay as number) * 1000 : timeOf(time);
  if (runAt === undefined) return errorOutcome('run_at must be a time with an offset, such as 2026-12-01T09:00:00Z.');
  if (runAt <= now || runAt > now + MAX_DELAY_SECONDS * 1000) {
    return errorOutcome(`run_at must be in the next 30 days, and it is ${isoTime(now)} now.`);
  }
  try {
    const id = await later!({ input: input as { [member: string]: Json }, runAt, requestId });
    return outcomeOf(`The run ${id} begins at ${isoTime(runAt)}.`);
  } catch (error) {
    if (isPlatformError(error)) return errorOutcome(error.message);
    throw error;
  }
}

function timeOf(text: Json): number | undefined {
  const { data } = requestTime.safeParse(text);
  return data === undefined ? undefined : Date.parse(data);
}
