import { UsageError } from '#client/usage-error.ts';
import type { Cli } from './cli.ts';

const RUN_ID = /^(req_)?(-?[0-9a-f]){7,32}$/i;

/** Returns the path parameters of a run, given its ID, a prefix of it, a request ID, or an agent (its latest run). */
export async function runParams(cli: Cli, given: string): Promise<{ workspace_id: string; run_id: string }> {
  const workspace_id = await cli.workspaceId();
  if (RUN_ID.test(given)) return { workspace_id, run_id: given };
  const agent = given.split('/').at(-1)!.split('@')[0]!;
  const { runs } = await (await cli.client()).listRuns({
    params: { workspace_id },
    query: { agent_name: agent, limit: 1 },
  });
  const [newest] = runs;
  if (newest === undefined) {
    throw new UsageError(`No run or agent with runs matches "${given}".`, {
      hint: 'Run `platform runs` to list the runs.',
      exitCode: 4,
    });
  }
  return { workspace_id, run_id: newest.id };
}
