import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import { writtenVersion } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { BranchRequest } from '../durable/branch.ts';
import type { sessionMessageRoutes } from '../sessions/messages/routes.ts';
import { answerCall } from './answer-call.ts';
import { finishInBackground } from './call.ts';
import { readCall } from './read-call.ts';
import type { callRoutes } from './routes.ts';

/** Loaded lazily: few calls belong to a session, and smaller functions start faster. */
const sessions = lazy(() => import('../sessions/send-message.ts'));
const replay = lazy(() => import('./replay.ts'));

type CallRoutes = readonly [...typeof callRoutes, ...typeof sessionMessageRoutes];

type ReplayBody = Incoming<Extract<(typeof callRoutes)[number], { operationId: 'replayRun' }>>['body'];

/** Throws INVALID_INPUT for members that make no sense together. */
function branchOf({ from_turn: fromTurn, input, ...changes }: ReplayBody): BranchRequest | undefined {
  const { message, tool_results = [], model } = changes;
  const refused = (text: string) => new PlatformError('INVALID_INPUT', `body.${text}`);
  if (fromTurn === undefined) {
    const lost = (['message', 'tool_results', 'model'] as const).find((name) => changes[name] !== undefined);
    if (lost !== undefined) throw refused(`${lost}: requires from_turn, the turn that the new run begins with.`);
    return undefined;
  }
  if (input !== undefined) {
    throw refused('input: cannot be combined with from_turn, as a branch keeps its input. Use message to add to it.');
  }
  const seen = new Set<string>();
  for (const [index, { turn, call }] of tool_results.entries()) {
    if (turn >= fromTurn) {
      throw refused(`tool_results.${index}.turn: must be before from_turn (${fromTurn}), not ${turn}.`);
    }
    if (seen.has(`${turn}.${call}`)) {
      throw refused(`tool_results.${index}: call ${call} of turn ${turn} is named twice.`);
    }
    seen.add(`${turn}.${call}`);
  }
  return { fromTurn, message, toolResults: tool_results, model };
}

export const callHandlers = (deps: Deps): Handlers<CallRoutes> => ({
  sendSessionMessage: async (incoming) => (await sessions()).sendSessionMessage(deps, incoming),

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
      agentVersion: body.agent_version && writtenVersion(body.agent_version),
      branch: branchOf(body),
    });
    finishInBackground(deps, started);
    return {
      status: 202,
      body: { run_id: runId, job_id: runId, replay_of_run_id: original, status: 'queued' },
    };
  },
});
