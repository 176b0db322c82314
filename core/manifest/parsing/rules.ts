import { MAX_TIMEOUT_SECONDS } from '#core/base/time-limits.ts';
import { isSettingsSecret } from '#core/models/compatible-providers.ts';
import { isLlmProvider, PROVIDER_NAMES } from '#core/ports/llm.ts';
import type { AgentDefinition, AgentType, ExecutionEngine } from '../definition.ts';
import { traitsOf } from '../engines.ts';
import { onlineProblems } from '../evals/online.ts';
import { evalSettingsOf } from '../evals/settings.ts';
import { type Found, fieldName, show, showKind } from '../field-error.ts';
import { checkSchema } from '../json-schema/schema-validation.ts';
import { programReuseOf } from '../program-reuse.ts';
import { QUEUE_RULES, type QueueRules } from '../queue-rules.ts';
import { queueRulesOf } from '../queue-shapes.ts';
import { retryPolicyOf, withoutRepeated } from '../retry-policy.ts';
import { checkSkillFiles, hasFrontMatter, parseSkill, shortDescription } from '../skill.ts';
import { connectionSecrets } from './mcp-servers.ts';
import type { Members } from './members.ts';

/**
 * Variables that the platform sets in every sandbox (`docs/interface/sandbox.md#variables`), overriding a secret of the
 * same name.
 */
const RESERVED_VARIABLE =
  /^(PLATFORM_(?!API_KEY$|CONNECTION_).*|PATH|HOME|USER|LANG|SHELL|TERM|PWD|TMPDIR|PORT|PYTHONPATH|LLM_PROVIDER|LLM_MODEL)$/;

/** Variables that make interpreters and libraries run foreign code or print files. The list is incomplete. */
const CODE_VARIABLE =
  /^(?:LD_\w+|BASH_ENV|NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS)|NPM_CONFIG_\w+|OPENSSL_\w+|PYTHON\w+|PERL5\w+|RUBY(?:OPT|LIB)|\w*JAVA_?\w*OPTIONS|CLASSPATH)$/;

export const isAbsent = (body: Record<string, unknown>, name: string): boolean => body[name] == null;

export const unique = <T>(list: readonly T[] | undefined): T[] => [...new Set(list)];

export function timeoutOf(runMode: AgentDefinition['run_mode'], given: Members, { errors, warnings }: Found): number {
  const seconds = given.timeout_seconds ?? (runMode === 'always_on' ? 0 : MAX_TIMEOUT_SECONDS);
  if (seconds === 0 && runMode !== 'always_on') {
    errors.push({ field: 'timeout_seconds', message: 'must be more than 0; only always_on agents may have 0' });
  }
  if (seconds > MAX_TIMEOUT_SECONDS) {
    warnings.push(
      `timeout_seconds is ${seconds}, but the platform ends every call after ${MAX_TIMEOUT_SECONDS} seconds.`,
    );
  }
  return Math.min(seconds, MAX_TIMEOUT_SECONDS);
}

/**
 * Whether runs are retried after an interruption. Only for programs that calls start: all of their work is in the
 * sandbox, while a loop has also paid for model requests.
 */
export function isRetried(
  { retry_on_interruption: wanted = false }: Members,
  { run_mode, engine }: Pick<AgentDefinition, 'run_mode'> & { readonly engine: ExecutionEngine | null },
  { errors }: Found,
): boolean {
  if (wanted && (!traitsOf(engine).hasProgram || run_mode === 'always_on')) {
    const message =
      'must be false here: only programs (runtime, or type tool) with run_mode on_demand can be restarted';
    errors.push({ field: 'retry_on_interruption', message });
  }
  return wanted;
}

/** Only the program of a run that ends within its call can take another input, and its files are those of all its runs. */
export function reuseOf(
  { reuse: given }: Members,
  {
    run_mode,
    engine,
    durable,
    workspace,
  }: Pick<AgentDefinition, 'run_mode' | 'durable' | 'workspace'> & { readonly engine: ExecutionEngine | null },
  { errors }: Found,
): Pick<AgentDefinition, 'reuse'> {
  if (given === undefined) return {};
  const refuse = (message: string) => errors.push({ field: 'reuse', message: `must be left out here: ${message}` });
  if (!traitsOf(engine).hasProgram || run_mode === 'always_on') {
    refuse('only programs (runtime, or type tool) with run_mode on_demand stay for further calls');
  }
  if (durable !== undefined) refuse('the program of a durable run may last for hours');
  if (workspace) refuse('with "workspace", each session has files of its own');
  return { reuse: programReuseOf(given) };
}

