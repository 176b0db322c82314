import { publicView } from '#core/agents/views.ts';
import { PlatformError } from '#core/base/errors.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { fileRulesOf } from '#core/manifest/file-rules.ts';
import { fullNameOf, refOf, versionName } from '#core/manifest/references.ts';
import { type AgentVersion, sunsetOf } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { AgentOperation } from '../openapi.ts';
import { fragments } from './fragments.ts';
import { sampleOf } from './sample.ts';
import { componentsOf } from './schema-components.ts';

type JsonObject = Record<string, unknown>;

/** What a stream of a call looks like (`docs/interface/calls.md#streams`). */
const STREAM = `event: progress
data: {"type":"text_delta","text":"Hello"}

event: result
data: {"data":{},"metadata":{"request_id":"req_00000000000000000000000000000001","version":"v1"}}
`;

interface Place {
  /** Public address of the API without a trailing slash; undefined if the host knows none. */
  readonly url: string | undefined;
  /** The version in the paths of the document: `v3`, `latest` or a channel. */
  readonly version: string;
  /** Epoch milliseconds. */
  readonly now: number;
}

/**
 * Returns the OpenAPI 3.1 document of one agent: its endpoints, and the operations that follow a run that nobody waits
 * for. Throws UNPROCESSABLE for an agent that is not called, NOT_FOUND for a retired version.
 */
export function agentDocument(published: AgentVersion, { url, version, now }: Place): JsonObject {
  // The version of a channel answers as long as the channel names it.
  const agent = isChannelName(version) ? { ...published, supersededAt: undefined } : published;
  checkIsCalled(agent, now);
  const { operations, components } = fragments();
  const { definition } = agent;
  const schemas = {
    ...(definition.input_schema && componentsOf(definition.input_schema, 'Input')),
    ...(definition.output_schema && componentsOf(definition.output_schema, 'Output')),
  };
  const endpoints = [...new Set([definition.default_endpoint, 'run'])];
  const taken: readonly string[] = Object.keys(operations);
  const calls = endpoints.map((endpoint) => {
    const operationId = taken.includes(endpoint) ? `call_${endpoint}` : endpoint;
    return [`/${fullNameOf(agent)}/${version}/${endpoint}`, { post: callOf(agent, operations.callAgent, operationId) }];
  });
  const ofRuns = Object.fromEntries(
    (['getRun', 'cancelRun'] satisfies AgentOperation[]).map((name) => [
      name === 'getRun' ? 'get' : 'delete',
      { ...operations[name], tags: ['runs'] },
    ]),
  );
  return {
    openapi: '3.1.0',
    info: {
      title: fullNameOf(agent),
      version: versionName(agent.version),
      ...(definition.description !== '' && { description: definition.description }),
    },
    ...(url !== undefined && { servers: [{ url }] }),
    security: [{ apiKey: [] }],
    paths: { ...Object.fromEntries(calls), '/workspaces/{workspace_id}/runs/{run_id}': ofRuns },
    components: { ...components, schemas: { ...components.schemas, ...schemas } },
    'x-agent': factsOf(agent),
  };
}

function checkIsCalled(agent: AgentVersion, now: number): void {
  if (!engineTraits(agent).isRun) {
    throw new PlatformError('UNPROCESSABLE', `${refOf(agent)} is a skill: it has no endpoints.`, {
      hint: 'Give it to an agent with the header X-Platform-Skills or in its default_skills, and ask for the document of that agent.',
    });
  }
  if (agent.definition.run_mode === 'always_on') {
    throw new PlatformError('UNPROCESSABLE', `${refOf(agent)} is always on and is not started by calls.`, {
      hint: 'Its services have addresses of their own, which answer what their program decides.',
    });
  }
  const sunset = sunsetOf(agent);
  if (sunset !== undefined && sunset < now) {
    throw new PlatformError('NOT_FOUND', `${refOf(agent)} was retired on ${isoTime(sunset)}.`, {
      hint: 'Ask for the document of the version `latest`.',
    });
  }
}

/** The operation of a call as the platform's document has it, with the schemas of this agent. */
function callOf(agent: AgentVersion, fragment: JsonObject, operationId: string): JsonObject {
  const { input_schema, output_schema, description } = agent.definition;
  const call = structuredClone(fragment) as {
    parameters: { in: string }[];
    requestBody: { required: boolean; content: Record<string, JsonObject> };
    responses: Record<string, { content: Record<string, JsonObject> }>;
    [member: string]: unknown;
  };
  const { content } = call.requestBody;
  const input = input_schema === null ? undefined : sampleOf(input_schema);
  content['application/json'] = {
    schema: input_schema === null ? content['application/json']!.schema : { $ref: '#/components/schemas/Input' },
    ...(input !== undefined && { example: input }),
  };
  if (!fileRulesOf(agent.definition).accepts) delete content['multipart/form-data'];
  const answer = call.responses['200']!.content;
  const { schema, example } = answer['application/json'] as { schema: JsonObject; example?: JsonObject };
  const output = output_schema === null ? undefined : sampleOf(output_schema);
  const { properties } = schema as { properties: Record<string, JsonObject> };
  if (output_schema !== null) properties.data = { ...properties.data, $ref: '#/components/schemas/Output' };
  answer['application/json'] = {
    schema,
    ...(example !== undefined && output !== undefined && { example: { ...example, data: output } }),
  };
  answer['text/event-stream'] = { ...answer['text/event-stream'], example: STREAM };
  return {
    ...call,
    operationId,
    summary: `Call ${fullNameOf(agent)}`,
    description: [description, call.description].filter((text) => text !== '').join('\n\n'),
    tags: ['calls'],
    ...(sunsetOf(agent) !== undefined && { deprecated: true }),
    parameters: call.parameters.filter((parameter) => parameter.in !== 'path'),
    requestBody: { required: isNeeded(input_schema), content },
  };
}

/** A call without a body is one with an empty object. */
const isNeeded = (schema: JsonObject | null): boolean => Array.isArray(schema?.required) && schema.required.length > 0;

/** What a caller should know, and OpenAPI has no word for. */
function factsOf(agent: AgentVersion): JsonObject {
  const { id, type, timeout_seconds, price_per_call_cents, required_secrets, accepts_files, accept, max_files } =
    publicView(agent);
  const sunset = sunsetOf(agent);
  return {
    id,
    type,
    timeout_seconds,
    price_per_call_cents,
    required_secrets,
    accepts_files,
    accept,
    max_files,
    ...(sunset !== undefined && { sunset_at: isoTime(sunset) }),
  };
}
