import type { CalledChannel } from '#core/agents/channels/channel.ts';
import { listServed } from '#core/agents/service-endpoints.ts';
import type { ForeignAgent } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import type { CallTrigger } from '#core/base/run-kinds.ts';
import { MAX_CALL_MS } from '#core/base/time-limits.ts';
import type { TraceContext } from '#core/base/trace-context.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { withDefaults } from '#core/manifest/json-schema/schema-defaults.ts';
import { QUEUE_RULES, type QueueRules } from '#core/manifest/queue-rules.ts';
import { refOf } from '#core/manifest/references.ts';
import { type RetryPolicy, withoutRepeated } from '#core/manifest/retry-policy.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { chooseModels, type ModelChoice } from '#core/models/choose.ts';
import type { ModelFile } from '#core/models/file-limits.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { SecretMask } from '#core/runs/masking/masking.ts';
import type { Branch, ScheduledMoment } from '#core/runs/run.ts';
import type { TurnContent } from '#core/runs/sessions/session.ts';
import { checkEgress } from '../egress.ts';
import type { Warning } from '../engines/engine.ts';
import { checkPlaceholders } from '../engines/prompt.ts';
import type { CallInput } from '../input/call-input.ts';
import { checkModelInput } from '../input/model-input.ts';
import type { PromptFiles } from '../input/prompt-input.ts';
import { withMoment } from '../input/scheduled-input.ts';
import type { TurnOfCall } from '../queues/turn.ts';
import type { SessionOfCall } from '../sessions/join.ts';
import type { Skill, SkillHeaders } from '../skills/skills.ts';
import { foreignAgents, type Lineage } from '../sub-calls/lineage.ts';
import { type IssuedContext, newContext } from '../sub-calls/run-context.ts';
import type { SearchKey } from '../web/search.ts';
import { checkInput } from './schema-checks.ts';
import { declaredSecrets, maskFor } from './secrets.ts';
import type { Tracing } from './tracing.ts';

/** The oldest first, and number of turns before these that are left out. */
export interface SaidBefore {
  readonly turns: readonly TurnContent[];
  readonly leftOut: number;
}

/** A call of a version that the caller may call (see `target.ts`). */
export interface Call {
  readonly agent: AgentVersion;
  /** The channel that led to this version. @default - the call named the version, or `latest` */
  readonly channel?: CalledChannel | undefined;
  readonly endpoint: string;
  readonly input: CallInput;
  /** Workspace that owns the run, provides its secrets and pays for it. */
  readonly workspace: Workspace;
  /** A UUID. */
  readonly runId: string;
  readonly triggerSource: CallTrigger;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** Deadline requested by the caller in epoch milliseconds, see {@link deadlineOf}. */
  readonly wantedDeadline?: number;
  /**
   * Epoch milliseconds until which the run is retried if no sandbox was available in time. Each attempt has the full
   * timeout.
   */
  readonly mayBeginUntil?: number;
  /** When the call is to begin, in epoch milliseconds, if it names a time. */
  readonly runAt?: number;
  /** Whether no client waits for its end: the run may then use a cheaper sandbox that opens later. */
  readonly isUnattended?: boolean;
  /**
   * Whether its caller may come back to its stream: all that it shows is then kept as events of the run, text included,
   * whichever process works on the run and however short it is. @default false
   */
  readonly isFollowed?: boolean;
  readonly lineage: Lineage;
  /** Span of the caller, if it takes part in tracing. It never decides on anything: the caller chooses it. */
  readonly trace?: TraceContext;
  readonly tenantId?: string;
  /** User who sent the call, whose own connections the run may use. @default - no user did */
  readonly userId?: string;
  /** The session that it continues. @default - none */
  readonly session?: SessionOfCall;
  /** What was said before, for a call without a session whose caller keeps it. @default - nothing */
  readonly earlier?: SaidBefore;
  /** Hash of the `Idempotency-Key` of a message, so that its kept answer can be erased with its session. */
  readonly keyHash?: string;
  readonly skillHeaders: SkillHeaders;
  /** Context of a run whose program has it already. @default - a new one */
  readonly issued?: IssuedContext;
  /** Milliseconds in which no process worked on a durable run. @default 0 */
  readonly idleMs?: number;
  /** Id of the original run of a replay. */
  readonly replayOf?: string;
  /** For a replay that begins from a turn of its original run. */
  readonly branch?: Branch;
  /** Retry policy of the schedule that started the run. @default - the agent's */
  readonly retry?: RetryPolicy;
  /** Rules of the schedule that started the run, each in place of the agent's. @default - the agent's */
  readonly rules?: QueueRules;
  /** From -10 to 10: what is higher begins first among the runs that wait for a place. @default 0 */
  readonly priority?: number;
  /** Id of the schedule that started the run. */
  readonly scheduleId?: string;
  /** Scheduled moment of the run. */
  readonly scheduled?: ScheduledMoment;
  /** Address to which the end of this run alone is posted; it was checked. */
  readonly webhookUrl?: string;
  /** Additional variables and secrets from the service that received the call. */
  readonly service?: {
    readonly env: Readonly<Record<string, string>>;
    readonly secrets: Readonly<Record<string, string>>;
  };
}