/** What a loop does is in its journal, and a program works by itself; a prompt is one request. */
export function durabilityOf(
  { durable: given }: Members,
  {
    run_mode,
    engine,
    waiting,
  }: Pick<AgentDefinition, 'run_mode'> & {
    readonly engine: ExecutionEngine | null;
    /** The member by which its runs may wait (`waitingMember`). */
    readonly waiting: string | undefined;
  },
  { errors }: Found,
): Pick<AgentDefinition, 'durable'> {
  const durable = given ?? waiting !== undefined;
  const canWait = traitsOf(engine).hasLoop && run_mode === 'on_demand';
  if (waiting !== undefined && !canWait) {
    const message = `must be left out here, but ${waiting}: only loops with run_mode on_demand wait`;
    errors.push({ field: waiting.slice(0, waiting.indexOf(' ')), message });
    return {};
  }
  if (durable === false) {
    if (waiting !== undefined) {
      errors.push({ field: 'durable', message: `must not be false, because ${waiting}: only durable loops wait` });
    }
    return {};
  }
  if (!traitsOf(engine).hasSandbox || run_mode === 'always_on') {
    const message = 'must be left out here: only loops and programs with run_mode on_demand can be durable';
    errors.push({ field: 'durable', message });
  }
  if (durable === true) return { durable: {} };
  const { max_active_seconds, max_wait_seconds, steps } = durable;
  if (steps === true && !traitsOf(engine).hasProgram) {
    errors.push({ field: 'durable.steps', message: 'must be left out here: only programs have steps' });
  }
  if (max_wait_seconds != null && waiting === undefined && steps !== true) {
    const message = 'must be left out here: nothing in this manifest waits for people, time or events';
    errors.push({ field: 'durable.max_wait_seconds', message });
  }
  return {
    durable: {
      ...(max_active_seconds != null && { max_active_seconds }),
      ...(max_wait_seconds != null && { max_wait_seconds }),
      ...(steps === true && { steps }),
    },
  };
}

/** Only what calls start has sessions, and only what has a sandbox has files. */
export function workspaceOf(
  { workspace = false }: Members,
  { run_mode, engine }: Pick<AgentDefinition, 'run_mode'> & { readonly engine: ExecutionEngine | null },
  { errors }: Found,
): Pick<AgentDefinition, 'workspace'> {
  if (!workspace) return {};
  if (!traitsOf(engine).hasSandbox || run_mode === 'always_on') {
    const message =
      'must be left out here: only loops and programs with run_mode on_demand have files in their sessions';
    errors.push({ field: 'workspace', message });
  }
  return { workspace: true };
}

/** Only runs that calls start can be evaluated. */
export function evalsOf(
  { evals: given }: Members,
  { run_mode, engine }: Pick<AgentDefinition, 'run_mode'> & { readonly engine: ExecutionEngine | null },
  { errors }: Found,
): Pick<AgentDefinition, 'evals'> {
  if (given === undefined) return {};
  if (engine === null || run_mode === 'always_on') {
    const message = 'must be left out here: only agents with run_mode on_demand have runs to evaluate';
    errors.push({ field: 'evals', message });
  }
  const evals = evalSettingsOf(given);
  if (evals?.online !== undefined) errors.push(...onlineProblems(evals.online, traitsOf(engine).hasLoop));
  return evals === undefined ? {} : { evals };
}

/** Only runs that calls start end, and a durable run cannot repeat what it has done. */
export function retryOf(
  { retry }: Members,
  {
    run_mode,
    engine,
    durable,
  }: Pick<AgentDefinition, 'run_mode' | 'durable'> & { readonly engine: ExecutionEngine | null },
  { errors }: Found,
): Pick<AgentDefinition, 'retry'> {
  if (retry === undefined) return {};
  if (engine === null || run_mode === 'always_on') {
    errors.push({ field: 'retry', message: 'must be left out here: only agents with run_mode on_demand have runs' });
  }
  const isDurable = durable !== undefined;
  if (isDurable && traitsOf(engine).hasProgram) {
    const message = 'must be left out here: a durable program has "retry_on_interruption" instead';
    errors.push({ field: 'retry', message });
  }
  const { on } = retry;
  const refused = isDurable ? (on?.filter((code) => withoutRepeated([code]).length === 0) ?? []) : [];
  if (refused.length > 0) {
    const message = `must not have ${refused.join(', ')}: a durable run continues where it failed, and would fail again`;
    errors.push({ field: 'retry.on', message });
  }
  return { retry: retryPolicyOf(retry, { isDurable }) };
}

