import type * as z from 'zod';
import { waitingMember } from '../approval.ts';
import { type AgentDefinition, type AgentType, MAX_DURABLE_TURNS, MAX_TURNS } from '../definition.ts';
import { suggestion } from '../did-you-mean.ts';
import { engineOf, traitsOf } from '../engines.ts';
import { type FieldError, type Found, fieldName, isObject, show, showKind } from '../field-error.ts';
import type { QueueRules } from '../queue-rules.ts';
import { shortDescription } from '../skill.ts';
import { checkMcpServers } from './mcp-servers.ts';
import { IGNORED, MEMBERS, type MemberName, type Members, UNSHOWN } from './members.ts';
import { agentSettingsOf, settingWarnings } from './model-settings.ts';
import {
  checkCustomTools,
  checkOrchestration,
  isRemote,
  ORCHESTRATION_MEMBERS,
  remoteServers,
} from './orchestration.ts';
import { placeholderWarnings } from './placeholders.ts';
import {
  durabilityOf,
  egressOf,
  evalsOf,
  isAbsent,
  isRetried,
  modelTasksOf,
  priceOf,
  providersOf,
  queueRulesFor,
  retryOf,
  reuseOf,
  schemaOf,
  secretsOf,
  sessionsOf,
  textsOf,
  timeoutOf,
  unique,
  workspaceOf,
} from './rules.ts';
import { unknownMembers } from './unknown-members.ts';

interface CheckedDefinition {
  /** Present if there are no errors. */
  readonly definition?: AgentDefinition;
  readonly errors: FieldError[];
  /** Sentences for the author. */
  readonly warnings: string[];
}

/**
 * Members that describe or offer a version and do not affect its behavior
 * (`docs/interface/manifest.md#immutable-members`).
 */
const CHANGEABLE_MEMBERS = [
  'description',
  'tags',
  'is_public',
  'allow_local_download',
  'default_endpoint',
  'timeout_seconds',
  'supported_providers',
  'default_models',
  'default_skills',
  'price_per_call_cents',
] as const satisfies readonly MemberName[];

/** Names the field of an error of a server that is an agent of others: its author wrote it as a dependency. */
function ofDependency({ field, message }: FieldError, ownServers: number, positions: readonly number[]): FieldError {
  const [all, index] = /^mcp_servers\[(\d+)\]/.exec(field) ?? [];
  if (index === undefined || Number(index) < ownServers) return { field, message };
  const at = positions[Number(index) - ownServers]!;
  return { field: `manifest.dependencies[${at}]${field.slice(all!.length)}`, message };
}

const DEFAULT_MAX_TURNS = 25;
/** Maximum number of unknown members to report. */
const MAX_OTHER_MEMBERS = 50;

/** Checks the body of POST /agents by all rules that need only the body, and returns all problems together. */
export function checkDefinition(given: unknown): CheckedDefinition {
  if (!isObject(given)) {
    return {
      errors: [{ field: '', message: `the manifest must be a JSON object, but is ${show(given)}` }],
      warnings: [],
    };
  }
  const found = { errors: [] as FieldError[], warnings: [] as string[] };
  return checkMembers(withShortDescription(given, found), found);
}

/** The description of a skill is cut before its length is checked. */
function withShortDescription(body: Record<string, unknown>, { warnings }: Found): Record<string, unknown> {
  if (body.type !== 'skill' || typeof body.description !== 'string') return body;
  const short = shortDescription(body.description);
  warnings.push(...short.warnings);
  return { ...body, description: short.description };
}

function checkMembers(body: Record<string, unknown>, found: Found): CheckedDefinition {
  const given = readMembers(body, found);
  checkOtherMembers(body, found);
  found.warnings.push(...unknownMembers(body));

  const type = typeOf(given);
  const execution = executionOf(type, given, body, found);
  const engine = execution.execution_engine;
  const traits = traitsOf(engine);
  const { custom_tools } = execution;
  const toolsAreKnown = !found.errors.some(({ field }) => /^(loop|custom_tools)\b/.test(field));
  const definition: AgentDefinition = {
    name: given.name ?? '',
    type,
    ...execution,
    callable: given.callable ?? type !== 'skill',
    ...textsOf(type, engine, given, body, found),
    input_schema: schemaOf('input_schema', given, found),
    output_schema: schemaOf('output_schema', given, found),
    accepts_files: given.accepts_files ?? null,
    accept: given.accept?.map((entry) => entry.trim().toLowerCase()) ?? null,
    max_files: given.max_files ?? null,
    ...providersOf(type, engine, given, found),
    default_endpoint: given.default_endpoint ?? 'run',
    tags: unique(given.tags?.map((tag) => tag.trim())),
    is_public: given.is_public ?? false,
    default_skills: unique(given.default_skills),
    skills_locked: given.skills_locked ?? false,
    ...secretsOf(type, given, body, execution, found),
    ...egressOf(engine, given, found),
    entrypoint: given.entrypoint ?? null,
    source_url: given.source_url ?? null,
    pip_package: given.pip_package ?? null,
    run_command: given.run_command ?? null,
    ...(given.build !== undefined && { build: [given.build].flat() }),
    url: given.url === undefined || new URL(given.url).hostname.endsWith('.internal') ? null : given.url,
    bundle: given.bundle ? { include: given.bundle.include ?? [], exclude: given.bundle.exclude ?? [] } : null,
    manifest: checkOrchestration(
      given.manifest ?? {},
      { isManagedLoop: traits.hasLoop, tools: toolsAreKnown ? custom_tools : undefined },
      found,
    ),
    allow_local_download: given.allow_local_download ?? false,
    environment: given.environment ? withoutNulls(given.environment) : null,
    model_settings: given.model_settings ? agentSettingsOf(given.model_settings) : null,
    model_tasks: modelTasksOf(given, found),
    sdk_compatible: given.sdk_compatible ?? false,
    price_per_call_cents: priceOf(type, given, found),
  };
  found.warnings.push(...settingWarnings(definition));
  if (traits.hasPlaceholders && definition.input_schema !== null) {
    found.warnings.push(...placeholderWarnings(definition.prompt ?? '', definition.input_schema));
  }
  return found.errors.length > 0 ? found : { ...found, definition };
}

