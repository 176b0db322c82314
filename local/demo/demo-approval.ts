import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCode, pathOf, START_CODE_LIFE_MS } from '#core/accounts/sign-in/codes.ts';
import { findOwnerKey } from '#core/accounts/workspaces/bootstrap.ts';
import { createClient } from '#core/api/client.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import type { LocalServer } from '../server.ts';
import { EXAMPLES_FOLDER } from './examples.ts';

const NAME = 'refund-desk';
const PATIENCE_MS = 30_000;
const POLL_MS = 50;

type Say = (line: string) => void;

/** A call of examples/refund-desk that waits for a person. */
export interface ShownApproval {
  /** Link that signs in, once within ten minutes, and shows the run with the decision. */
  readonly url: string;
  /** Approves it, as a person would, and shows the answer. Throws an Error if there is none. */
  approve(): Promise<void>;
}

/** Calls examples/refund-desk with its sample, about a larger refund, and returns when it waits for a person. */
export async function showApproval(server: LocalServer, key: string, say: Say): Promise<ShownApproval> {
  const { deps, url } = server;
  const client = createClient({ baseUrl: url, key });
  const workspace = await client.getOrg({});
  const sample = readFileSync(join(EXAMPLES_FOLDER, NAME, 'sample-input.json'), 'utf8');
  const path = `/${workspace.slug}/${NAME}/latest/run`;
  say(`\n$ curl ${url}${path} -H 'Prefer: respond-async' -d @examples/${NAME}/sample-input.json`);
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', prefer: 'respond-async' },
    body: sample,
  });
  const { run_id, error } = (await response.json()) as { run_id: string; error?: { message: string } };
  if (!response.ok) throw new Error(`examples/${NAME} was not called: ${error?.message}`);
  const params = { workspace_id: workspace.id, run_id };
  const until = async (isWanted: (status: string) => boolean) => {
    const startedAt = performance.now();
    for (;;) {
      const run = await client.getRun({ params });
      if (isWanted(run.status)) return run;
      if (performance.now() - startedAt > PATIENCE_MS) throw new Error(`the run of ${NAME} is still ${run.status}`);
      await sleep(POLL_MS);
    }
  };
  const waiting = await until((status) => status === 'waiting' || hasEnded(status as never));
  const query = { run_id, status: 'waiting' } as const;
  const { approvals } = await client.listApprovals({ params: { workspace_id: workspace.id }, query });
  const [approval] = approvals;
  if (approval === undefined) throw new Error(`the run of ${NAME} is ${waiting.status}: ${waiting.error_message}`);
  const { id, tool, arguments: args } = approval;
  say(`The run waits for a person: it wants to call ${tool} with ${JSON.stringify(args)}.`);
  const to = pathOf({ kind: 'run', id: run_id, workspace: { ...workspace } as never });
  const code = await createCode(deps, (await findOwnerKey(deps))!, { to, lifeMs: START_CODE_LIFE_MS });
  return {
    url: code.url,
    async approve() {
      say(`\n$ curl ${url}/workspaces/${workspace.id}/approvals/${id}/decision -d '{"decision": "approve"}'`);
      await client.decideApproval({
        params: { workspace_id: workspace.id, approval_id: id },
        body: { decision: 'approve', for: 'this' },
      });
      const { status, output_data, error_message } = await until((each) => hasEnded(each as never));
      if (status !== 'completed') throw new Error(`the run of ${NAME} is ${status}: ${error_message}`);
      say(JSON.stringify(output_data, null, 2));
    },
  };
}