/** A call that passed every check except limits and credits, with the resources of its run. */
export interface PreparedCall extends Omit<Call, 'issued'> {
  /** Input for the agent, with the schema's defaults. The run's record has the input as it was sent. */
  readonly document: CallInput['document'];
  /** Files of a prompt's call; undefined for other agents. */
  readonly promptFiles: PromptFiles | undefined;
  /** Epoch milliseconds by which the run must have ended, even if it starts late. */
  readonly deadline: number;
  /** Maximum duration of the run, from its start. */
  readonly timeoutMs: number;
  /** Warnings about the input. */
  readonly inputWarnings: readonly Warning[];
  readonly skills: readonly Skill[];
  readonly secrets: Readonly<Record<string, string>>;
  /** Key for searches of the web, of a loop that names the tool. */
  readonly search?: SearchKey;
  /** Empty for programs, which call models themselves. */
  readonly models: readonly ModelChoice[];
  /** Absent for prompts, which have no sandbox and cannot call agents. */
  readonly issued: IssuedContext | undefined;
  readonly mask: SecretMask;
  /** Absent if neither the caller nor the workspace takes part in tracing. */
  readonly tracing?: Tracing;
  /** The rules that say when the run may begin. @default - at once */
  readonly turn?: TurnOfCall;
}

/**
 * Checks a call and gathers the resources of its run. Writes nothing.
 *
 * Throws TIMEOUT, UNPROCESSABLE for a skill or for skills that cannot apply, UNSUPPORTED_TYPE, DOCUMENT_TOO_LARGE,
 * INVALID_INPUT, also for a value that cannot be the key of a queue, MISSING_INPUT_FIELDS, MISSING_SECRETS, LLM_KEY_REQUIRED, FORBIDDEN for targets that are not allowed.
 */
export async function prepareCall(deps: Deps, call: Call): Promise<PreparedCall> {
  const { agent, input, workspace, runId, lineage } = call;
  const engine = engineTraits(agent);
  const ownDeadline = deadlineOf(deps, call);
  const timeoutMs = ownDeadline - call.receivedAt - (call.idleMs ?? 0);
  const { mayBeginUntil = 0 } = call;
  const deadline = engine.hasSandbox ? Math.max(ownDeadline, mayBeginUntil + timeoutMs) : ownDeadline;
  if (deadline <= deps.clock.now()) throw new PlatformError('TIMEOUT', 'The deadline of this call has already passed.');
  checkIsNoSkill(agent);
  await checkIsStartedByCalls(deps, call);
  checkCallerSettings(call);
  const promptFiles = input.uploads.length > 0 ? await readFiles(call) : undefined;
  if (engine.asksModels) checkModelInput(input.document);
  const document = documentFor(call, promptFiles?.document);
  const inputWarnings = await checkInput(deps, call, document);
  const skills = await skillsOf(deps, call);
  if (engine.hasPlaceholders) checkPlaceholders(agent.definition.prompt ?? '', document);
  const foreign = foreignAgents(agent, workspace, lineage);
  await checkEgress(deps, agent, { workspace, foreign });
  const userId = lineage.userId ?? call.userId;
  const declared = await declaredSecrets(deps, agent, { workspaceId: workspace.id, foreign, userId });
  const secrets = { ...call.service?.secrets, ...declared };
  const search = await searchFor(deps, call, foreign);
  const models = await withFiles(deps, await modelsFor(deps, call), promptFiles?.files ?? []);
  const tracing = await tracingFor(call);
  const issued = engine.hasSandbox
    ? (call.issued ??
      newContext(deps, {
        ...{ agent, runId, workspace, lineage, userId },
        tenantId: call.tenantId,
        trace: tracing.tracing?.own,
      }))
    : undefined;
  const mask = maskFor({
    ...{ secrets, credentials: input.llmCredentials, models, serviceKey: issued?.serviceKey, search },
    isDurable: isDurable(call),
  });
  const prepared = {
    ...call,
    document,
    promptFiles,
    deadline,
    timeoutMs,
    inputWarnings,
    skills,
    secrets,
    ...(search && { search }),
    models,
    issued,
  };
  return { ...prepared, mask, ...tracing, ...(await turnFor({ ...call, document, mask })) };
}

