import type * as z from 'zod';
import { findOwn } from '#core/agents/access.ts';
import { readEvalFiles } from '#core/agents/eval-files.ts';
import { orderGate } from '#core/agents/gates/gate.ts';
import { isHeld } from '#core/agents/gates/standing.ts';
import { AgentStore } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { readCursor, writeCursor } from '#core/http/cursor.ts';
import type { Handlers } from '#core/http/route.ts';
import type { SuiteFiles } from '#core/manifest/evals/suite.ts';
import { fullNameOf, parseVersion, refOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { cancelRuns } from './abort.ts';
import { createEvaluation, ownBaseline } from './create.ts';
import { type Evaluation, lanesOf, type StoredCase, type StoredSlot } from './eval.ts';
import type { Lane } from './outcome.ts';
import { resultsOf } from './results.ts';
import type { evalRoutes } from './routes.ts';
import { EvalStore } from './store.ts';
import { caseOutcome } from './verdict.ts';

type EvalDeps = Pick<Deps, 'main' | 'runs' | 'blobs' | 'clock' | 'config' | 'ids' | 'runSignals' | 'wakeRun'>;
type EvalView = z.output<(typeof evalRoutes)[2]['response'][200]>;
type CaseView = z.output<(typeof evalRoutes)[3]['response'][200]>['cases'][number];

export const evalHandlers = (deps: EvalDeps): Handlers<typeof evalRoutes> => {
  const storeOf = ({ workspace }: Caller) => new EvalStore(deps, workspace.id);
  const view = ({ workspace }: Caller, evaluation: Evaluation) =>
    viewOf(evaluation, deps.config.dashboardUrl, workspace.slug);

  async function find(caller: Caller, params: { readonly id: string; readonly eval_id: string }) {
    const agent = await findOwn(deps, caller, params.id);
    const evaluation = await storeOf(caller).find(params.eval_id);
    if (evaluation?.agentName === agent.name && evaluation.firstVersion === agent.firstVersion) return evaluation;
    const text = `The agent "${agent.name}" has no evaluation with the id "${params.eval_id.slice(0, 64)}".`;
    throw new PlatformError('NOT_FOUND', text);
  }

  return {
    async createEval({ caller, params, body }) {
      const agent = await findOwn(deps, caller, params.id);
      const { repeat, budget_usd: budgetUsd } = body;
      const published = body.suites === undefined && body.tests === undefined;
      const files = published
        ? await publishedFiles(deps, agent)
        : (body.suites ?? { 'tests.json': JSON.stringify({ tests: body.tests }) });
      const isAgainstObserved = body.baseline === 'observed';
      const baseline = isAgainstObserved ? undefined : await baselineOf(deps, agent, body.baseline);
      const opensGate = published && body.baseline === undefined && isHeld(agent);
      const wanted = { id: deps.ids.uuid(), agent, baseline, isAgainstObserved, files, repeat, budgetUsd, opensGate };
      const evaluation = await createEvaluation(deps, caller, wanted);
      if (evaluation.opensGate) await orderGate(deps, agent, evaluation.id);
      return { status: 202, body: view(caller, evaluation) };
    },

    async listEvals({ caller, params, query }) {
      const agent = await findOwn(deps, caller, params.id);
      const { name: agentName, firstVersion } = agent;
      const { evaluations, nextCursor } = await storeOf(caller).list({ agentName, firstVersion }, query);
      return { status: 200, body: { evals: evaluations.map((each) => view(caller, each)), next_cursor: nextCursor } };
    },

    async getEval({ caller, params }) {
      return { status: 200, body: view(caller, await find(caller, params)) };
    },

    async listEvalCases({ caller, params, query: { limit, cursor } }) {
      const evaluation = await find(caller, params);
      const listing = ['eval-cases', evaluation.id];
      const from = cursor === undefined ? 0 : readCursor(cursor, listing, numberIn);
      const page = await storeOf(caller).cases(evaluation.id, { from, limit });
      const next = from + page.length;
      const body = {
        cases: page.map(({ case: each, slots }) => caseView(evaluation, each, slots)),
        next_cursor: next < evaluation.cases ? writeCursor(listing, [next]) : null,
      };
      return { status: 200, body };
    },

    async abortEval({ caller, params }) {
      const { id, workspaceId } = await find(caller, params);
      await storeOf(caller).end(id, { status: 'aborted', reason: `Aborted by ${caller.userId}.` });
      const ended = (await storeOf(caller).find(id))!;
      // Also after an earlier attempt whose process died in between.
      if (ended.status === 'aborted') await cancelRuns(deps, { id, workspaceId });
      return { status: 200, body: view(caller, ended) };
    },

    async getEvalResults({ caller, params }) {
      return { status: 200, body: await resultsOf(deps, await find(caller, params)) };
    },
  };
};

const numberIn = ([number]: readonly unknown[]): number | undefined =>
  Number.isInteger(number) && (number as number) >= 0 ? (number as number) : undefined;

/** Returns the suites that were published with a version. Throws INVALID_INPUT if there are none. */
async function publishedFiles(deps: EvalDeps, agent: AgentVersion): Promise<SuiteFiles> {
  const files = await readEvalFiles(deps, agent);
  if (files !== undefined) return files;
  throw new PlatformError(
    'INVALID_INPUT',
    `body.suites: is missing, and ${refOf(agent)} was published without suites.`,
    {
      hint: 'Send suites or tests (docs/evals.md).',
    },
  );
}

/** Returns the version to compare with: the wanted one, or else the one in the manifest. Throws INVALID_INPUT and NOT_FOUND for a wanted one. */
async function baselineOf(
  deps: EvalDeps,
  agent: AgentVersion,
  wanted: string | undefined,
): Promise<AgentVersion | undefined> {
  if (wanted === undefined) return ownBaseline(deps, agent);
  const number = parseVersion(wanted);
  const found = number && (await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, number));
  if (!found) throw new PlatformError('NOT_FOUND', `body.baseline: ${fullNameOf(agent)} has no version ${wanted}.`);
  if (found.id !== agent.id) return found;
  const text = `body.baseline: is ${versionName(agent.version)}, the version that is evaluated. Name another one.`;
  throw new PlatformError('INVALID_INPUT', text);
}

