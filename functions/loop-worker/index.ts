import type { Context } from 'aws-lambda';
import { awsDeps } from '#aws/all-deps.ts';
import { resumeRun } from '#core/execution/durable/resume.ts';
import type { RunJob } from '#core/ports/deps.ts';
import { host } from '../host.ts';

/** A run leaves the function at the end of a turn when this much of its time is left: a tool takes two minutes at most. */
const LEFT_MS = 3 * 60_000;

/** After this time the function leaves a program at work, and is invoked about every minute to read its output. */
const LOOK_AFTER_MS = 30_000;

const deps = awsDeps(host.config);

/** Invoked by functions that durable runs leave, and by `sweeper`. Idempotent if a job is delivered twice. */
export async function handler(job: RunJob, context: Pick<Context, 'getRemainingTimeInMillis'>): Promise<void> {
  const afterMs = context.getRemainingTimeInMillis() - LEFT_MS;
  await resumeRun({ ...deps, handOver: { ...deps.handOver, afterMs, lookAfterMs: LOOK_AFTER_MS } }, job);
  await deps.settled();
}
