import { readEvalFiles } from '#core/agents/eval-files.ts';
import { decideGate } from '#core/agents/gates/decide.ts';
import { endOrder, GATE_MS, type GateOrder, gateEvalId, lookAgain } from '#core/agents/gates/gate.ts';
import { isHeld } from '#core/agents/gates/standing.ts';
import type { AgentListeners } from '#core/agents/listeners.ts';
import { AgentStore } from '#core/agents/store.ts';
import { batchesOf } from '#core/base/batches.ts';
import { isPlatformError, isRetryable } from '#core/base/errors.ts';
import { shortText } from '#core/manifest/evals/suite.ts';
import type { AgentVersion, Gate } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { cancelRuns } from './abort.ts';
import { actingFor } from './acting.ts';
import { createEvaluation, ownBaseline } from './create.ts';
import type { Evaluation } from './eval.ts';
import { EvalStore } from './store.ts';
import { endInWords } from './verdict.ts';

export type GateDeps = Pick<
  Deps,
  'main' | 'runs' | 'blobs' | 'clock' | 'config' | 'ids' | 'log' | 'runSignals' | 'wakeRun'
> & { readonly listeners: AgentListeners };

const LOOKED_AT_ONCE = 10;
const TOO_LATE = 'It was not decided within an hour.';

/**
 * Starts the evaluations of gates, and decides about gates whose evaluations have ended. Each evaluation is made once and each decision is
 * repeated safely, so any number of processes may do this at once, and die at any point.
 */
export async function keepGates(deps: GateDeps, orders: readonly GateOrder[]): Promise<void> {
  for (const batch of batchesOf(orders, LOOKED_AT_ONCE)) {
    await Promise.all(
      batch.map((order) =>
        keepGate(deps, order).catch((error: unknown) =>
          deps.log.error('gate not kept', { version_id: order.versionId, error: String(error) }),
        ),
      ),
    );
  }
}

async function keepGate(deps: GateDeps, order: GateOrder): Promise<void> {
  const { workspaceId, name, versionId, evalId } = order;
  // First, so that one that fails does not keep all others waiting.
  await lookAgain(deps, order);
  const found = await new AgentStore(deps, workspaceId).findVersion(name, order.version);
  const version = found?.id === versionId ? found : undefined;
  const evaluation = await new EvalStore(deps, workspaceId).find(evalId);
  if (version?.gate === undefined || !isHeld(version)) return finish(deps, order, evaluation);
  const isFirst = evalId === gateEvalId(versionId);
  const isLate = isFirst && deps.clock.now() >= Date.parse(version.gate.since!) + GATE_MS;
  if (evaluation === undefined) {
    // An evaluation that a user asked for may have expired. Nothing has to decide in its place.
    if (!isFirst) return finish(deps, order, undefined);
    const problem = isLate ? TOO_LATE : await start(deps, version, version.gate);
    if (problem !== undefined) await decide(deps, order, undefined, problem);
  } else if (evaluation.status !== 'running') {
    await settle(deps, order, evaluation, version.gate);
  } else if (isLate) {
    await abort(deps, evaluation, TOO_LATE);
    await keepGate(deps, order);
  }
}

/** Starts the evaluation of a version. Returns why it cannot be evaluated, as a sentence; `undefined` if it is, or will be later. */
async function start(deps: GateDeps, version: AgentVersion, { publisher }: Gate): Promise<string | undefined> {
  const id = gateEvalId(version.id);
  const caller = await actingFor(deps, version.workspaceId, { ...publisher, keyId: id });
  if ('problem' in caller) return caller.problem;
  const [files, baseline] = await Promise.all([readEvalFiles(deps, version), ownBaseline(deps, version)]);
  const wanted = { id, agent: version, baseline, files: files ?? {}, trigger: 'publish', opensGate: true } as const;
  try {
    await createEvaluation(deps, caller, wanted);
    return undefined;
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    // The workspace has too many evaluations in progress, or has used up its time for checks.
    return error.code === 'CONFLICT' || isRetryable(error.code) ? undefined : error.message;
  }
}

/** Decides about the gate that an evaluation opens if it passes, after its end. Safe to repeat. */
export async function settleGate(deps: GateDeps, evaluation: Evaluation): Promise<void> {
  const { workspaceId, agentName, id: evalId, versions } = evaluation;
  const version = await new AgentStore(deps, workspaceId).find(versions.candidate.id);
  if (version?.gate === undefined || !isHeld(version)) return;
  const order = { workspaceId, name: agentName, version: version.version, versionId: version.id, evalId };
  await settle(deps, order, evaluation, version.gate);
}

async function settle(deps: GateDeps, order: GateOrder, evaluation: Evaluation, gate: Gate): Promise<void> {
  const { verdict, status, reason } = evaluation;
  const isFirst = order.evalId === gateEvalId(order.versionId);
  // The evaluation that the publish started still decides.
  if (verdict !== 'passed' && gate.status === 'pending' && !isFirst) return finish(deps, order, evaluation);
  const ended = verdict === null ? `was ${status === 'aborted' ? 'aborted' : 'not completed'}` : endInWords(verdict);
  const why = [`The evaluation ${ended}.`, reason].filter(Boolean).join(' ');
  await decide(deps, order, evaluation, verdict === 'passed' ? undefined : why);
}

async function decide(
  deps: GateDeps,
  order: GateOrder,
  evaluation: Evaluation | undefined,
  problem: string | undefined,
): Promise<void> {
  await decideGate(
    deps,
    { ...order, id: order.versionId },
    {
      status: problem === undefined ? 'passed' : 'failed',
      verdict: evaluation?.verdict ?? null,
      reason: problem === undefined ? null : shortText(problem),
      evalId: order.evalId,
      decidedBy: null,
    },
  );
  await finish(deps, order, evaluation);
}

/** Does what follows from a gate that is decided. A process may have died before it did. */
async function finish(deps: GateDeps, order: GateOrder, evaluation: Evaluation | undefined): Promise<void> {
  if (evaluation?.status === 'running' && evaluation.trigger === 'publish') {
    await abort(deps, evaluation, 'The gate of the version is open, or the version was deleted.');
  }
  await deps.listeners.currentVersionChanged(order);
  await endOrder(deps.main, order);
}

async function abort(deps: GateDeps, { id, workspaceId }: Evaluation, reason: string): Promise<void> {
  await new EvalStore(deps, workspaceId).end(id, { status: 'aborted', reason });
  await cancelRuns(deps, { id, workspaceId });
}
