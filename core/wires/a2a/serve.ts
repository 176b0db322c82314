import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { hasCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { readJson } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import { rowOf } from '#core/http/route.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type CardDeps, PROTOCOL_VERSION, signedCardOf } from './card.ts';
import { A2aError, httpError, isOfHttp, rpcError } from './errors.ts';
import { type Authenticate, type Following, streamMessage, subscribeToTask } from './follow.ts';
import { createPush, deletePush, getPush, listPushesOf } from './push-configs.ts';
import {
  checked,
  createPushParams,
  listParams,
  listPushParams,
  pushParams,
  sendParams,
  taskParams,
} from './requests.ts';
import { a2aRoutes } from './routes.ts';
import { type A2aRequest, sendMessage } from './send.ts';
import { findServed, type Served } from './served.ts';
import { TaskWriter } from './stream.ts';
import { cancelTask, getTask, listTasks } from './tasks.ts';

type A2aCall = A2aRequest & { readonly headers: { readonly 'a2a-version'?: string | undefined } };

/** Throws VersionNotSupported: a request without the header is one of 0.3. */
function checkVersion({ headers }: A2aCall): void {
  const version = headers['a2a-version'] || '0.3';
  // A number for fixes may follow.
  if (version === PROTOCOL_VERSION || version.startsWith(`${PROTOCOL_VERSION}.`)) return;
  throw new A2aError(
    'VersionNotSupported',
    `This agent speaks A2A ${PROTOCOL_VERSION}, not ${version}: send the header A2A-Version: ${PROTOCOL_VERSION}.`,
  );
}

/** Reads a body. Charges the time of a rejected one to the workspace. */
const readCharged = (deps: Deps, { request, caller }: A2aCall): Promise<Json | undefined> =>
  chargeIfRejected(deps, caller.workspace, () =>
    readJson(request, directLimit(deps.config, deps.config.maxCallBodyBytes)),
  );

/** A request of a caller who may call the agent. */
type ServedCall = A2aCall & { readonly served: Served };

/** Access comes before all else: who has none learns nothing from other errors. Throws NOT_FOUND, FORBIDDEN. */
async function withAgent(deps: Deps, request: A2aCall): Promise<ServedCall> {
  const served = await chargeIfRejected(deps, request.caller.workspace, () => findServed(deps, request));
  return { ...request, served };
}

/** Answers of both bindings: objects, or streams. */
type Answer = { readonly object: object } | { readonly stream: AsyncIterable<Uint8Array> };

const METHODS: {
  readonly [method: string]: (
    deps: Deps & CardDeps,
    request: ServedCall,
    params: unknown,
    following: Following,
  ) => Promise<Answer>;
} = {
  SendMessage: async (deps, request, params) => ({
    object: await sendMessage(deps, request, checked(sendParams, params)),
  }),
  SendStreamingMessage: async (deps, request, params, following) => ({
    stream: await streamMessage(deps, request, checked(sendParams, params), following),
  }),
  GetTask: async (deps, request, params) => ({ object: await getTask(deps, request, checked(taskParams, params).id) }),
  ListTasks: async (deps, request, params) => ({ object: await listTasks(deps, request, checked(listParams, params)) }),
  CancelTask: async (deps, request, params) => ({
    object: await cancelTask(deps, request, checked(taskParams, params).id),
  }),
  SubscribeToTask: async (deps, request, params, following) => ({
    stream: await subscribeToTask(deps, request, checked(taskParams, params).id, following),
  }),
  CreateTaskPushNotificationConfig: async (deps, request, params) => ({
    object: await createPush(deps, request, checked(createPushParams, params)),
  }),
  GetTaskPushNotificationConfig: async (deps, request, params) => ({
    object: await getPush(deps, request, checked(pushParams, params)),
  }),
  ListTaskPushNotificationConfigs: async (deps, request, params) => ({
    object: await listPushesOf(deps, request, checked(listPushParams, params)),
  }),
  DeleteTaskPushNotificationConfig: async (deps, request, params) => ({
    object: await deletePush(deps, request, checked(pushParams, params)),
  }),
  GetExtendedAgentCard: async (deps, { served, params }) => ({
    object: await signedCardOf(deps, served.agent, params),
  }),
};

/** Answers a request of the binding HTTP+JSON. Throws what the method throws: `core/api/app.ts` writes it in the form of A2A. */
export async function answerHttp(
  deps: Deps & CardDeps,
  authenticate: Authenticate,
  given: A2aCall,
  {
    method,
    params,
    hasBody = false,
  }: { readonly method: string; readonly params?: object; readonly hasBody?: boolean },
) {
  const request = await withAgent(deps, given);
  checkVersion(request);
  const body = hasBody ? await readCharged(deps, request) : undefined;
  // The path says which object is meant, whatever the body says.
  const sent = isObject(body) && params !== undefined ? { ...body, ...params } : hasBody ? body : params;
  const writer = new TaskWriter(
    (event) => event,
    (error) => httpError(error, request.requestUuid),
  );
  const row = rowOf(a2aRoutes, 'getA2aTask');
  return written(await METHODS[method]!(deps, request, sent, { writer, authenticate, row }), 'application/a2a+json');
}

/** Answers a request of the binding JSON-RPC 2.0. Throws only what its client must see in the status of HTTP. */
export async function answerRpc(deps: Deps & CardDeps, authenticate: Authenticate, given: A2aCall) {
  const request = await withAgent(deps, given);
  let id: Json = null;
  const { requestUuid } = request;
  try {
    const { id: sent, method, params } = callOf(await readCharged(deps, request).catch(unparsed));
    id = sent;
    checkVersion(request);
    const called = Object.hasOwn(METHODS, method) ? METHODS[method] : undefined;
    if (called === undefined) {
      throw new A2aError('MethodNotFound', `There is no method "${method.slice(0, 64)}" of A2A ${PROTOCOL_VERSION}.`);
    }
    const writer = new TaskWriter(
      (result) => ({ jsonrpc: '2.0', id, result }),
      (error) => ({ jsonrpc: '2.0', id, error: rpcError(error, requestUuid) }),
    );
    const row = rowOf(a2aRoutes, 'callA2a');
    const answer = await called(deps, request, params, { writer, authenticate, row });
    return written(
      'object' in answer ? { object: { jsonrpc: '2.0', id, result: answer.object } } : answer,
      'application/json',
    );
  } catch (error) {
    if (isOfHttp(error)) throw error;
    return written({ object: { jsonrpc: '2.0', id, error: rpcError(error, requestUuid) } }, 'application/json');
  }
}

const isObject = (value: Json | undefined): value is { readonly [member: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Throws ParseError for a body that is no JSON. */
function unparsed(error: unknown): never {
  throw hasCode(error, 'INVALID_INPUT') ? new A2aError('ParseError', (error as Error).message) : error;
}

function callOf(body: Json | undefined): { readonly id: Json; readonly method: string; readonly params: unknown } {
  const { jsonrpc, id = null, method, params } = (body ?? {}) as { readonly [member: string]: Json };
  const isId = id === null || typeof id === 'string' || typeof id === 'number';
  if (Array.isArray(body)) throw new A2aError('InvalidRequest', 'Batches are not supported: send one request.');
  if (jsonrpc !== '2.0' || typeof method !== 'string' || !isId) {
    throw new A2aError(
      'InvalidRequest',
      'The body must be a request of JSON-RPC 2.0, with "jsonrpc", "id" and "method".',
    );
  }
  return { id, method, params };
}

function written(answer: Answer, contentType: 'application/json' | 'application/a2a+json') {
  if ('stream' in answer) {
    return {
      status: 200,
      raw: { contentType: 'text/event-stream', content: answer.stream },
      headers: { 'cache-control': 'no-cache' },
    };
  }
  return { status: 200, raw: { contentType, content: Buffer.from(JSON.stringify(answer.object)) } };
}
