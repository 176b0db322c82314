import { admit } from '#core/accounts/limits/admission.ts';
import type { RateLimit } from '#core/accounts/limits/rate-limit.ts';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import { refOf } from '#core/agents/references.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { planOf } from '#core/base/plans.ts';
import { MAX_CALL_MS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { type Payment, payFor, priceFor } from '#core/billing/credits/payment.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { chooseModels } from '#core/models/choose.ts';
import { secretNames } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmProvider } from '#core/ports/llm.ts';
import { watchForCancel } from '#core/runs/cancellation.ts';
import { SecretMask } from '#core/runs/masking.ts';
import { endedWith, newRunOf, type RunResult } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { Trace } from '#core/runs/trace.ts';
import { runCode } from '../engines/code-runtime.ts';
import { runPrompt } from '../engines/direct-llm.ts';
import type { EngineResult, EngineRun, Warning } from '../engines/engine.ts';
import type { ProgressEvent, TokenUsage } from '../engines/progress.ts';
import { checkPlaceholders } from '../engines/prompt.ts';
import { readyToRun } from '../engines/readiness.ts';
import type { CallInput, LlmCredentials } from '../input/call-input.ts';
import { resolveSkills, type SkillHeaders, skillEnvironment, skillFiles } from '../skills/skills.ts';
import { contextEnvironment, type Lineage, newContext } from '../sub-calls/lineage.ts';

/** One call, whoever starts it: a request, another agent, a replay. The caller was allowed to call this agent. */
export interface Call {
  readonly agent: AgentVersion;
  readonly endpoint: string;
  readonly input: CallInput;
  /** The run, its secrets and its costs belong to it. */
  readonly workspace: Workspace;
  /** A UUID. */
  readonly runId: string;
  readonly triggerSource: 'api' | 'cli' | 'agent' | 'replay' | 'schedule' | 'manual' | 'webhook';
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Epoch milliseconds; the caller's wish, see {@link deadlineOf}. */
  readonly wantedDeadline?: number;
  /** Who calls, as far as it is an agent, and what it leaves to this call. */
  readonly lineage: Lineage;
  readonly tenantId?: string;
  readonly skillHeaders: SkillHeaders;
  /** The run that is repeated. */
  readonly replayOf?: string;
  /** The schedule that it is a run of. */
  readonly scheduleId?: string;
}

export interface CallAnswer {
  readonly data: Json;
  readonly warnings: readonly Warning[];
  readonly executionMs: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly usage?: TokenUsage;
}

/** A run that is recorded as running. It must be finished, whatever happens to the request. */
export interface StartedCall {
  /** What is left of the plan's calls; absent for what does not count. */
  readonly rateLimit?: RateLimit;
  /** Runs the agent and records how it ended. Throws what the run ended with; never leaves the run unfinished. */
  finish(emit?: (event: ProgressEvent) => void): Promise<CallAnswer>;
}

/** The earliest of the agent's timeouts, the plan's and the platform's limit, and the caller's deadline. Epoch milliseconds. */
export function deadlineOf(deps: Pick<Deps, 'config'>, call: Call): number {
  const { timeout_seconds: own, manifest } = call.agent.definition;
  const plan = planOf(deps, call.workspace);
  const lengths = [
    MAX_CALL_MS,
    (isPrompt(call) ? plan.timeout_seconds : plan.sandbox_timeout_seconds) * 1000,
    own > 0 ? own * 1000 : MAX_CALL_MS,
    manifest?.timeout_ms ?? MAX_CALL_MS,
  ];
  const { wantedDeadline = Number.POSITIVE_INFINITY, lineage } = call;
  return Math.min(call.receivedAt + Math.min(...lengths), wantedDeadline, lineage.deadline ?? wantedDeadline);
}

/** Has no sandbox, so nothing that could call anybody. */
const isPrompt = ({ agent }: Call): boolean => agent.definition.execution_engine === 'direct_llm';

/**
 * Takes a call to where its run begins: input against the schema, secrets, models, limits, run record. What it throws
 * left no run behind: INVALID_INPUT, MISSING_SECRETS, LLM_KEY_REQUIRED, MISSING_INPUT_FIELDS,
 * TIMEOUT, UNPROCESSABLE (the version cannot run), RATE_LIMITED, INSUFFICIENT_CREDITS.
 */