/** Only agents that calls start have sessions; `false` says that this one takes none. */
export function sessionsOf(
  { sessions }: Members,
  { run_mode, engine }: Pick<AgentDefinition, 'run_mode'> & { readonly engine: ExecutionEngine | null },
  { errors }: Found,
): Pick<AgentDefinition, 'sessions'> {
  if (sessions === undefined || sessions === true) return {};
  if (sessions === false) return { sessions };
  if (engine === null || run_mode === 'always_on') {
    errors.push({
      field: 'sessions',
      message: 'must be left out here: only agents with run_mode on_demand take sessions',
    });
  }
  const { busy, ttl_days } = sessions;
  const rules = { ...(busy != null && { busy }), ...(ttl_days != null && { ttl_days }) };
  return Object.keys(rules).length === 0 ? {} : { sessions: rules };
}

/** Only runs that calls start end, so that others can begin. */
export function queueRulesFor(
  given: Members,
  { run_mode, engine }: Pick<AgentDefinition, 'run_mode'> & { readonly engine: ExecutionEngine | null },
  { errors }: Found,
): QueueRules {
  if (engine === null || run_mode === 'always_on') {
    const message = 'must be left out here: only agents with run_mode on_demand have runs';
    errors.push(...QUEUE_RULES.filter((rule) => given[rule] !== undefined).map((field) => ({ field, message })));
  }
  return queueRulesOf(given);
}

/** Old manifests contain the file name of the prompt instead of its text. */
const isFileName = (text: string): boolean => /^[\w./-]+\.(md|txt)$/.test(text.trim());

export function textsOf(
  type: AgentType,
  engine: ExecutionEngine | null,
  given: Members,
  body: Record<string, unknown>,
  { errors, warnings }: Found,
): Pick<AgentDefinition, 'description' | 'prompt' | 'skill_files'> {
  const template = given.prompt_template;
  let prompt = given.prompt ?? (template === undefined || isFileName(template) ? undefined : template);
  let description = given.description;
  if (type === 'skill' && prompt !== undefined && hasFrontMatter(prompt)) {
    const { skill, errors: problems } = parseSkill(prompt);
    const isReported = errors.some(({ field }) => field === 'description');
    errors.push(...problems.filter(({ field }) => !isReported || field !== 'SKILL.md description'));
    if (skill && given.name !== undefined && skill.name !== given.name) {
      errors.push({
        field: 'name',
        message: `must be the name in SKILL.md, ${show(skill.name)}, but is ${show(given.name)}`,
      });
    }
    if (description === undefined && skill !== undefined) {
      const short = shortDescription(skill.description);
      description = short.description;
      warnings.push(...short.warnings);
    }
    prompt = skill?.body ?? prompt;
  }
  // Prevents a second report of a missing description.
  const hasWrongDescription = errors.some(({ field }) => field === 'SKILL.md description');
  if (description === undefined && !hasWrongDescription && isAbsent(body, 'description')) {
    errors.push({ field: 'description', message: 'must be a text that says what the agent does, but is missing' });
  }
  if (isAbsent(body, 'name')) errors.push({ field: 'name', message: 'must be the name of the agent, but is missing' });

  const { needsPrompt } = traitsOf(engine);
  const hasWrongPrompt = errors.some(({ field }) => field === 'prompt' || field === 'prompt_template');
  if (needsPrompt && !hasWrongPrompt && (prompt === undefined || prompt.trim() === '')) {
    const hint = template !== undefined && isFileName(template) ? `; prompt_template only names ${show(template)}` : '';
    errors.push({ field: 'prompt', message: `must be the text of the prompt, but is ${showKind(prompt)}${hint}` });
  }
  const files = given.skill_files ?? [];
  if (type !== 'skill' && files.length > 0) warnings.push('skill_files are ignored: only a skill has them.');
  const checked = type === 'skill' ? checkSkillFiles(files, 'skill_files') : { files: [], errors: [] };
  errors.push(...checked.errors);
  return { description: description ?? '', prompt: prompt ?? null, skill_files: checked.files };
}

export function schemaOf(name: 'input_schema' | 'output_schema', given: Members, { errors }: Found) {
  const schema = given[name];
  if (schema === undefined) return null;
  errors.push(...checkSchema(schema, name));
  return schema as Record<string, unknown>;
}

/** The only provider of type `agent` (`docs/interface/manifest.md`). */
const AGENT_PROVIDER = 'anthropic';

