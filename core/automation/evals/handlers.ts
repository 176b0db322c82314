import type * as z from 'zod';
import { findOwn } from '#core/agents/access.ts';
import { AgentStore } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { readCursor, writeCursor } from '#core/http/cursor.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import { unknownMock, withMocks } from '#core/manifest/evals/mocked-tools.ts';
import { MAX_EVAL_RUNS, type ReadSuites, type Suite } from '#core/manifest/evals/suite.ts';
import { fullNameOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { readEvalSuites } from '#core/manifest/worker-pool/checks.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { cancelRuns } from './abort.ts';
import { type Evaluation, lanesOf, MAX_OPEN_EVALS, type StoredCase, type StoredSlot, slotsOf } from './eval.ts';
import { checkJudge } from './judge-by.ts';
import { JUDGE_PROMPT_HASH } from './judge-prompt.ts';
import type { Lane } from './outcome.ts';
import { resultsOf } from './results.ts';
import type { evalRoutes } from './routes.ts';
import { EvalStore } from './store.ts';
import { caseOutcome } from './verdict.ts';

type EvalDeps = Pick<Deps, 'main' | 'runs' | 'blobs' | 'clock' | 'config' | 'ids' | 'runSignals' | 'wakeRun'>;
type CreateBody = Incoming<Extract<(typeof evalRoutes)[number], { operationId: 'createEval' }>>['body'];
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
      const baseline = body.baseline === 'observed' ? undefined : await baselineOf(deps, agent, body.baseline);
      const files = body.suites ?? { 'tests.json': JSON.stringify({ tests: body.tests }) };
      const read = withWishes(await readEvalSuites(deps, caller.workspace, files), body);
      if (body.baseline === 'observed') checkHasRecorded(read);
      await checkCanRun(deps, caller, [agent, ...(baseline ? [baseline] : [])], read);
      const evaluation = newEvaluation(deps, caller, { agent, baseline, read, body });
      const cases = read.cases.map((each, number): StoredCase => ({ ...each, number }));
      if (!(await storeOf(caller).create(evaluation, cases))) {
        const why = `The workspace has ${MAX_OPEN_EVALS} evaluations in progress`;
        throw new PlatformError('CONFLICT', `${why}: wait until one has ended, or abort one.`);
      }
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

/** Throws NOT_FOUND for a version that the agent does not have, and INVALID_INPUT for the evaluated version itself. */
async function baselineOf(
  deps: EvalDeps,
  agent: AgentVersion,
  wanted: string | undefined,
): Promise<AgentVersion | undefined> {
  if (wanted === undefined) return undefined;
  const number = Number(wanted.slice(1));
  if (number === agent.version) {
    throw new PlatformError(
      'INVALID_INPUT',
      `body.baseline: is ${wanted}, the version that is evaluated. Name another one.`,
    );
  }
  const found = await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, number);
  if (found !== undefined) return found;
  throw new PlatformError('NOT_FOUND', `body.baseline: ${fullNameOf(agent)} has no version ${wanted}.`);
}

/** Throws INVALID_INPUT if no case has a recorded run to compare with. */
function checkHasRecorded({ cases }: ReadSuites): void {
  if (cases.some(({ run }) => run !== undefined)) return;
  throw new PlatformError('INVALID_INPUT', 'body.baseline: is observed, and no case has the member "run".', {
    hint: '`platform runs add-case` makes a case of a run; or name a version, such as v3.',
  });
}

const withWishes = ({ suites, cases }: ReadSuites, { repeat }: CreateBody): ReadSuites => ({
  suites: repeat === undefined ? suites : suites.map((suite) => ({ ...suite, repeat })),
  cases,
});