export async function startCall(deps: Deps, call: Call): Promise<StartedCall> {
  const { agent, input, workspace, lineage } = call;
  const deadline = deadlineOf(deps, call);
  if (deadline <= deps.clock.now()) throw new PlatformError('TIMEOUT', 'The deadline of this call has passed already.');
  if (agent.definition.execution_engine === null) {
    throw new PlatformError(
      'UNPROCESSABLE',
      `${refOf(agent)} is a skill: it is given to other agents, with the header X-Platform-Skills or in their default_skills, and not called itself.`,
    );
  }
  const inputWarnings = await checkInput(agent, input);
  const skills = await resolveSkills(deps, {
    agent,
    headers: call.skillHeaders,
    caller: { workspaceId: workspace.id, slug: workspace.slug },
  });
  if (isPrompt(call)) checkPlaceholders(agent.definition.prompt ?? '', input.document as { [member: string]: Json });
  const secrets = await injectedSecrets(deps, call);
  const models = await modelsFor(deps, call);

  const issued = isPrompt(call) ? undefined : newContext(deps, { agent, runId: call.runId, workspace, lineage });

  const mask = new SecretMask({
    ...secrets,
    ...callerKey(input.llmCredentials),
    ...Object.fromEntries(models.map(({ provider, apiKey }) => [`${provider.toUpperCase()}_API_KEY`, apiKey ?? ''])),
    ...(issued && { PLATFORM_SERVICE_KEY: issued.serviceKey }),
  });

  const runs = new RunStore(deps, workspace.id);
  const record = newRunOf({
    id: call.runId,
    agent,
    endpoint: call.endpoint,
    triggerSource: call.triggerSource,
    startedAt: call.receivedAt,
    deadline,
    parentRunId: lineage.parentRunId,
    rootRunId: lineage.rootRunId,
    replayOf: call.replayOf,
    tenantId: call.tenantId,
    scheduleId: call.scheduleId,
    context: issued?.context as unknown as Json | undefined,
    input: mask.json(input.document as Json),
  });
  const admission = await admit(deps, {
    workspace,
    kind: isPrompt(call) ? 'llm' : 'sandbox',
    isPaid: priceFor(agent, workspace) > 0,
    isCounted: lineage.parentRunId === undefined,
    runId: call.runId,
    deadline,
  });
  let payment: Payment | undefined;
  try {
    payment = await payFor(deps, { agent, workspace, runId: call.runId, deadline });
    await runs.start(record);
  } catch (error) {
    await admission.release();
    await payment?.end(false);
    throw error;
  }
  const { cents, end: endPayment } = payment;

  return {
    rateLimit: admission.rateLimit,
    async finish(emit) {
      const trace = new Trace(deps.clock);
      const cancellation = watchForCancel(deps, workspace.id, record);
      const run: EngineRun = {
        runId: call.runId,
        workspaceId: workspace.id,
        agent,
        input,
        skills,
        models,
        isStrict: issued?.context.isStrict ?? false,
        files: isPrompt(call) ? [] : skillFiles(skills),
        env: {
          ...secrets,
          ...credentialEnvironment(input.llmCredentials),
          ...skillEnvironment(skills),
          ...(issued && contextEnvironment(issued, { gatewayUrl: deps.gatewayUrl, deadline })),
        },
        mask,
        deadline,
        signal: cancellation.signal,
        isSubCall: lineage.parentRunId !== undefined,
        isWatched: emit !== undefined,
        emit: (event) => emit?.(mask.json(event as Json) as unknown as ProgressEvent),
        trace,
      };
      const result = await runEngine(deps, run).finally(() => cancellation.stop());
      const output = result.data ?? null;
      const isCompleted = result.error === undefined;
      const creditsCents = isCompleted ? cents : 0;
      const isRecorded = await runs
        .finish(record, { ...recordOf(result), input: record.input, output, trace: trace.events, creditsCents })
        .finally(() => admission.release());
      await endPayment(isCompleted && isRecorded);
      if (!isRecorded) throw await recordedEnd(runs, call.runId);
      if (result.error) throw result.error;
      const { executionMs, stdout, stderr, usage } = result;
      const warnings = [...inputWarnings, ...result.warnings, ...(await checkOutput(agent, output))];
      return { data: output, warnings, executionMs, stdout, stderr, usage };
    },
  };
}

async function runEngine(deps: Deps, run: EngineRun): Promise<EngineResult> {
  const startedAt = deps.clock.now();
  try {
    return await engineOf(deps, run);
  } catch (error) {
    // A run never stays "running" for an error that we know of.
    if (!isPlatformError(error)) deps.log.error('engine failed', { run_id: run.runId, error: String(error) });
    return {
      error: isPlatformError(error)
        ? error
        : new PlatformError('INTERNAL_ERROR', 'The platform failed to run the agent.'),
      warnings: [],
      stdout: '',
      stderr: '',
      exitCode: null,
      executionMs: deps.clock.now() - startedAt,
    };
  }
}

async function engineOf(deps: Deps, run: EngineRun): Promise<EngineResult> {
  const { agent } = run;
  switch (agent.definition.execution_engine) {
    case 'code_runtime':
      return runCode(deps, { ...run, agent: await readyToRun(deps, agent, run) });
    case 'direct_llm':
      return runPrompt(deps, run);
    case 'managed_loop': {
      const { runLoop } = await import('../engines/managed-loop.ts');
      return runLoop(deps, run);
    }
    default:
      throw new Error('a skill is not called');
  }
}

