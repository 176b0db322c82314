import { AgentStore } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { traitsOf } from '#core/manifest/engines.ts';
import type { ReadSuites, SuiteFiles } from '#core/manifest/evals/suite.ts';
import { tooManyRuns, type Unsuited, unsuited } from '#core/manifest/evals/suits-agent.ts';
import { fullNameOf, parseVersion, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { readEvalSuites } from '#core/manifest/worker-pool/checks.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Evaluation, MAX_OPEN_EVALS, type StoredCase, slotsOf } from './eval.ts';
import { checkJudge } from './judge-by.ts';
import { JUDGE_PROMPT_HASH } from './judge-prompt.ts';
import { EvalStore } from './store.ts';

type CreateDeps = Pick<Deps, 'main' | 'runs' | 'blobs' | 'clock' | 'config' | 'ids'>;

/** An evaluation that is wanted. */
interface Wanted {
  readonly id: string;
  readonly agent: AgentVersion;
  readonly baseline: AgentVersion | undefined;
  /** Whether it is compared with the recorded runs of its cases instead. @default false */
  readonly isAgainstObserved?: boolean;
  readonly files: SuiteFiles;
  /** In place of those of the suites. */
  readonly repeat?: number | undefined;
  readonly budgetUsd?: number | undefined;
  readonly trigger?: Evaluation['trigger'];
  /** Whether it may open the gate of the version. It does not if it asks for fewer repeats than the suites. */
  readonly opensGate?: boolean | undefined;
}

/**
 * Checks suites and begins an evaluation of a version; with an id that exists, nothing. Throws INVALID_INPUT and UNPROCESSABLE for what would
 * fail in every run, RATE_LIMITED, and CONFLICT if too many evaluations of the workspace are in progress.
 */
export async function createEvaluation(deps: CreateDeps, caller: Caller, wanted: Wanted): Promise<Evaluation> {
  const { agent, baseline, repeat } = wanted;
  const { suites, cases } = await readEvalSuites(deps, caller.workspace, wanted.files);
  const read = { suites: repeat === undefined ? suites : suites.map((suite) => ({ ...suite, repeat })), cases };
  if (wanted.isAgainstObserved) checkHasRecorded(read);
  await checkCanRun(deps, caller, { agent, baseline }, read);
  // "any" of more repeats passes more easily.
  const isAsStrict = repeat === undefined || suites.every(({ repeat: own, pass }) => repeat >= own && pass !== 'any');
  const opensGate = wanted.opensGate && isAsStrict ? true : undefined;
  const evaluation = newEvaluation(deps, caller, { ...wanted, opensGate }, read);
  const stored = cases.map((each, number): StoredCase => ({ ...each, number }));
  if (await new EvalStore(deps, caller.workspace.id).create(evaluation, stored)) return evaluation;
  const why = `The workspace has ${MAX_OPEN_EVALS} evaluations in progress`;
  throw new PlatformError('CONFLICT', `${why}: wait until one has ended, or abort one.`);
}

/** Returns the baseline of the manifest of a version; `undefined` if it is gone, or the version itself. */
export async function ownBaseline(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  agent: AgentVersion,
): Promise<AgentVersion | undefined> {
  const named = agent.definition.evals?.baseline;
  if (named === undefined) return undefined;
  const found = await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, parseVersion(named)!);
  return found?.id === agent.id ? undefined : found;
}

async function checkCanRun(
  deps: CreateDeps,
  caller: Caller,
  { agent, baseline }: Pick<Wanted, 'agent' | 'baseline'>,
  read: ReadSuites,
): Promise<void> {
  const versions = [agent, ...(baseline ? [baseline] : [])];
  refuseIf(tooManyRuns(read, versions.length));
  for (const each of versions) {
    const name = `${fullNameOf(each)} ${versionName(each.version)}`;
    if (!traitsOf(each.definition.execution_engine).isRun) {
      const hint = 'Evaluate an agent that uses the skill.';
      throw new PlatformError('UNPROCESSABLE', `${name} is a skill, which does not run.`, { hint });
    }
    if (each.definition.run_mode === 'always_on') {
      const hint = 'Evaluate an agent whose run_mode is on_demand.';
      throw new PlatformError('UNPROCESSABLE', `${name} is always on, and is not started by calls.`, { hint });
    }
    if (!each.runnable) {
      const hint = 'Upload its code, or wait until its dependencies are installed.';
      throw new PlatformError('UNPROCESSABLE', `${name} cannot run yet.`, { hint });
    }
    refuseIf(unsuited(each.definition, read, { isBaseline: each !== agent }));
  }
  const readsArguments = read.cases.some(({ asserts }) => asserts.some(({ type }) => type === 'tool-args'));
  if (readsArguments && caller.workspace.traceContent !== 'all') {
    const text = 'tool-args reads the arguments of calls, which this workspace does not record.';
    const hint = 'Set trace_content of the workspace to "all" (docs/runs.md), or use tool-called.';
    throw new PlatformError('UNPROCESSABLE', text, { hint });
  }
  for (const { judge, name } of read.suites) if (judge !== null) await checkJudge(deps, caller, judge, name);
}

/** Throws INVALID_INPUT if no case has a recorded run to compare with. */
function checkHasRecorded({ cases }: ReadSuites): void {
  if (cases.some(({ run }) => run !== undefined)) return;
  throw new PlatformError('INVALID_INPUT', 'body.baseline: is observed, and no case has the member "run".', {
    hint: '`platform runs add-case` makes a case of a run; or name a version, such as v3.',
  });
}

function refuseIf(found: Unsuited | undefined): void {
  if (found !== undefined) throw new PlatformError(found.code, found.problem, { hint: found.hint });
}

function newEvaluation(
  { clock }: Pick<CreateDeps, 'clock'>,
  caller: Caller,
  { id, agent, baseline, isAgainstObserved, budgetUsd, trigger, opensGate }: Wanted,
  { suites, cases }: ReadSuites,
): Evaluation {
  const now = isoTime(clock.now());
  const namedVersion = ({ id, version }: AgentVersion) => ({ id, name: versionName(version) });
  const versions = { candidate: namedVersion(agent), ...(baseline && { baseline: namedVersion(baseline) }) };
  const own = { versions, suites };
  const made = (number: number, each: ReadSuites['cases'][number]) =>
    number + [...slotsOf(own, { ...each, number: 0 })].filter(({ lane }) => lane !== 'observed').length;
  return {
    ...own,
    ...(isAgainstObserved && { isAgainstObserved: true }),
    id,
    workspaceId: caller.workspace.id,
    agentName: agent.name,
    firstVersion: agent.firstVersion,
    ...(trigger !== undefined && { trigger }),
    ...(opensGate === true && { opensGate }),
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
    budgetUsd: budgetUsd ?? suites.reduce((sum, suite) => sum + suite.budgetUsd, 0),
    costMicro: 0,
    summary: null,
    createdBy: caller.userId,
    isBound: caller.limits?.workspaceId !== undefined,
    createdAt: now,
    updatedAt: now,
    endedAt: null,
  };
}
