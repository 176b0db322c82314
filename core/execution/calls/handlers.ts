import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import type { Json } from '#core/base/json.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Handlers } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { answerCall } from './answer-call.ts';
import { finishInBackground } from './call.ts';
import { readCall } from './read-call.ts';
import type { callRoutes } from './routes.ts';

const replay = lazy(() => import('./replay.ts'));

export const callHandlers = (deps: Deps): Handlers<typeof callRoutes> => ({
  async callAgent(incoming) {
    const call = await chargeIfRejected(deps, incoming.caller.workspace, () => readCall(deps, incoming));
    return answerCall(deps, incoming, call);
  },

  async replayRun({ params, caller, body, requestUuid: runId, receivedAt }) {
    const { startReplay } = await replay();
    const { original, started } = await startReplay(deps, {
      caller,
      name: params.run_id,
      runId,
      receivedAt,
      input: body.input as { [member: string]: Json } | undefined,
      agentVersion: body.agent_version?.replace(/^(?=\d)/, 'v'),
    });
    finishInBackground(deps, started);
    return {
      status: 202,
      body: { run_id: runId, job_id: runId, replay_of_run_id: original, status: 'queued' },
    };
  },
});