/** Of a run that was taken for lost, and recorded so, before it ended: then that is what everybody is told. */
async function recordedEnd(runs: RunStore, runId: string): Promise<PlatformError> {
  const { errorCode, errorMessage } = (await runs.find(runId)) ?? {};
  return new PlatformError(errorCode ?? 'INTERNAL_ERROR', errorMessage ?? 'The run was lost.');
}

function recordOf(result: EngineResult): Omit<RunResult, 'input' | 'output' | 'trace' | 'creditsCents'> {
  const { error, stdout, stderr, exitCode, executionMs, usage, model } = result;
  return {
    ...endedWith(error),
    stdout,
    stderr,
    exitCode,
    executionMs,
    inputTokens: usage?.input_tokens,
    outputTokens: usage?.output_tokens,
    llmProvider: model?.provider,
    llmModel: model?.model,
    costUsd: result.costUsd,
  };
}

/** With ajv, for which the cold start of an agent without schemas does not wait. */
const validation = () => import('#core/agents/manifest/schema-validation.ts');

async function checkInput(agent: AgentVersion, input: CallInput): Promise<Warning[]> {
  const schema = agent.definition.input_schema;
  if (schema === null) return [];
  if (input.isMultipart) {
    return [
      { code: 'VALIDATION_SKIPPED', message: 'The input schema is applied to JSON bodies, not to uploaded files.' },
    ];
  }
  const { validateAgainst } = await validation();
  const problems = validateAgainst(schema, input.document);
  if (problems.length > 0) {
    const text = problems.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`)).join('; ');
    throw new PlatformError('INVALID_INPUT', `The input does not match the agent's input schema: ${text}`);
  }
  const properties = (schema.properties ?? {}) as Record<string, { deprecated?: unknown }>;
  return Object.keys(input.document)
    .filter((field) => properties[field]?.deprecated === true)
    .map((field) => ({
      code: 'DEPRECATED_FIELD',
      field,
      message: `The field "${field}" will be removed in the next version.`,
    }));
}

async function checkOutput(agent: AgentVersion, output: Json): Promise<Warning[]> {
  const schema = agent.definition.output_schema;
  if (schema === null) return [];
  const { validateAgainst } = await validation();
  return validateAgainst(schema, output).map(({ field, message }) => ({
    code: 'VALIDATION_SKIPPED',
    ...(field !== '' && { field }),
    message: `The output does not match the agent's output schema: ${message}`,
  }));
}

/** None for a program, which uses models by itself if at all. */
async function modelsFor(deps: Deps, { agent, workspace, input }: Call): Promise<ModelChoice[]> {
  if (agent.definition.execution_engine === 'code_runtime') return [];
  return chooseModels(deps, { workspaceId: workspace.id, wishes: agent.definition, credentials: input.llmCredentials });
}

/** Declared secrets, and nothing else of the vault (`contract.md` 11.1). */
async function injectedSecrets(deps: Deps, { agent, workspace }: Call): Promise<Record<string, string>> {
  const { required_secrets: required, optional_secrets: optional, supported_providers: providers } = agent.definition;
  // A program that names its providers is given their keys (`contract.md` 11.1); loops and prompts never see one.
  const keys =
    agent.definition.execution_engine !== 'code_runtime' || providers.includes('any')
      ? []
      : secretNames(providers as LlmProvider[]);
  const values = await new SecretStore(deps, workspace.id).values([...required, ...optional, ...keys]);
  const missing = required.filter((name) => !(name in values));
  if (missing.length > 0) {
    // Clients read the names between "not found in workspace: " and the full stop (contract.md 1.1).
    throw new PlatformError('MISSING_SECRETS', `Secrets not found in workspace: ${missing.join(', ')}.`, {
      hint: 'Add them with PUT /workspaces/{id}/secrets.',
    });
  }
  return values;
}

const callerKey = (credentials: LlmCredentials | undefined): Record<string, string> =>
  credentials?.api_key ? { LLM_API_KEY: credentials.api_key } : {};

function credentialEnvironment(credentials: LlmCredentials | undefined): Record<string, string> {
  const { api_key, provider, model } = credentials ?? {};
  return {
    ...(provider && { LLM_PROVIDER: provider }),
    ...(model && { LLM_MODEL: model }),
    ...(provider && api_key && { [`${provider.toUpperCase()}_API_KEY`]: api_key }),
  };
}

/** Lets the run go on without a reader: its record says how it ends. */
export function finishInBackground({ background }: Pick<Deps, 'background'>, started: StartedCall): void {
  background(started.finish().then(ignore, ignore));
}

const ignore = (): void => {};
