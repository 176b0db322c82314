import { refOf } from '#core/agents/references.ts';
import type { AgentVersion } from '#core/agents/version.ts';
import { PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import { MAX_CALL_MS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { chooseModels, type ModelChoice } from '#core/models/choose.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { SecretMask } from '#core/runs/masking.ts';
import type { Warning } from '../engines/engine.ts';
import { checkPlaceholders } from '../engines/prompt.ts';
import type { CallInput } from '../input/call-input.ts';
import { resolveSkills, type Skill, type SkillHeaders } from '../skills/skills.ts';
import type { Lineage } from '../sub-calls/lineage.ts';
import { type IssuedContext, newContext } from '../sub-calls/run-context.ts';
import { checkInput } from './schema-checks.ts';
import { declaredSecrets, maskFor } from './secrets.ts';

/** One call of a version that the caller may call (see `target.ts`). */
export interface Call {
  readonly agent: AgentVersion;
  readonly endpoint: string;
  readonly input: CallInput;
  /** Owns the run, provides its secrets and pays for it. */
  readonly workspace: Workspace;
  /** A UUID. */
  readonly runId: string;
  readonly triggerSource: 'api' | 'cli' | 'agent' | 'replay' | 'schedule' | 'manual' | 'webhook';
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /** The caller's wish in epoch milliseconds, see {@link deadlineOf}. */
  readonly wantedDeadline?: number;
  readonly lineage: Lineage;
  readonly tenantId?: string;
  readonly skillHeaders: SkillHeaders;
  /** The run that a replay repeats. */
  readonly replayOf?: string;
  /** The schedule that started the run. */
  readonly scheduleId?: string;
}

/** A call that passed every check except limits and credits, with what its run needs. */
export interface PreparedCall extends Call {
  /** Epoch milliseconds. */
  readonly deadline: number;
  /** About the input. */
  readonly inputWarnings: readonly Warning[];
  readonly skills: readonly Skill[];
  readonly secrets: Readonly<Record<string, string>>;
  /** Empty for programs, which call models themselves. */
  readonly models: readonly ModelChoice[];
  /** Absent for prompts, which have no sandbox and so cannot call agents. */
  readonly issued: IssuedContext | undefined;
  readonly mask: SecretMask;
}

/**
 * Checks a call and gathers what its run needs. Writes nothing.
 *
 * Throws TIMEOUT, UNPROCESSABLE for a skill or for skills that cannot apply, INVALID_INPUT, MISSING_INPUT_FIELDS,
 * MISSING_SECRETS, LLM_KEY_REQUIRED.
 */
export async function prepareCall(deps: Deps, call: Call): Promise<PreparedCall> {
  const { agent, input, workspace, runId, lineage } = call;
  const deadline = deadlineOf(deps, call);
  if (deadline <= deps.clock.now()) throw new PlatformError('TIMEOUT', 'The deadline of this call has passed already.');
  checkIsNoSkill(agent);
  const inputWarnings = await checkInput(agent, input);
  const skills = await resolveSkills(deps, {
    agent,
    headers: call.skillHeaders,
    caller: { workspaceId: workspace.id, slug: workspace.slug },
  });
  if (isPrompt(agent)) checkPlaceholders(agent.definition.prompt ?? '', input.document);
  const secrets = await declaredSecrets(deps, agent, workspace.id);
  const models = await modelsFor(deps, call);
  const issued = isPrompt(agent) ? undefined : newContext(deps, { agent, runId, workspace, lineage });
  const mask = maskFor({ secrets, credentials: input.llmCredentials, models, serviceKey: issued?.serviceKey });
  return { ...call, deadline, inputWarnings, skills, secrets, models, issued, mask };
}

/**
 * The earliest of the limits of agent, plan and platform, and of the deadlines of the caller and the calling run. Epoch
 * milliseconds.
 */
export function deadlineOf(deps: Pick<Deps, 'config'>, call: Call): number {
  const { timeout_seconds: own, manifest } = call.agent.definition;
  const plan = planOf(deps, call.workspace);
  const limits = [
    MAX_CALL_MS,
    (isPrompt(call.agent) ? plan.timeout_seconds : plan.sandbox_timeout_seconds) * 1000,
    own > 0 ? own * 1000 : MAX_CALL_MS,
    manifest?.timeout_ms ?? MAX_CALL_MS,
  ];
  const { wantedDeadline = Number.POSITIVE_INFINITY, lineage } = call;
  return Math.min(call.receivedAt + Math.min(...limits), wantedDeadline, lineage.deadline ?? wantedDeadline);
}

/** Whether the agent has no sandbox. */
export const isPrompt = ({ definition }: AgentVersion): boolean => definition.execution_engine === 'direct_llm';

function checkIsNoSkill(agent: AgentVersion): void {
  if (agent.definition.execution_engine !== null) return;
  throw new PlatformError(
    'UNPROCESSABLE',
    `${refOf(agent)} is a skill: it is given to other agents, with the header X-Platform-Skills or in their default_skills, and not called itself.`,
  );
}

async function modelsFor(deps: Deps, { agent, workspace, input }: Call): Promise<ModelChoice[]> {
  if (agent.definition.execution_engine === 'code_runtime') return [];
  return chooseModels(deps, { workspaceId: workspace.id, wishes: agent.definition, credentials: input.llmCredentials });
}
