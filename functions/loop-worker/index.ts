import { awsDeps } from '#aws/all-deps.ts';
import { resumeRun } from '#core/execution/durable/resume.ts';
import type { RunJob } from '#core/ports/deps.ts';
import { host } from '../host.ts';

/** A tool takes two minutes at most, and Lambda ends a function after 15. */
const LEAVE_MS = 12 * 60_000;

const deps = awsDeps(host.config, LEAVE_MS);

/** Invoked by functions that durable runs leave, and by `sweeper`. Idempotent if a job is delivered twice. */
export async function handler(job: RunJob): Promise<void> {
  await resumeRun(deps, job);
  await deps.settled();
}