/** Throws INVALID_INPUT and UNPROCESSABLE for what would fail in every run. */
async function checkCanRun(
  deps: EvalDeps,
  caller: Caller,
  agents: readonly AgentVersion[],
  { suites, cases }: ReadSuites,
): Promise<void> {
  const runs = cases.reduce((sum, { suite }) => sum + suites[suite]!.repeat, 0) * agents.length;
  if (runs > MAX_EVAL_RUNS) {
    const why = `has ${runs} runs (cases, times repeats, times versions), and at most ${MAX_EVAL_RUNS} are allowed`;
    throw new PlatformError('INVALID_INPUT', `body.suites: ${why}. Lower "repeat", or evaluate some of the files.`);
  }
  for (const agent of agents) {
    const name = `${fullNameOf(agent)} ${versionName(agent.version)}`;
    const refuse = (why: string, hint: string): never => {
      throw new PlatformError('UNPROCESSABLE', `${name} ${why}.`, { hint });
    };
    const { hasLoop, isRun } = traitsOf(agent.definition.execution_engine);
    if (!isRun) refuse('is a skill, which does not run', 'Evaluate an agent that uses the skill.');
    if (agent.definition.run_mode === 'always_on')
      refuse('is always on, and is not started by calls', 'Evaluate an agent whose run_mode is on_demand.');
    if (!agent.runnable) refuse('cannot run yet', 'Upload its code, or wait until its dependencies are installed.');
    for (const suite of suites) checkMocks(agent, suite, refuse);
    const readsTrace = cases.some(({ asserts }) =>
      asserts.some(({ type }) => type.startsWith('tool-') || type === 'max-turns'),
    );
    if (readsTrace && !hasLoop)
      refuse(
        'has no tools, which asserts of the suites are about',
        'Remove tool-called, tool-args, tool-order and max-turns.',
      );
  }
  const readsArguments = cases.some(({ asserts }) => asserts.some(({ type }) => type === 'tool-args'));
  if (readsArguments && caller.workspace.traceContent !== 'all') {
    const text = 'tool-args reads the arguments of calls, which this workspace does not record.';
    const hint = 'Set trace_content of the workspace to "all" (docs/runs.md), or use tool-called.';
    throw new PlatformError('UNPROCESSABLE', text, { hint });
  }
  for (const { judge, name } of suites) if (judge !== null) await checkJudge(deps, caller, judge, name);
}

function checkMocks(
  { definition }: AgentVersion,
  { mocks, name }: Suite,
  refuse: (why: string, hint: string) => never,
): void {
  if (mocks === null) return;
  const { unknown } = withMocks(definition.custom_tools, mocks);
  if (unknown !== undefined) {
    throw new PlatformError('INVALID_INPUT', `${name}: ${unknownMock(unknown, definition.custom_tools)}`);
  }
  if (definition.durable !== undefined) {
    refuse(
      'is durable, and runs of durable agents have no mocks',
      'Leave mocks out, or evaluate it without "durable".',
    );
  }
}

function newEvaluation(
  { clock, ids }: EvalDeps,
  caller: Caller,
  {
    agent,
    baseline,
    read,
    body,
  }: { agent: AgentVersion; baseline: AgentVersion | undefined; read: ReadSuites; body: CreateBody },
): Evaluation {
  const now = isoTime(clock.now());
  const { suites, cases } = read;
  const namedVersion = ({ id, version }: AgentVersion) => ({ id, name: versionName(version) });
  const versions = { candidate: namedVersion(agent), ...(baseline && { baseline: namedVersion(baseline) }) };
  const own = { versions, suites };
  const made = (number: number, each: ReadSuites['cases'][number]) =>
    number + [...slotsOf(own, { ...each, number: 0 })].filter(({ lane }) => lane !== 'observed').length;
  return {
    ...own,
    ...(body.baseline === 'observed' && { isAgainstObserved: true }),
    id: ids.uuid(),
    workspaceId: caller.workspace.id,
    agentName: agent.name,
    firstVersion: agent.firstVersion,
    status: 'running',
    verdict: null,
    reason: null,
    judgePrompt: suites.some(({ judge }) => judge !== null) ? JUDGE_PROMPT_HASH : null,
    cases: cases.length,
    runs: cases.reduce(made, 0),
    done: 0,
    passed: 0,
    failed: 0,
    errors: 0,
    budgetUsd: body.budget_usd ?? suites.reduce((sum, { budgetUsd }) => sum + budgetUsd, 0),
    costMicro: 0,
    summary: null,
    createdBy: caller.userId,
    isBound: caller.limits?.workspaceId !== undefined,
    createdAt: now,
    updatedAt: now,
    endedAt: null,
  };
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
