import { createHash } from 'node:crypto';
import { fullNameOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { McpObject } from '#core/ports/mcp-endpoint.ts';

/** A tool in a list of the protocol. */
export interface McpTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: McpObject;
  readonly outputSchema?: McpObject;
  readonly annotations: { readonly readOnlyHint: boolean; readonly [hint: string]: boolean };
}

/** Many clients refuse longer names. */
const MAX_NAME = 64;
const HASH_DIGITS = 6;
const MAX_DESCRIPTION = 1000;
/** A larger schema would take the place of all other tools in the context of a model. */
const MAX_SCHEMA_BYTES = 32 * 1024;

const known = new WeakMap<AgentVersion, McpTool>();

/** Returns the tool of an agent (`docs/interface/mcp.md#tools`). */
export function toolOf(agent: AgentVersion): McpTool {
  const made = known.get(agent) ?? makeTool(agent);
  known.set(agent, made);
  return made;
}

function makeTool(agent: AgentVersion): McpTool {
  const { input_schema: input, output_schema: output } = agent.definition;
  const inputSchema = input === null ? OPEN : (shownSchema(input) ?? OPEN);
  const outputSchema = output === null ? undefined : shownOutput(output);
  return {
    name: toolNameOf(agent),
    title: agent.name,
    description: describe(agent, input !== null && inputSchema === OPEN),
    inputSchema,
    ...(outputSchema && { outputSchema }),
    annotations: { readOnlyHint: false, openWorldHint: true },
  };
}

const OPEN: McpObject = { type: 'object' };

/**
 * `org__agent`. In a longer name the organization is cut and ends in a hash of the whole, so that the agent's name still follows
 * from it: nobody has to look through all agents for it.
 */
export function toolNameOf({ orgSlug, name }: Pick<AgentVersion, 'orgSlug' | 'name'>): string {
  const whole = `${orgSlug}__${name}`;
  if (whole.length <= MAX_NAME) return whole;
  const hash = createHash('sha256').update(fullNameOf({ orgSlug, name })).digest('hex').slice(0, HASH_DIGITS);
  const end = `-${hash}__${name}`;
  return orgSlug.slice(0, MAX_NAME - end.length) + end;
}

/** Splits the name of a tool into that of its organization, which may be cut, and of its agent; `undefined` if it has another form. */
export function agentNamesOf(name: string): { readonly org: string; readonly agent: string } | undefined {
  const [, org, agent] = /^([a-z0-9][a-z0-9-]*)__([a-z0-9][a-z0-9-]*)$/.exec(name) ?? [];
  return org === undefined || agent === undefined ? undefined : { org, agent };
}

function describe({ definition, version }: AgentVersion, isHidden: boolean): string {
  const { description, timeout_seconds: seconds, price_per_call_cents: cents, durable } = definition;
  const facts = [
    versionName(version),
    ...(seconds > 0 && durable === undefined ? [`at most ${seconds} s`] : []),
    ...(cents !== null && cents > 0 ? [`${cents} ¢ a call`] : []),
  ].join(' · ');
  const text = (description ?? '').slice(0, MAX_DESCRIPTION).trim();
  const hidden = isHidden ? ['The schema of its input cannot be shown here; a call with a wrong input says so.'] : [];
  return [...(text === '' ? [] : [text]), ...hidden, facts].join('\n\n');
}

const isObjectSchema = ({ type, ...more }: McpObject): boolean =>
  type === 'object' || (type === undefined && ('properties' in more || 'required' in more));

function shownOutput(schema: McpObject): McpObject | undefined {
  if (isObjectSchema(schema)) return shownSchema(schema);
  // References to the root would point elsewhere.
  return /"\$ref":"#(?!\/(\$defs|definitions)\/)/.test(JSON.stringify(schema))
    ? undefined
    : shownSchema(wrapped(schema));
}

/** A result of the protocol is an object: other outputs are its member `output`. */
const wrapped = ({ $defs, definitions, ...schema }: McpObject): McpObject => ({
  type: 'object',
  properties: { output: schema },
  required: ['output'],
  ...($defs !== undefined && { $defs }),
  ...(definitions !== undefined && { definitions }),
});

/**
 * Returns a schema that no client fails at, whose failure would cost it the whole list; `undefined` if it is none: too large, with
 * references to other documents, names that clash with those of other schemas, or headers that a client would have to send.
 */
function shownSchema({ $schema: _, ...schema }: McpObject): McpObject | undefined {
  const text = JSON.stringify(schema);
  if (text.length > MAX_SCHEMA_BYTES) return undefined;
  if (/"(\$id|id|\$anchor|\$dynamicRef|\$dynamicAnchor|\$recursiveRef|x-mcp-header)":/.test(withoutProperties(schema)))
    return undefined;
  if (/"\$ref":(?!"#)/.test(text)) return undefined;
  return { ...schema, type: 'object' };
}

/** Returns the schema as JSON in which the names of properties are replaced: an agent may well have a property `id`. */
const withoutProperties = (schema: McpObject): string =>
  JSON.stringify(schema, (key, value: unknown) =>
    (key === 'properties' || key === '$defs' || key === 'definitions') && typeof value === 'object' && value !== null
      ? Object.values(value)
      : value,
  );

/** Returns an output as the object that the schema of the tool describes. */
export function structuredOf(agent: AgentVersion, data: unknown): McpObject {
  const { output_schema: output } = agent.definition;
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isObject && (output === null || isObjectSchema(output)) ? (data as McpObject) : { output: data };
}
