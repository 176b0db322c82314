import { randomInt } from 'node:crypto';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { hasCode } from '#core/base/errors.ts';
import type { ToolServerFailure, ToolServerProcess } from '#core/ports/tool-servers.ts';
import { type Link, type LinkOptions, MAX_OPENING_BYTES, MAX_RESULT_BYTES, type Sdk } from './link.ts';
import { BROKEN_ANSWER } from './outbound-fetch.ts';

/** Range of the first id on the wire. Ids are below 2^31, because some servers read no larger ones. */
const [LEAST_ID, GREATEST_ID] = [1_000_000_000, 2_000_000_000];

/** Connects the SDK to a process in a sandbox. Each request is a command of the sandbox that ends with its answer. */
export function stdioLink(sdk: Sdk, server: ToolServerProcess, options: LinkOptions): Link {
  const transport = new StdioTransport(sdk, server, options);
  return {
    transport,
    failure: () => transport.failure,
    broken: () => transport.failure,
    opened() {
      transport.maxBytes = MAX_RESULT_BYTES;
    },
    async end() {},
  };
}

type MessageId = string | number;

class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Maximum size of what the server sends until it has answered a request. */
  maxBytes = MAX_OPENING_BYTES;
  failure: ToolServerFailure | undefined;
  readonly #sdk: Sdk;
  readonly #server: ToolServerProcess;
  readonly #options: LinkOptions;
  /** Ids of requests that have no answer yet, by their ids on the wire. */
  readonly #asked = new Map<number, MessageId>();
  /**
   * A number that an id of the SDK, such as 0, would not be: the bridge finds answers by it, without reading JSON
   * (`core/execution/engines/loop/stdio-bridge.ts`).
   */
  #lastId = randomInt(LEAST_ID, GREATEST_ID);

  constructor(sdk: Sdk, server: ToolServerProcess, options: LinkOptions) {
    this.#sdk = sdk;
    this.#server = server;
    this.#options = options;
  }

  async start(): Promise<void> {}

  async close(): Promise<void> {
    this.#asked.clear();
    this.onclose?.();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { answering } = this.#options;
    if ('method' in message && 'id' in message) {
      const id = ++this.#lastId;
      this.#asked.set(id, message.id);
      void this.#ask(id, { ...message, id });
      return;
    }
    const isAnswer = !('method' in message);
    if (isAnswer) answering(1);
    try {
      const cancelled = isAnswer ? undefined : this.#cancelledBy(message);
      if (cancelled === undefined) return await this.#server.send(JSON.stringify(message));
      this.#asked.delete(cancelled.id);
      await this.#server.cancel(JSON.stringify(cancelled.message), cancelled.id);
    } finally {
      if (isAnswer) answering(-1);
    }
  }

  async #ask(id: number, message: object): Promise<void> {
    let problem: string | undefined;
    try {
      const options = { maxBytes: this.maxBytes, signal: this.#options.ended };
      for await (const line of this.#server.ask(JSON.stringify(message), id, options)) this.#take(line);
      if (!this.#asked.has(id)) return;
      this.failure ??= await this.#server.ending();
      problem = this.failure?.message;
    } catch (error) {
      if (hasCode(error, 'TOOL_SERVER_FAILED')) problem = (error as ToolServerFailure).message;
    }
    const asked = this.#asked.get(id);
    if (asked === undefined) return;
    this.#asked.delete(id);
    const error = { code: BROKEN_ANSWER, message: problem ?? 'its answer ended without the result' };
    this.onmessage?.({ jsonrpc: '2.0', id: asked, error });
  }

  /** A line that is no message counts as one: many servers print a greeting. */
  #take(line: string): void {
    let message: JSONRPCMessage;
    try {
      message = this.#sdk.deserializeMessage(line);
    } catch (error) {
      this.onerror?.(error as Error);
      return;
    }
    if ('method' in message) {
      this.onmessage?.(message);
      return;
    }
    const asked = this.#asked.get(message.id as number);
    this.#asked.delete(message.id as number);
    if (asked === undefined) this.onerror?.(new Error('an answer without a request'));
    else this.onmessage?.({ ...message, id: asked });
  }

  #cancelledBy(message: JSONRPCMessage): { readonly id: number; readonly message: object } | undefined {
    if (!('method' in message) || message.method !== 'notifications/cancelled') return undefined;
    const { requestId } = Object(message.params) as { requestId?: MessageId };
    const [id] = [...this.#asked].find(([, asked]) => asked === requestId) ?? [];
    return id === undefined ? undefined : { id, message: { ...message, params: { ...message.params, requestId: id } } };
  }
}
