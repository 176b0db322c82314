import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { callingUser } from '#core/base/caller.ts';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import { type Json, parseJsonValue } from '#core/base/json.ts';
import { textOfAnswer } from '#core/execution/calls/answer-text.ts';
import { callerTrace } from '#core/execution/calls/caller-trace.ts';
import type { CallAnswer } from '#core/execution/calls/finish.ts';
import { type Call, givesFilesToModel, type SaidBefore } from '#core/execution/calls/prepare.ts';
import { checkDeprecation } from '#core/execution/calls/target.ts';
import type { CallInput } from '#core/execution/input/call-input.ts';
import { asObject } from '#core/execution/input/members.ts';
import { inputFromText } from '#core/execution/input/text-input.ts';
import { topOfChain } from '#core/execution/sub-calls/lineage.ts';
import { readJson } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import type { Incoming } from '#core/http/route.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { openAiCallRoutes } from './calls/routes.ts';
import { OpenAiError, refuse } from './errors.ts';
import type { Conversation } from './messages.ts';
import { findModel } from './models.ts';
import { settingsFor } from './settings.ts';
import { tenantOf } from './tenant.ts';

export type WireRequest = Pick<
  Incoming<(typeof openAiCallRoutes)[number]>,
  'request' | 'requestUuid' | 'receivedAt' | 'responseHeaders' | 'caller'
>;
export type Body = { readonly [member: string]: Json };

/** Reads the body of a request. Throws INVALID_INPUT, UNSUPPORTED_TYPE, DOCUMENT_TOO_LARGE. */
export async function readBody(deps: Deps, { request }: Pick<WireRequest, 'request'>): Promise<Body> {
  const body = await readJson(request, directLimit(deps.config, deps.config.maxCallBodyBytes));
  return body === undefined ? {} : asObject(body, 'The body');
}

/** What a request of either API asks for. */
export interface Asked {
  readonly body: Body;
  readonly conversation: Conversation;
  /** The member `response_format` or `text.format`, and its name. */
  readonly format: { readonly value: Json | undefined; readonly param: string };
  /** Whether nobody waits for the end of the run. */
  readonly isUnattended?: boolean;
}

/** A call, and how its answer is written. */
export interface WireCall {
  readonly call: Call;
  /** Whether the text is the whole output as JSON. */
  readonly isJson: boolean;
}

/** Charges the time of a rejected request to its workspace. */
export const readCharged = <T>(deps: Deps, { caller }: WireRequest, read: () => Promise<T>): Promise<T> =>
  chargeIfRejected(deps, caller.workspace, read);

/**
 * Finds the agent that a request names as its model, and builds the call. Sets the headers of a deprecated version. Throws
 * NOT_FOUND, FORBIDDEN, INVALID_INPUT.
 */
export async function readWireCall(deps: Deps, incoming: WireRequest, asked: Asked): Promise<WireCall> {
  const { caller, request, responseHeaders, requestUuid: runId, receivedAt } = incoming;
  const { body, conversation, format, isUnattended = false } = asked;
  const { model } = body;
  if (typeof model !== 'string' || model === '') refuse('model', 'must be the name of an agent, as "org/agent".');
  checkTools(body);
  const isNamed = request.headers.has('x-workspace-id');
  const sticking = {
    tenant: tenantOf(request.headers),
    session: request.headers.get('x-platform-session') ?? undefined,
  };
  const { agent, channel, workspace } = await findModel(deps, { caller, isNamed, sticking }, model as string);
  const endpoint = agent.definition.default_endpoint;
  Object.assign(responseHeaders, await checkDeprecation(deps, { agent, channel }, endpoint));
  const input = await inputFor(agent, conversation, body);
  return {
    isJson: isJsonWanted(agent, format),
    call: {
      agent,
      channel,
      endpoint,
      input,
      workspace,
      runId,
      triggerSource: 'api',
      ...callingUser(caller),
      isUnattended,
      receivedAt,
      lineage: topOfChain(agent),
      tenantId: tenantOf(request.headers),
      ...(await historyFor(deps, incoming, { agent, workspace, conversation })),
      ...(await callerTrace(request.headers)),
      skillHeaders: {},
    },
  };
}

/** Maximum text of earlier messages that a run is given, as of a session's. */
const MAX_EARLIER_BYTES = 400 * 1024;

/** Returns the session that the header names, as for any call, or else the earlier messages of the request. */
async function historyFor(
  deps: Deps,
  { request, responseHeaders }: WireRequest,
  { agent, workspace, conversation }: Pick<Call, 'agent' | 'workspace'> & Pick<Asked, 'conversation'>,
): Promise<Pick<Call, 'session' | 'earlier'>> {
  const name = request.headers.get('x-platform-session');
  if (name !== null) {
    // Loaded lazily: few calls belong to a session, and smaller functions start faster.
    const { joinSession } = await import('#core/execution/sessions/join.ts');
    const session = await joinSession(deps, { workspace, agent, tenantId: tenantOf(request.headers), name });
    responseHeaders['x-platform-session'] = session.id;
    return { session };
  }
  const { earlier } = conversation;
  return earlier.length === 0 || takesMessages(agent) ? {} : { earlier: saidBefore(earlier) };
}

