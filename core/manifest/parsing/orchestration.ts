import * as z from 'zod';
import { isChannelName } from '../channel-name.ts';
import {
  type CustomTool,
  type Dependency,
  INTERRUPTIONS,
  LOOP_TOOLS,
  MAX_HOPS,
  type Orchestration,
  OUTER_TOOLS,
} from '../definition.ts';
import { type Found, isObject, show } from '../field-error.ts';
import { checkSchema } from '../json-schema/schema-validation.ts';
import { programReuseOf, reuseShape } from '../program-reuse.ts';
import { dependencyRef, EXACT_VERSION, FULL_NAME } from '../references.ts';
import { commandProblems } from '../tool-commands/tool-command.ts';
import { approvalOf, approvalShape } from './approvals.ts';

const MAX_DEPENDENCIES = 50;
const MAX_TOOLS = 50;
/** Reserved names of built-in tools. */
const BUILT_IN_TOOLS: readonly string[] = [...LOOP_TOOLS, 'submit_result'].filter(
  (name) => !OUTER_TOOLS.some((outer) => outer === name),
);
const PLACEHOLDER = /\{\{(\w+)\}\}/g;
/** Matches a custom tool's call of a dependency (`docs/interface/loops.md#dependencies`). */
const PLATFORM_CALL = /platform_call(?:\.py|\.js)?["']?\s+["']?([a-z0-9][a-z0-9-]*\/[a-z0-9][a-z0-9-]*)(?:@(v\d+))?/g;

/** Begins the id of an agent of others. */
const REMOTE = 'a2a:';
const MAX_ID = 2048;

const count = (min: number) => z.int('must be a whole number').min(min, `must be at least ${min}`);

const idRule = 'must be "org/agent" in lower-case letters, digits and hyphens, or "a2a:" and the address of a card';
const versionRule = 'must be an exact version such as "v1"';
const noChannel = 'must be an exact version such as "v1", not a channel, whose version changes without this agent';
const isExact = {
  error: ({ input }: { readonly input?: unknown }) =>
    typeof input === 'string' && isChannelName(input) ? noChannel : versionRule,
};

const dependency = z
  .object(
    {
      id: z
        .string('must be "org/agent"')
        .max(MAX_ID, `must be at most ${MAX_ID} characters`)
        .refine((id) => id.startsWith(REMOTE) || FULL_NAME.test(id), idRule),
      version: z.string(versionRule).regex(EXACT_VERSION, isExact).nullish(),
      name: z.string('must be a string').nullish(),
      headers: z.record(z.string(), z.unknown(), 'must be an object of header name -> value').nullish(),
      connection: z.string('must be the name of a connection').nullish(),
      approval: approvalShape.nullish(),
    },
    'must be an object with id and version',
  )
  .superRefine(({ id, version, name }, { addIssue }) => {
    const isOthers = id.startsWith(REMOTE);
    if (!isOthers && version == null) addIssue({ code: 'custom', path: ['version'], message: versionRule });
    if (!isOthers) return;
    if (name == null)
      addIssue({ code: 'custom', path: ['name'], message: 'must be a name for the agent, but is missing' });
    if (version != null) {
      const message = 'must be left out: the card of an agent of others says which version it is';
      addIssue({ code: 'custom', path: ['version'], message });
    }
  });
type Given = z.output<typeof dependency>;

/** Whether a dependency is an agent of others (`docs/interface/a2a.md#dependencies`). */
export const isRemote = ({ id }: { readonly id?: unknown }): boolean => typeof id === 'string' && id.startsWith(REMOTE);

/** Returns the agents of others among dependencies as what they become: servers of the loop. */
export const remoteServers = (dependencies: readonly Given[]) =>
  dependencies.filter(isRemote).map(({ id, name, headers, connection, approval }) => ({
    ...{ name: name!, url: id.slice(REMOTE.length), transport: 'a2a' as const },
    ...(headers && { headers }),
    ...(connection && { connection }),
    ...(approval && { approval }),
  }));

/** Shape of the section; {@link checkOrchestration} checks the rules. */
export const orchestrationShape = z.looseObject(
  {
    manifest_version: z.literal(1, 'must be 1').nullish(),
    dependencies: z
      .array(dependency, 'must be an array of {"id": "org/agent", "version": "v1"}')
      .max(MAX_DEPENDENCIES, `must be at most ${MAX_DEPENDENCIES}`)
      .nullish(),
    max_hops: count(0).nullish(),
    timeout_ms: count(1).nullish(),
    per_call_downstream_cap: count(0).nullish(),
    orchestration_mode: z.enum(['strict', 'flexible'], 'must be "strict" or "flexible"').nullish(),
    min_required_hops: count(0).max(MAX_HOPS, `must be at most ${MAX_HOPS}, the longest chain of calls`).nullish(),
    region: z.string('must be a string').max(64, 'must be at most 64 characters').nullish(),
    visibility: z.enum(['public', 'private'], 'must be "public" or "private"').nullish(),
    recommended_min_caller_budget: z.number('must be a number').min(0, 'must be at least 0').nullish(),
    downstream_spend_cap: count(0).nullish(),
  },
  'must be an object',
);

/** Members of `manifest` that some authors write at the top level by mistake. */
export const ORCHESTRATION_MEMBERS = Object.keys(orchestrationShape.shape);

const line = (max: number) =>
  z
    .string('must be a string')
    .max(max, `must be at most ${max} characters`)
    .refine((text) => text.trim() !== '', 'must not be empty');

const toolName = 'must be 1-64 letters, digits, "_" or "-"';

/** Shape of what happens to a call that was interrupted. */
export const interruptionShape = z.enum(
  INTERRUPTIONS,
  'must be "retry" if the tool may run twice for one call, or "unknown" if it may not',
);

export const customToolsShape = z
  .array(
    z.looseObject(
      {
        name: z.string(toolName).regex(/^[A-Za-z0-9_-]{1,64}$/, toolName),
        description: line(4000),
        command: line(10_000),
        input_schema: z.unknown().optional(),
        reuse: reuseShape.nullish(),
        interruption: interruptionShape.nullish(),
        approval: approvalShape.nullish(),
      },
      'must be an object with name, description and command',
    ),
    'must be an array of tools',
  )
  .max(MAX_TOOLS, `must be at most ${MAX_TOOLS}`);

/**
 * Checks the rules of custom tools beyond their shape (`docs/interface/manifest.md#custom-tools`).
 *
 * @param named Tools of the platform that the loop names.
 */
export function checkCustomTools(
  tools: z.output<typeof customToolsShape>,
  { errors, warnings }: Found,
  named: readonly string[] = [],
): CustomTool[] {
  const reserved = [...BUILT_IN_TOOLS, ...named];
  const names = new Set<string>();
  return tools.map(({ input_schema, reuse, interruption, approval, ...given }, index) => {
    const field = `custom_tools[${index}]`;
    const tool = {
      ...given,
      ...(reuse && { reuse: programReuseOf(reuse) }),
      ...(interruption && { interruption }),
      ...approvalOf(approval, `${field}.approval`, { errors, warnings }),
    };
    if (reserved.includes(tool.name)) {
      errors.push({ field: `${field}.name`, message: `is "${tool.name}", the name of a built-in tool` });
    }
    if (names.has(tool.name)) errors.push({ field: `${field}.name`, message: `is "${tool.name}" a second time` });
    names.add(tool.name);

    const placeholders = new Set([...tool.command.matchAll(PLACEHOLDER)].map((match) => match[1]!));
    if (reuse && placeholders.size > 0) {
      const message = `must have no {{placeholders}} with "reuse": its program gets the values with each input`;
      errors.push({ field: `${field}.command`, message });
    }
    if (input_schema === undefined || input_schema === null) {
      if (placeholders.size > 0) {
        const [first] = placeholders;
        const message = `is required because the command has placeholders, such as {{${first!.slice(0, 40)}}}`;
        errors.push({ field: `${field}.input_schema`, message });
      }
      return tool;
    }
    errors.push(...checkSchema(input_schema, `${field}.input_schema`));
    if (!isObject(input_schema)) return tool;
    const type = input_schema.type;
    if (type !== undefined && type !== 'object') {
      errors.push({ field: `${field}.input_schema.type`, message: `must be "object", but is ${show(type)}` });
    }
    const properties = isObject(input_schema.properties) ? input_schema.properties : {};
    for (const name of placeholders) {
      if (Object.hasOwn(properties, name)) continue;
      warnings.push(
        `${field}.command has the placeholder {{${name.slice(0, 40)}}}, which its input_schema does not define.`,
      );
    }
    for (const { name, problem } of commandProblems(tool.command)) {
      if (Object.hasOwn(properties, name) && isNumberOrBoolean(properties[name])) continue;
      const message = `has {{${name.slice(0, 40)}}} ${problem}. Only a property of type "integer", "number" or "boolean" is allowed there`;
      errors.push({ field: `${field}.command`, message });
    }
    return { ...tool, input_schema };
  });
}

function isNumberOrBoolean(schema: unknown): boolean {
  const types = isObject(schema) ? [schema.type ?? 'any'].flat() : ['any'];
  return types.every((type) => ['integer', 'number', 'boolean'].includes(type as string));
}

/** Returns the dependencies that a tool's command calls, as `org/agent`. */
export const calledDependencies = (command: string): string[] =>
  [...command.matchAll(PLATFORM_CALL)].map(([, id]) => id!);

/** Whether a tool's command calls a dependency of the agent. */
export const callsDependency = (command: string): boolean => command.search(PLATFORM_CALL) >= 0;

/**
 * Checks the rules of the orchestration section beyond its shape. Returns `null` for an empty section. `tools` is
 * absent if the shape of the custom tools is wrong. `dependency-graph.ts` checks existence, access and cycles of the
 * dependencies.
 */
export function checkOrchestration(
  section: z.output<typeof orchestrationShape>,
  { isManagedLoop, tools }: { isManagedLoop: boolean; tools?: readonly CustomTool[] },
  { errors, warnings }: Found,
): Orchestration | null {
  const given = Object.fromEntries(
    Object.entries(section).filter(([, value]) => value !== undefined && value !== null),
  );
  // Agent records show these members inside the section (docs/interface/agents.md#records), but a manifest has them
  // beside it.
  const { custom_tools: _tools, environment: _environment, runtime: _runtime, loop: _loop, ...rest } = given;
  const all = section.dependencies ?? [];
  if (all.some(isRemote) && !isManagedLoop) {
    errors.push({
      field: 'manifest.dependencies',
      message: 'may name agents by their card only in a loop: its tools call them',
    });
  }
  // Agents of others are servers of the loop.
  const positions = all.flatMap((each, index) => (isRemote(each) ? [] : [index]));
  const dependencies = positions.map((index) => {
    const { id, version, approval } = all[index]!;
    const field = `manifest.dependencies[${index}].approval`;
    return { id, version: version!, ...approvalOf(approval, field, { errors, warnings }) };
  });
  if (tools) checkCalls(tools, { dependencies, positions }, isManagedLoop, { errors, warnings });
  if (Object.keys(rest).length === 0) return null;

  if (dependencies.length > 0) {
    const problem = (field: string, message: string) => errors.push({ field: `manifest.${field}`, message });
    if (section.manifest_version == null) problem('manifest_version', 'must be 1, but is missing');
    if (!((section.max_hops ?? 0) >= 1)) {
      problem('max_hops', `must be at least 1 with dependencies, but is ${section.max_hops ?? 'missing'}`);
    }
    if (section.timeout_ms == null) problem('timeout_ms', 'is required with dependencies (milliseconds)');
    const seen = new Set<string>();
    for (const [index, dependency] of dependencies.entries()) {
      const ref = dependencyRef(dependency);
      if (seen.has(ref)) problem(`dependencies[${positions[index]}]`, `is ${ref} a second time`);
      seen.add(ref);
    }
  }
  if ((section.min_required_hops ?? 0) > (section.max_hops ?? Number.POSITIVE_INFINITY)) {
    errors.push({
      field: 'manifest.min_required_hops',
      message: `must be at most max_hops (${section.max_hops}), but is ${section.min_required_hops}`,
    });
  }
  const orchestrates = isManagedLoop && dependencies.length > 0;
  if (!orchestrates) delete rest.orchestration_mode;
  return {
    ...rest,
    manifest_version: 1,
    dependencies,
    per_call_downstream_cap: section.per_call_downstream_cap ?? 50,
    ...(orchestrates && { orchestration_mode: section.orchestration_mode ?? 'strict' }),
  };
}

/** Checks that tools call the dependencies: the model of a managed loop has no other way to reach them. */
function checkCalls(
  tools: readonly CustomTool[],
  { dependencies, positions }: { readonly dependencies: readonly Dependency[]; readonly positions: readonly number[] },
  isManagedLoop: boolean,
  { errors, warnings }: Found,
): void {
  const calls = tools.flatMap(({ command }, index) =>
    [...command.matchAll(PLATFORM_CALL)].map(([, id, version]) => ({ index, id, version })),
  );
  for (const { index, id, version } of calls) {
    const pinned = dependencies.filter((dependency) => dependency.id === id);
    if (pinned.length === 0) {
      warnings.push(`custom_tools[${index}].command calls ${id}, which is not one of manifest.dependencies.`);
    } else if (version !== undefined && !pinned.some((dependency) => dependency.version === version)) {
      const pins = pinned.map((dependency) => dependency.version).join(', ');
      warnings.push(`custom_tools[${index}].command calls ${id}@${version}, but manifest.dependencies pins ${pins}.`);
    }
  }
  if (!isManagedLoop) return;
  for (const [index, dependency] of dependencies.entries()) {
    if (calls.some((call) => call.id === dependency.id)) continue;
    errors.push({
      field: `manifest.dependencies[${positions[index]}]`,
      message: `must have a custom tool that calls it: one whose command is "python3 /home/user/helpers/platform_call.py ${dependencyRef(dependency)}"`,
    });
  }
}