const shareView = (share: NonNullable<Evaluation['summary']>['candidate']) => ({
  ...share,
  interval: share.interval && [...share.interval],
});

const viewOf = (evaluation: Evaluation, dashboardUrl: string | undefined, workspaceSlug: string): EvalView => {
  const { versions, summary, suites, cases, runs, done, passed, failed, errors } = evaluation;
  return {
    eval_id: evaluation.id,
    agent_name: evaluation.agentName,
    version: versions.candidate.name,
    trigger: evaluation.trigger ?? 'request',
    opens_gate: evaluation.opensGate ?? false,
    baseline: evaluation.isAgainstObserved ? 'observed' : (versions.baseline?.name ?? null),
    status: evaluation.status,
    verdict: evaluation.verdict,
    reason: evaluation.reason,
    suites: suites.map(({ name, description, threshold, repeat, pass, judge }) => ({
      ...{ name, description, threshold, repeat, pass, judge },
    })),
    judge_prompt: evaluation.judgePrompt,
    counts: { cases, runs, done, passed, failed, errors },
    budget_usd: evaluation.budgetUsd,
    cost_usd: evaluation.costMicro / 1e6,
    candidate: summary && shareView(summary.candidate),
    baseline_cases: summary?.baseline ? shareView(summary.baseline) : null,
    observed_cases: summary?.observed ? shareView(summary.observed) : null,
    comparison: summary?.comparison ?? null,
    repeats_needed: summary?.repeatsNeeded ?? null,
    dashboard_url:
      dashboardUrl === undefined
        ? null
        : `${dashboardUrl}/${workspaceSlug}/agents/${evaluation.agentName}/evals/${evaluation.id}`,
    created_by: evaluation.createdBy,
    created_at: evaluation.createdAt,
    updated_at: evaluation.updatedAt,
    ended_at: evaluation.endedAt,
  };
};

function caseView(evaluation: Evaluation, each: StoredCase, slots: readonly StoredSlot[]): CaseView {
  const { suites, versions, status } = evaluation;
  const suite = suites[each.suite]!;
  const ofCandidate = Array.from(
    { length: suite.repeat },
    (_, index) => slots.find(({ lane, repeat }) => lane === 'candidate' && repeat === index + 1)?.result?.outcome,
  );
  const outcome = caseOutcome(suite.pass, ofCandidate);
  const lanes: readonly Lane[] = ['observed', ...lanesOf(evaluation)];
  const ordered = [...slots].sort((a, b) => a.repeat - b.repeat || lanes.indexOf(a.lane) - lanes.indexOf(b.lane));
  return {
    number: each.number + 1,
    suite: suite.name,
    description: each.description,
    must: each.must,
    vars: each.vars as CaseView['vars'],
    run: each.run ?? null,
    passed: outcome === undefined ? null : outcome === 'passed',
    runs: ordered.map(({ lane, repeat, runId, version, result }) => ({
      lane,
      version: lane === 'observed' ? (version ?? null) : versions[lane]!.name,
      repeat,
      run_id: runId,
      status: result?.outcome ?? (status === 'running' ? 'running' : 'cancelled'),
      reason: result?.reason ?? null,
      score: result?.score ?? null,
      latency_ms: result?.latencyMs ?? null,
      cost_usd: result?.costUsd ?? null,
      asserts: (result?.asserts ?? []).map(({ type, metric = null, pass, score, reason, judge_run_id = null }) => ({
        ...{ type, metric, pass, score, reason, judge_run_id },
      })),
    })),
  };
}