/**
 * Checks the body of PATCH /agents/{id} and returns the changed definition. Null resets a member to its default.
 * Members that affect the behavior of a published version cannot be changed.
 */
export function checkUpdate(current: AgentDefinition, patch: unknown): CheckedDefinition {
  if (!isObject(patch)) {
    return {
      errors: [{ field: '', message: `the changes must be a JSON object, but are ${show(patch)}` }],
      warnings: [],
    };
  }
  const changeable: readonly string[] = CHANGEABLE_MEMBERS;
  const known: readonly string[] = [...Object.keys(MEMBERS), ...IGNORED];
  const errors = Object.keys(patch)
    .filter((name) => !changeable.includes(name))
    .map((name) => ({
      field: fieldName([name]),
      message: known.includes(name)
        ? 'cannot be changed once it is published; publish a new version'
        : `is not a member that can be changed; those are ${changeable.join(', ')}`,
    }));
  // Their contents may be stored elsewhere.
  const { skill_files, ...rest } = current;
  // The answer to an update has no warnings, so that a description must not be cut.
  if (current.type === 'skill' && typeof patch.description === 'string') {
    const { warnings } = shortDescription(patch.description);
    if (warnings.length > 0)
      errors.push({ field: 'description', message: 'must be at most 1,024 characters for a skill' });
  }
  if (errors.length > 0) return { errors, warnings: [] };
  const { definition, ...found } = checkDefinition({ ...rest, ...patch });
  return definition === undefined ? found : { ...found, definition: { ...definition, skill_files } };
}

const withoutNulls = (object: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value != null));

/** Parses each member separately, so that a malformed member does not hide problems of others. */
function readMembers(body: Record<string, unknown>, { errors }: Found): Members {
  const members: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries<z.ZodType>(MEMBERS)) {
    const value = body[name];
    if (value === undefined || value === null) continue;
    const result = shape.safeParse(value);
    if (result.success) {
      members[name] = result.data;
      continue;
    }
    const shown = UNSHOWN.includes(name) ? showKind : show;
    // Removes duplicates: a member may break one rule in several ways.
    const byText = new Map<string, FieldError>();
    for (const issue of result.error.issues.slice(0, 20)) {
      const field = fieldName([name, ...issue.path]);
      byText.set(`${field} ${issue.message}`, {
        field,
        message: `${issue.message}, but is ${shown(valueAt(value, issue.path))}`,
      });
    }
    errors.push(...byText.values());
  }
  return members as Members;
}

const valueAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce((node, key) => (node as Record<PropertyKey, unknown> | null | undefined)?.[key], value);

function checkOtherMembers(body: Record<string, unknown>, { errors, warnings }: Found): void {
  for (const name of ['custom_tools', 'environment', 'runtime', 'loop'] as const) {
    if (!isObject(body.manifest) || body.manifest[name] == null || !isAbsent(body, name)) continue;
    if (name === 'custom_tools' && isObject(body.loop) && body.loop.custom_tools != null) continue;
    warnings.push(`manifest.${name} is ignored: it belongs beside "manifest".`);
  }
  // Some old manifests have an empty list here, which is safe to ignore.
  const declaresNone = Array.isArray(body.dependencies) && body.dependencies.length === 0;
  const others = Object.keys(body).filter(
    (name) => !Object.hasOwn(MEMBERS, name) && !IGNORED.includes(name) && body[name] != null,
  );
  for (const name of others.slice(0, MAX_OTHER_MEMBERS)) {
    if (name === 'model') {
      warnings.push('"model" is ignored: name a model for each provider in default_models.');
    } else if (!ORCHESTRATION_MEMBERS.includes(name)) {
      warnings.push(
        `${show(name)} is not a member of a manifest and is ignored${suggestion(name, Object.keys(MEMBERS))}`,
      );
    } else if (declaresNone) {
      warnings.push(`"${name}" is ignored: it belongs inside "manifest".`);
    } else {
      errors.push({ field: name, message: `must be inside "manifest" (as manifest.${name})` });
    }
  }
}