export function providersOf(
  type: AgentType,
  engine: ExecutionEngine | null,
  given: Members,
  { errors, warnings }: Found,
): Pick<AgentDefinition, 'supported_providers' | 'default_models'> {
  const default_models = given.default_models ?? {};
  for (const provider of Object.keys(default_models)) {
    if (isLlmProvider(provider)) continue;
    errors.push({
      field: fieldName(['default_models', provider]),
      message: `must be one of ${PROVIDER_NAMES}`,
    });
  }
  const standard = [...traitsOf(engine).defaultProviders];
  const named = unique(given.supported_providers);
  if (type !== 'agent') return { supported_providers: named.length > 0 ? named : standard, default_models };

  const others = named.filter((provider) => provider !== AGENT_PROVIDER && provider !== 'any');
  if (others.length > 0) {
    const message = `must be only "${AGENT_PROVIDER}" for type "agent", but has ${others.join(', ')}, too. For a loop with other providers, set "type" to "prompt" (or "tool") and keep "loop"`;
    errors.push({ field: 'supported_providers', message });
  } else if (named.includes('any')) {
    warnings.push(`supported_providers is treated as "${AGENT_PROVIDER}": agents run with that provider only.`);
  }
  return { supported_providers: [AGENT_PROVIDER], default_models };
}

/** Only agents with a sandbox connect to anything. */
export function egressOf(
  engine: ExecutionEngine | null,
  { egress = [] }: Members,
  { errors }: Found,
): Pick<AgentDefinition, 'egress'> {
  if (egress.length === 0) return {};
  if (!traitsOf(engine).hasSandbox) {
    errors.push({ field: 'egress', message: 'must be left out: only programs and loops have a sandbox that connects' });
  }
  return { egress: unique(egress.map((target) => target.toLowerCase())) };
}

export function secretsOf(
  type: AgentType,
  given: Members,
  body: Record<string, unknown>,
  { loop }: Pick<AgentDefinition, 'loop'>,
  { errors, warnings }: Found,
): Pick<AgentDefinition, 'required_secrets' | 'optional_secrets'> {
  const needsList = type === 'tool' || type === 'agent';
  if (needsList && isAbsent(body, 'required_secrets') && given.no_required_secrets !== true) {
    const message = `must be declared for ${type === 'agent' ? 'an agent' : 'a tool'}, [] if it needs none (or send "no_required_secrets": true)`;
    errors.push({ field: 'required_secrets', message });
  }
  for (const field of ['required_secrets', 'optional_secrets'] as const) {
    for (const name of given[field] ?? []) {
      if (RESERVED_VARIABLE.test(name)) {
        errors.push({ field, message: `must not have ${name}: the platform sets it itself` });
      } else if (isSettingsSecret(name)) {
        errors.push({ field, message: `must not have ${name}: keys of model providers stay with the platform` });
      } else if (CODE_VARIABLE.test(name) && !given.allow_local_download) {
        warnings.push(
          `${field}: with ${name}, a workspace that calls this agent can run code of its own in it and read its source; leave it out.`,
        );
      }
    }
  }
  const servers = loop?.mcp_servers ?? [];
  const required_secrets = unique([...(given.required_secrets ?? []), ...connectionSecrets(servers, false)]);
  const optional_secrets = unique([...(given.optional_secrets ?? []), ...connectionSecrets(servers, true)]).filter(
    (name) => !required_secrets.includes(name),
  );
  return { required_secrets, optional_secrets };
}

export function modelTasksOf(given: Members, { errors }: Found): Record<string, string> | null {
  const tasks = given.model_tasks;
  if (tasks === undefined) return null;
  if (!Object.hasOwn(tasks, 'default')) errors.push({ field: 'model_tasks', message: 'must have the task "default"' });
  for (const task of Object.keys(tasks)) {
    if (/^[a-z0-9_]{1,64}$/.test(task)) continue;
    errors.push({
      field: fieldName(['model_tasks', task]),
      message: 'must have a name of lower-case letters, digits and "_"',
    });
  }
  return tasks;
}

export function priceOf(
  type: AgentType,
  { pricing_mode, price_per_call_cents = 0 }: Members,
  { errors }: Found,
): number | null {
  if (type === 'skill' && price_per_call_cents > 0) {
    errors.push({ field: 'price_per_call_cents', message: 'must be absent for a skill: it is not called' });
  }
  if (pricing_mode === 'per_call' && price_per_call_cents === 0) {
    errors.push({ field: 'price_per_call_cents', message: 'must be at least 1 with the pricing_mode "per_call"' });
  }
  if (pricing_mode === 'free' && price_per_call_cents > 0) {
    errors.push({ field: 'price_per_call_cents', message: 'must be absent with the pricing_mode "free"' });
  }
  return price_per_call_cents > 0 ? price_per_call_cents : null;
}
