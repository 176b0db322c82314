import { entrypointCommand } from '../agents/entrypoint.ts';
import { validateAgainst } from '../agents/schema-validation.ts';
import { AgentStore, type AgentVersion, versionName } from '../agents/store.ts';
import type { Deps } from '../deps.ts';
import { isPlatformError, PlatformError } from '../errors.ts';
import type { Json } from '../ports/table.ts';
import { SecretMask } from '../runs/masking.ts';
import { type NewRun, type RunResult, RunStore } from '../runs/store.ts';
import { SecretStore } from '../secrets/store.ts';
import { type CodeResult, runCode } from './code-runtime.ts';
import type { CallInput, LlmCredentials } from './input.ts';
import type { Warning } from './warnings.ts';

/** One call, whoever starts it: a request, later a schedule, a webhook, another agent. */
export interface Call {
  readonly agent: AgentVersion;
  readonly endpoint: string;
  readonly input: CallInput;
  /** The workspace that the run, its secrets and its costs belong to. */
  readonly workspaceId: string;
  /** A UUID. */
  readonly runId: string;
  readonly triggerSource: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Epoch milliseconds; the caller's wish, see {@link deadlineOf}. */
  readonly wantedDeadline?: number;
}

export interface CallAnswer {
  readonly data: Json;
  readonly warnings: Warning[];
  readonly executionMs: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** API Gateway cuts an idle stream at 300 s: answers come before (`design.md` section 6). */
const PLATFORM_LIMIT_MS = 295_000;
const INSTALL_POLL_MS = 250;

/** The earliest of the agent's timeout, the caller's deadline and the platform's limit, in epoch milliseconds. */
export function deadlineOf({ agent, receivedAt, wantedDeadline }: Call): number {
  const own = agent.definition.timeout_seconds * 1000;
  return Math.min(
    receivedAt + (own > 0 ? own : PLATFORM_LIMIT_MS),
    receivedAt + PLATFORM_LIMIT_MS,
    wantedDeadline ?? Number.POSITIVE_INFINITY,
  );
}

/**
 * Takes one call through: input against the schema, secrets, deadline, engine, output against the schema, run record.
 * The caller must have been allowed to call this agent.
 *
 * Throws INVALID_INPUT, MISSING_SECRETS, TIMEOUT, UNPROCESSABLE (the version cannot run), SANDBOX_ERROR,
 * INTERNAL_ERROR. From the first check on that needs work, the run's record tells the same.
 */
export async function runCall(deps: Deps, call: Call): Promise<CallAnswer> {
  const { agent, input } = call;
  const deadline = deadlineOf(call);
  if (deadline <= deps.clock.now()) throw new PlatformError('TIMEOUT', 'The deadline of this call has passed already.');
  const inputWarnings = checkInput(agent, input);
  const secrets = await injectedSecrets(deps, call);
  const mask = new SecretMask({ ...secrets, ...callerKey(input.llmCredentials) });

  const runs = new RunStore(deps, call.workspaceId);
  const maskedInput = mask.json(input.document as Json);
  const run: NewRun = {
    id: call.runId,
    agentId: agent.id,
    agentOrg: agent.orgSlug,
    agentName: agent.name,
    agentVersion: versionName(agent.version),
    endpoint: call.endpoint,
    triggerSource: call.triggerSource,
    startedAt: call.receivedAt,
    deadline,
    input: maskedInput,
  };
  await runs.start(run);
  const env = { ...secrets, ...credentialEnvironment(input.llmCredentials) };
  const result = await runEngine(deps, call, { env, mask, deadline });
  const output = result.data ?? null;
  await runs.finish(run, { ...recordOf(result), input: maskedInput, output });
  if (result.error) throw result.error;

  const warnings = [...inputWarnings, ...result.warnings, ...checkOutput(agent, output)];
  return { data: output, warnings, executionMs: result.executionMs, stdout: result.stdout, stderr: result.stderr };
}

async function runEngine(
  deps: Deps,
  call: Call,
  { env, mask, deadline }: { env: Record<string, string>; mask: SecretMask; deadline: number },
): Promise<CodeResult> {
  const startedAt = deps.clock.now();
  try {
    if (call.agent.definition.execution_engine !== 'code_runtime') {
      throw new PlatformError(
        'UNPROCESSABLE',
        `${describe(call.agent)} is run by ${call.agent.definition.execution_engine}, which this platform does not offer yet.`,
      );
    }
    const agent = await waitForInstall(deps, call.agent, deadline);
    return await runCode(deps, {
      agent,
      command: entrypointCommand(agent.definition, agent.bundle?.entrypoint ?? null),
      stdin: JSON.stringify(call.input.document),
      uploads: call.input.uploads,
      env,
      mask,
      deadline,
    });
  } catch (error) {
    // A run never stays "running" for an error that we know of.
    if (!isPlatformError(error)) deps.log.error('engine failed', { run_id: call.runId, error: String(error) });
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

function recordOf(result: CodeResult): Omit<RunResult, 'input' | 'output'> {
  const { error, stdout, stderr, exitCode, executionMs } = result;
  return {
    status: error === undefined ? 'completed' : error.code === 'TIMEOUT' ? 'timeout' : 'failed',
    errorCode: error?.code ?? null,
    errorMessage: error?.message ?? null,
    stdout,
    stderr,
    exitCode,
    executionMs,
    trace: [],
    creditsCents: 0,
  };
}

const describe = (agent: AgentVersion): string => `${agent.orgSlug}/${agent.name}@${versionName(agent.version)}`;

/** The version once its dependencies are installed; until then, and no longer than the deadline, the call waits. */
async function waitForInstall(deps: Deps, version: AgentVersion, deadline: number): Promise<AgentVersion> {
  let agent = version;
  while (agent.install?.status === 'building' && agent.install.deadline > deps.clock.now()) {
    if (deps.clock.now() + INSTALL_POLL_MS >= deadline) {
      throw new PlatformError('TIMEOUT', `The dependencies of ${describe(agent)} are still being installed.`);
    }
    await deps.clock.sleep(INSTALL_POLL_MS);
    const current = await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, agent.version);
    if (current === undefined) throw new PlatformError('NOT_FOUND', `${describe(agent)} was deleted.`);
    agent = current;
  }
  if (agent.bundle === undefined) {
    throw new PlatformError('UNPROCESSABLE', `${describe(agent)} has no code bundle yet.`, {
      hint: `Upload one with POST /agents/${agent.id}/upload.`,
    });
  }
  if (!agent.runnable) {
    const reason = agent.install?.error ?? 'the installation was interrupted';
    throw new PlatformError(
      'SANDBOX_ERROR',
      `The dependencies of ${describe(agent)} could not be installed: ${reason}`,
      {
        category: 'setup_error',
        hint: 'Correct requirements.txt or package.json and publish a new version, or upload the bundle again.',
      },
    );
  }
  return agent;
}

function checkInput(agent: AgentVersion, input: CallInput): Warning[] {
  const schema = agent.definition.input_schema;
  if (schema === null) return [];
  if (input.isMultipart) {
    return [
      { code: 'VALIDATION_SKIPPED', message: 'The input schema is applied to JSON bodies, not to uploaded files.' },
    ];
  }
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

function checkOutput(agent: AgentVersion, output: Json): Warning[] {
  const schema = agent.definition.output_schema;
  if (schema === null) return [];
  return validateAgainst(schema, output).map(({ field, message }) => ({
    code: 'VALIDATION_SKIPPED',
    ...(field !== '' && { field }),
    message: `The output does not match the agent's output schema: ${message}`,
  }));
}

/** Declared secrets, and nothing else of the vault (`contract.md` 11.1). */
async function injectedSecrets(deps: Deps, { agent, workspaceId }: Call): Promise<Record<string, string>> {
  const { required_secrets: required, optional_secrets: optional } = agent.definition;
  const values = await new SecretStore(deps, workspaceId).values([...required, ...optional]);
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