/** Loaded lazily: few callers and workspaces take part in tracing. */
async function tracingFor(call: Call): Promise<Pick<PreparedCall, 'tracing'>> {
  if (call.trace === undefined && !call.workspace.telemetry) return {};
  const { tracingOf } = await import('./tracing.ts');
  return { tracing: tracingOf(call) };
}

/** Loaded lazily: few agents have such rules, and smaller functions start faster. */
async function turnFor(call: Call & Pick<PreparedCall, 'document' | 'mask'>): Promise<Pick<PreparedCall, 'turn'>> {
  const { concurrency, rate, debounce } = call.agent.definition;
  const rules = { concurrency, rate, debounce, ...call.rules };
  if (QUEUE_RULES.every((rule) => rules[rule] === undefined)) return {};
  const { turnOf } = await import('../queues/turn.ts');
  return { turn: turnOf(call, rules) };
}

/** Loaded lazily: few loops search, and smaller functions start faster. */
async function searchFor(
  deps: Deps,
  { agent, workspace }: Call,
  foreign: readonly ForeignAgent[],
): Promise<SearchKey | undefined> {
  if (!agent.definition.loop?.tools?.includes('web_search')) return undefined;
  const { searchKeyOf } = await import('../web/search-key.ts');
  return searchKeyOf(deps, { workspaceId: workspace.id, foreign });
}

async function skillsOf(deps: Deps, { agent, workspace, lineage, skillHeaders: headers }: Call): Promise<Skill[]> {
  const isNamed =
    agent.definition.default_skills.length > 0 || Object.values(headers).some((each) => each !== undefined);
  if (!isNamed) return [];
  // Loaded lazily: few calls have skills, and smaller functions start faster.
  const { resolveSkills } = await import('../skills/skills.ts');
  return resolveSkills(deps, {
    agent,
    headers,
    caller: lineage.skillHome ?? { workspaceId: workspace.id, slug: workspace.slug },
  });
}

/** Checks the files of a call and returns the files for a prompt. Loaded lazily, as few calls have files. */
async function readFiles({ agent, input }: Call) {
  const [{ checkFiles }, { readPromptFiles }] = await Promise.all([
    import('../input/check-files.ts'),
    import('../input/prompt-input.ts'),
  ]);
  checkFiles(agent, input);
  return givesFilesToModel(agent, input) ? readPromptFiles(agent.definition, input) : undefined;
}

/** Throws INVALID_INPUT for a setting that the author does not let callers change. */
function checkCallerSettings({ agent, input }: Call): void {
  const allowed = agent.definition.model_settings?.callers_may_set ?? [];
  const refused = Object.keys(input.llmCredentials?.settings ?? {}).find(
    (name) => !allowed.some((one) => one === name),
  );
  if (refused === undefined) return;
  const list = allowed.length === 0 ? 'no settings' : `only ${allowed.join(', ')}`;
  throw new PlatformError(
    'INVALID_INPUT',
    `"llm_credentials.settings.${refused}" cannot be set by callers of ${refOf(agent)}: its author allows ${list}.`,
  );
}

/** See `docs/interface/calls.md#defaults`. */
function documentFor(call: Call, withTexts: CallInput['document'] | undefined): CallInput['document'] {
  const { agent, input } = call;
  const schema = agent.definition.input_schema;
  const sent = withMoment(agent, call.scheduled, withTexts ?? input.document);
  return schema === null || (input.isMultipart && withTexts === undefined) ? sent : withDefaults(schema, sent);
}

/**
 * Returns the earliest of the limits of agent, plan and platform and the deadlines of the caller and the calling run,
 * in
 * epoch milliseconds.
 */
