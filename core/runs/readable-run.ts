import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Run } from './run.ts';
import type { RunStore } from './store.ts';

/**
 * Finds a run that the caller may read. Users name any run of the workspace, as `findByName` describes. The key of a
 * run reads only the runs that this run started itself, by their whole id: a prefix would reveal others.
 *
 * Throws NOT_FOUND, CONFLICT, and FORBIDDEN for agents' keys that belong to no run.
 */
export async function findReadableRun(runs: RunStore, { agent }: Caller, name: string): Promise<Run> {
  if (agent === undefined) return runs.findByName(name);
  if (agent.kind !== 'run') {
    throw new PlatformError('FORBIDDEN', 'Service keys of agents are not allowed here, except the key of a run.', {
      hint: 'The key of a run reads the runs that this run started; use the API key of a user for others.',
    });
  }
  const run = UUID.test(name) ? await runs.find(name) : undefined;
  if (run === undefined || run.parentRunId !== agent.runId) {
    throw new PlatformError(
      'NOT_FOUND',
      `This run started no run "${name.slice(0, 64)}"; the key of a run reads only the runs that it started, by their whole id.`,
    );
  }
  return run;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