function saidBefore(earlier: Conversation['earlier']): SaidBefore {
  let bytes = 0;
  const begin = earlier.findLastIndex(({ text, answer }) => {
    bytes += Buffer.byteLength(text) + Buffer.byteLength(answer);
    return bytes > MAX_EARLIER_BYTES;
  });
  const turns = earlier
    .slice(begin + 1)
    .map(({ text, answer }) => ({ input: { message: text }, text, output: answer }));
  return { turns, leftOut: begin + 1 };
}

/** An agent uses its own tools, here; those of a client, which the client would run, it does not know. */
function checkTools({ tools, tool_choice: choice, functions }: Body): void {
  const given = [tools, functions].find((list) => Array.isArray(list) && list.length > 0);
  if (given === undefined || choice === 'none') return;
  refuse(
    given === tools ? 'tools' : 'functions',
    'an agent has its own tools, which the platform runs; it cannot call those of a client. Leave them out, or send tool_choice "none".',
  );
}

async function inputFor(agent: AgentVersion, conversation: Conversation, body: Body): Promise<CallInput> {
  const settings = settingsFor(agent, body);
  const common = settings && { llmCredentials: { settings } };
  const { files } = conversation;
  if (files.length === 0)
    return { document: documentFor(agent, conversation), uploads: [], isMultipart: false, ...common };
  // Loaded lazily: few messages have files.
  const [{ inputWithFiles }, { forPrompt }] = await Promise.all([
    import('#core/execution/input/multipart-input.ts'),
    import('#core/execution/input/prompt-input.ts'),
  ]);
  const members = conversation.text === '' ? undefined : documentFor(agent, conversation);
  const given = { ...inputWithFiles(files, members), ...common };
  return givesFilesToModel(agent, given) ? forPrompt(given) : given;
}

/**
 * Returns the input that a conversation stands for. Instructions fill the member of this name, else they precede the text.
 * An input
 * that is a list of messages gets all of them. Where no text can be the input, the text is the input as JSON. Throws INVALID_INPUT.
 */
function documentFor(agent: AgentVersion, conversation: Conversation): Body {
  const { text, instructions } = conversation;
  if (takesMessages(agent)) return { messages: chatMessages(conversation) };
  const properties = agent.definition.input_schema?.properties as Body | undefined;
  const hasOwn = instructions !== '' && properties?.instructions !== undefined;
  const whole = instructions === '' || hasOwn ? text : `Instructions of the caller:\n${instructions}\n\n${text}`;
  try {
    return { ...inputFromText(agent, whole), ...(hasOwn && { instructions }) };
  } catch (error) {
    if (!isPlatformError(error)) throw error;
    const value = parseJsonValue(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const { llm_credentials: _, ...document } = value;
      return document;
    }
    throw new OpenAiError(
      'INVALID_INPUT',
      `${error.message.replace(/^body\.text: /, '')} Send a JSON object with these members as the text of the last message.`,
      { param: 'messages' },
    );
  }
}

/** Whether an agent's input is a whole chat, as that of many frameworks is. */
function takesMessages({ definition }: AgentVersion): boolean {
  const { properties, required = [] } = (definition.input_schema ?? {}) as {
    readonly properties?: { readonly messages?: { readonly type?: unknown } };
    readonly required?: readonly string[];
  };
  return properties?.messages?.type === 'array' && required.every((name) => name === 'messages');
}

const chatMessages = ({ instructions, earlier, text }: Conversation): Json[] => [
  ...(instructions === '' ? [] : [{ role: 'system', content: instructions }]),
  ...earlier.flatMap((turn) => [
    { role: 'user', content: turn.text },
    { role: 'assistant', content: turn.answer },
  ]),
  { role: 'user', content: text },
];

/** Throws INVALID_INPUT for a schema that the agent was not published with. */
function isJsonWanted(agent: AgentVersion, { value, param }: Asked['format']): boolean {
  if (value == null) return false;
  const { type } = asObject(value, `"${param}"`);
  if (type === 'text') return false;
  if (type === 'json_object') return true;
  if (type !== 'json_schema') refuse(`${param}.type`, 'must be text, json_object or json_schema.');
  if (agent.definition.output_schema === null) {
    refuse(
      param,
      `${refOf(agent)} answers in text: only its author can give it a schema, with output_schema in its manifest.`,
    );
  }
  return true;
}

/** Returns the text of an answer. */
export const textOf = (data: Json, isJson: boolean): string => (isJson ? JSON.stringify(data) : textOfAnswer(data));

/** Whether the text of the agent's model is the answer, and can be sent as it is written. */
export const isLive = ({ call: { agent }, isJson }: WireCall): boolean =>
  !isJson && agent.definition.output_schema === null;

export const isTruncated = ({ warnings }: Pick<CallAnswer, 'warnings'>): boolean =>
  warnings.some(({ code }) => code === 'TRUNCATED');

/** What a caller gets whose run is not over when its time to wait is. */
export function notOver({ runId, workspace }: Call): PlatformError {
  return new PlatformError(
    'TIMEOUT',
    `The run is not over: see GET /workspaces/${workspace.id}/runs/${runId}. Use /openai/v1/responses with "background": true for runs that take long.`,
    { is_retryable: false },
  );
}