export function deadlineOf(deps: Pick<Deps, 'config'>, call: Call): number {
  const { timeout_seconds: own, manifest, durable } = call.agent.definition;
  const plan = planOf(deps, call.workspace);
  const longest = durable === undefined ? MAX_CALL_MS : plan.durable_seconds * 1000;
  const ofAgent =
    durable === undefined
      ? [plan[engineTraits(call.agent).timeLimit] * 1000, own > 0 ? own * 1000 : longest]
      : [(durable.max_active_seconds ?? plan.durable_seconds) * 1000];
  const limits = [longest, ...ofAgent, manifest?.timeout_ms ?? longest];
  const { wantedDeadline = Number.POSITIVE_INFINITY, lineage, idleMs = 0 } = call;
  return Math.min(call.receivedAt + idleMs + Math.min(...limits), wantedDeadline, lineage.deadline ?? wantedDeadline);
}

/** Whether the run survives the process that works on it (`core/execution/durable`). */
export const isDurable = ({ agent }: Pick<Call, 'agent'>): boolean => agent.definition.durable !== undefined;

/**
 * Returns the retry policy of a call's run: that of its schedule, else that of its agent. Runs whose caller waits have
 * none. The sender of a webhook gets its answer before the run ends.
 */
export function retryPolicyFor(call: Call): RetryPolicy | undefined {
  const { agent, isUnattended, triggerSource, lineage, retry = agent.definition.retry } = call;
  const isAwaited = !isUnattended && triggerSource !== 'webhook';
  if (isAwaited || lineage.parentRunId !== undefined || retry === undefined) return undefined;
  if (!isDurable(call)) return retry;
  // A durable program has its own way: `retry_on_interruption`.
  return engineTraits(agent).hasProgram ? undefined : { ...retry, on: withoutRepeated(retry.on) };
}

/** Whether the files of a call go to the model, as an agent without a sandbox cannot receive them otherwise. */
export const givesFilesToModel = (agent: AgentVersion, { isMultipart }: Pick<CallInput, 'isMultipart'>): boolean =>
  isMultipart && !engineTraits(agent).hasSandbox;

function checkIsNoSkill(agent: AgentVersion): void {
  if (engineTraits(agent).isRun) return;
  throw new PlatformError(
    'UNPROCESSABLE',
    `${refOf(agent)} is a skill and cannot be called: give it to an agent with the header X-Platform-Skills or in its default_skills.`,
  );
}

/** Throws UNPROCESSABLE for an always-on agent, naming the addresses of its services in the calling workspace. */
async function checkIsStartedByCalls(deps: Pick<Deps, 'main'>, { agent, workspace, service }: Call): Promise<void> {
  if (agent.definition.run_mode !== 'always_on' || service !== undefined) return;
  const { workspaceId: agentWorkspaceId, name: agentName } = agent;
  const served = await listServed(deps, { workspaceId: workspace.id, agentWorkspaceId, agentName });
  const places = served.map(
    ({ serviceName, address }) => `${serviceName} at ${address ?? 'an address that is not assigned yet'}`,
  );
  throw new PlatformError(
    'UNPROCESSABLE',
    `${refOf(agent)} is always on and is not started by calls. ${
      places.length > 0
        ? `It runs as a service of the workspace "${workspace.slug}": ${places.slice(0, 5).join(', ')}.`
        : `It has no service in the workspace "${workspace.slug}".`
    }`,
    {
      hint:
        places.length > 0
          ? 'Send requests to that address.'
          : `Deploy it with POST /workspaces/${workspace.id}/services, or publish it with run_mode on_demand.`,
    },
  );
}

async function modelsFor(deps: Deps, { agent, workspace, input }: Call): Promise<ModelChoice[]> {
  if (!engineTraits(agent).asksModels) return [];
  return chooseModels(deps, { workspaceId: workspace.id, wishes: agent.definition, credentials: input.llmCredentials });
}

/**
 * Returns the models that accept these files, in order of preference. Throws UNSUPPORTED_TYPE if there are none, or
 * DOCUMENT_TOO_LARGE if only the size is the problem.
 */
async function withFiles(
  { modelTable }: Pick<Deps, 'modelTable'>,
  models: readonly ModelChoice[],
  files: readonly ModelFile[],
): Promise<readonly ModelChoice[]> {
  if (files.length === 0) return models;
  const { fileProblem } = await import('#core/models/file-limits.ts');
  const problems = models.map((choice) => fileProblem(choice, modelTable.factsOf(choice.model), files));
  const able = models.filter((_, index) => problems[index] === undefined);
  if (able.length > 0) return able;
  const isSize = problems.every((problem) => problem!.code === 'DOCUMENT_TOO_LARGE');
  const messages = [...new Set(problems.map((problem) => problem!.message))];
  throw new PlatformError(isSize ? 'DOCUMENT_TOO_LARGE' : 'UNSUPPORTED_TYPE', messages.join(' '));
}
