import { randomUUID } from 'node:crypto';
import { hasCode } from '#core/base/errors.ts';
import { type Json, parseJsonValue } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { OutboundAnswer } from '#core/ports/outbound.ts';
import {
  type ServerResult,
  type ServerTool,
  type ToolServerAddress,
  ToolServerFailure,
  type ToolServerSession,
} from '#core/ports/tool-servers.ts';
import { agentOf, type RemoteAgent } from './card.ts';
import { type RemoteTask, resultOf, taskIn } from './task.ts';

export type RemoteAgentDeps = Pick<Deps, 'exchanges' | 'clock' | 'config'>;

const MAX_CARD_BYTES = 256 * 1024;
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** Pause between two looks at a task, doubled for each further one. */
const LOOK_MS = { first: 500, max: 5000 };
/** Time for the request that cancels a task of a run that has ended. */
const CANCEL_MS = 5000;

/** The tool as which a loop calls an agent of others (`docs/interface/a2a.md#dependencies`). */
const ASK = 'ask';
const inputSchema = {
  type: 'object',
  properties: {
    text: { type: 'string', description: 'What the agent is told.' },
    data: { type: 'object', description: 'Members of its input, if it asks for these.' },
    context_id: { type: 'string', description: 'The context of an earlier answer, to continue it.' },
    task_id: { type: 'string', description: 'The task that asks something, to answer it.' },
  },
  required: ['text'],
};

/**
 * Opens an agent of others by the address of its card, which is read once and never redirected. Throws
 * {@link ToolServerFailure}, and the signal's reason once it is aborted.
 */
export async function openAgent(
  deps: RemoteAgentDeps,
  { url, headers }: Pick<ToolServerAddress, 'url' | 'headers'>,
  signal: AbortSignal,
): Promise<ToolServerSession> {
  const request = {
    method: 'GET' as const,
    url,
    headers: { ...headers, accept: 'application/json, application/a2a+json' },
  };
  const sent = await exchanged(deps, { ...request, signal }, MAX_CARD_BYTES);
  const agent = agentOf(deps.config, url, sent);
  return new AgentSession(deps, agent, headers);
}

class AgentSession implements ToolServerSession {
  readonly tools: readonly ServerTool[];
  readonly #deps: RemoteAgentDeps;
  readonly #agent: RemoteAgent;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(deps: RemoteAgentDeps, agent: RemoteAgent, headers: Readonly<Record<string, string>>) {
    this.#deps = deps;
    this.#agent = agent;
    this.#headers = headers;
    this.tools = [{ name: ASK, description: `${agent.name}. ${agent.description}`, inputSchema }];
  }

  /** Sends a message, and follows its task until that ends or asks something. Cancels the task if the run ends first. */
  async call(_: ServerTool, input: Readonly<Record<string, Json>>, signal: AbortSignal): Promise<ServerResult> {
    const { clock } = this.#deps;
    const { text, data, context_id: contextId, task_id: taskId } = input;
    const message = {
      messageId: randomUUID(),
      role: 'ROLE_USER',
      parts: [
        ...(typeof text === 'string' && text !== '' ? [{ text }] : []),
        ...(data === undefined ? [] : [{ data }]),
      ],
      ...(typeof contextId === 'string' && { contextId }),
      ...(typeof taskId === 'string' && { taskId }),
    };
    const configuration = { returnImmediately: true };
    let task: RemoteTask | undefined;
    try {
      const sent = await this.#send('SendMessage', { message, configuration }, signal);
      const answer = taskIn(sent);
      if ('message' in answer) return resultOf(answer);
      task = answer.task;
      for (let pause = LOOK_MS.first; !task.isOver; pause = Math.min(2 * pause, LOOK_MS.max)) {
        await clock.sleep(pause, signal);
        const next = taskIn({ task: await this.#send('GetTask', { id: task.id }, signal) });
        if (!('task' in next)) throw new ToolServerFailure('it answered with something else than its task');
        task = next.task;
      }
      return resultOf({ task });
    } catch (error) {
      if (task !== undefined && signal.aborted) await this.#cancel(task.id);
      throw error;
    }
  }

  async close(): Promise<void> {}

  async #cancel(id: string): Promise<void> {
    await this.#send('CancelTask', { id }, AbortSignal.timeout(CANCEL_MS)).catch(() => {});
  }

  async #send(method: keyof typeof PATHS, params: object, signal: AbortSignal): Promise<Json> {
    const { url, binding } = this.#agent;
    const isRpc = binding === 'JSONRPC';
    const { verb, path } = PATHS[method];
    const { id } = params as { readonly id?: string };
    const body = JSON.stringify(
      isRpc ? { jsonrpc: '2.0', id: 1, method, params } : method === 'CancelTask' ? {} : params,
    );
    const address = isRpc ? url : `${url.replace(/\/$/, '')}${path(encodeURIComponent(id ?? ''))}`;
    const sent = {
      method: isRpc ? ('POST' as const) : verb,
      url: address,
      headers: {
        ...this.#headers,
        accept: 'application/json, application/a2a+json',
        'a2a-version': '1.0',
        ...((isRpc || verb === 'POST') && { 'content-type': isRpc ? 'application/json' : 'application/a2a+json' }),
      },
      ...((isRpc || verb === 'POST') && { body }),
      signal,
    };
    const answer = await exchanged(this.#deps, sent, MAX_ANSWER_BYTES);
    if (!isRpc) return answer;
    const { result, error } = (answer ?? {}) as {
      readonly result?: Json;
      readonly error?: { readonly message?: Json };
    };
    if (result === undefined)
      throw new ToolServerFailure(`it refused: ${String(error?.message ?? 'without a reason').slice(0, 500)}`);
    return result;
  }
}

/** Where the methods are in the binding HTTP+JSON (A2A 1.0, section 11). */
const PATHS = {
  SendMessage: { verb: 'POST', path: () => '/message:send' },
  GetTask: { verb: 'GET', path: (id: string) => `/tasks/${id}` },
  CancelTask: { verb: 'POST', path: (id: string) => `/tasks/${id}:cancel` },
} as const;

async function exchanged(
  { exchanges }: RemoteAgentDeps,
  request: Parameters<RemoteAgentDeps['exchanges']['exchange']>[0],
  maxBytes: number,
): Promise<Json> {
  try {
    const answer = await exchanges.exchange(request);
    const { status } = answer;
    if (status >= 300 && status < 400) {
      throw new ToolServerFailure(`it redirects (${status}), which is not followed: name the address where it is`);
    }
    const value = parseJsonValue(await textOf(answer, maxBytes));
    if (status < 200 || status > 299) throw new ToolServerFailure(`it answered ${status}${reasonIn(value)}`);
    if (value === undefined) throw new ToolServerFailure('it answered with something else than JSON');
    return value;
  } catch (error) {
    if (!hasCode(error, 'OUTBOUND_FAILED')) throw error;
    throw new ToolServerFailure((error as Error).message, { isTransient: true });
  }
}

function reasonIn(value: Json | undefined): string {
  const { error } = (value ?? {}) as { readonly error?: { readonly message?: Json } };
  return typeof error?.message === 'string' ? `: ${error.message.slice(0, 500)}` : '';
}

async function textOf({ body }: OutboundAnswer, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new ToolServerFailure(`it answered with more than ${maxBytes / 1024} KB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