function typeOf({ type = 'prompt' }: Members): AgentType {
  return type === 'code' ? 'tool' : type === 'agentic' ? 'agent' : type;
}

type Execution = Pick<
  AgentDefinition,
  | 'run_mode'
  | 'execution_engine'
  | 'runtime'
  | 'loop'
  | 'custom_tools'
  | 'timeout_seconds'
  | 'retry_on_interruption'
  | 'durable'
  | 'reuse'
  | 'retry'
  | 'sessions'
  | 'workspace'
  | 'evals'
  | keyof QueueRules
>;

function executionOf(type: AgentType, given: Members, body: Record<string, unknown>, found: Found): Execution {
  const { errors, warnings } = found;
  const { run_mode = 'on_demand' } = given;
  const hasRuntime = !isAbsent(body, 'runtime');
  const hasLoop = !isAbsent(body, 'loop');
  if (hasRuntime && hasLoop) {
    errors.push({ field: 'loop', message: 'must not be set together with "runtime": an agent has one or the other' });
  }
  if (type === 'skill' && (hasRuntime || hasLoop)) {
    errors.push({ field: hasRuntime ? 'runtime' : 'loop', message: 'must not be set: a skill does not run' });
  }
  const engine = engineOf(type, (member) => !isAbsent(body, member));
  const traits = traitsOf(engine);

  const { max_turns, custom_tools: ownTools, mcp_servers: ownServers, ...loop } = given.loop ?? {};
  const rawTools = ownTools ?? given.custom_tools ?? [];
  const dependencies = given.manifest?.dependencies ?? [];
  const remote = remoteServers(dependencies);
  const positions = dependencies.flatMap((each, index) => (isRemote(each) ? [index] : []));
  const rawServers = [...(ownServers ?? given.mcp_servers ?? []), ...remote];
  const turns = max_turns ?? given.max_turns ?? DEFAULT_MAX_TURNS;
  const hasLoopMembers = rawTools.length > 0 || rawServers.length > 0 || given.max_turns !== undefined;
  if (!traits.hasLoop && hasLoopMembers) {
    warnings.push(`Custom tools, mcp_servers and max_turns are ignored: ${engine ?? 'a skill'} has no loop.`);
  }
  if (given.build !== undefined && !traits.hasProgram && !(traits.hasLoop && given.bundle)) {
    warnings.push('"build" is ignored: only programs, and loops with "bundle", have a build step.');
  }
  if (run_mode === 'always_on') {
    if (!traits.canBeService) {
      const message =
        'must be on_demand here: always_on needs runtime.command or loop, and a prompt or skill has neither';
      errors.push({ field: 'run_mode', message });
    } else if (traits.hasProgram && !(given.runtime?.command ?? given.run_command ?? given.entrypoint)) {
      errors.push({ field: 'run_mode', message: 'must be on_demand without a runtime.command: always_on needs one' });
    }
  }
  const customTools = traits.hasLoop ? checkCustomTools(rawTools, found, loop.tools ?? []) : [];
  const ofServers: Found = { errors: [], warnings };
  const servers = traits.hasLoop ? checkMcpServers(rawServers, { given, customTools }, ofServers) : [];
  errors.push(...ofServers.errors.map((error) => ofDependency(error, rawServers.length - remote.length, positions)));
  const waiting = waitingMember({
    loop: { ...loop, mcp_servers: traits.hasLoop ? servers : rawServers },
    custom_tools: traits.hasLoop ? customTools : rawTools,
    manifest: given.manifest,
  });
  if (loop.on_max_cost != null && loop.max_cost_usd == null) {
    errors.push({ field: 'loop.on_max_cost', message: 'must be left out without loop.max_cost_usd' });
  }
  const workspace = workspaceOf(given, { run_mode, engine }, found);
  const durability = durabilityOf(given, { run_mode, engine, waiting }, found);
  for (const [field, count] of [
    ['loop.max_turns', max_turns],
    ['max_turns', given.max_turns],
  ] as const) {
    if ((count ?? 0) <= MAX_TURNS || durability.durable !== undefined) continue;
    const message = `must be from 1 to ${MAX_TURNS}, but is ${count}; only a durable loop may have up to ${MAX_DURABLE_TURNS}`;
    errors.push({ field, message });
  }
  return {
    run_mode,
    execution_engine: engine,
    runtime: traits.hasProgram && given.runtime ? withoutNulls(given.runtime) : null,
    loop: traits.hasLoop ? { ...loop, max_turns: turns, ...(servers.length > 0 && { mcp_servers: servers }) } : null,
    custom_tools: customTools,
    timeout_seconds: timeoutOf(run_mode, given, found),
    ...(isRetried(given, { run_mode, engine }, found) && { retry_on_interruption: true }),
    ...durability,
    ...retryOf(given, { run_mode, engine, ...durability }, found),
    ...queueRulesFor(given, { run_mode, engine }, found),
    ...sessionsOf(given, { run_mode, engine }, found),
    ...workspace,
    ...reuseOf(given, { run_mode, engine, ...durability, ...workspace }, found),
    ...evalsOf(given, { run_mode, engine }, found),
  };
}
