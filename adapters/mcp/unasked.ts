import type { JSONRPCMessage } from '@modelcontextprotocol/client';
import { countText } from '#core/base/size-text.ts';
import { ToolServerFailure } from '#core/ports/tool-servers.ts';

/** Of a server while it answers, such as news of its progress. Each costs far more time than its bytes do. */
const MAX_MESSAGES = 10_000;
/** Of these, requests: each answer to one takes a connection of its own. Some servers ask every five seconds whether we are there. */
const MAX_REQUESTS = 50;

/** Counts what a server sends without being asked, since the last {@link reset}. */
export class Unasked {
  readonly #stop: (failure: ToolServerFailure) => void;
  #messages = 0;
  #requests = 0;
  #unanswered = 0;
  /** Why the server may send no more. */
  failure: ToolServerFailure | undefined;

  /** `stop` is called when the server has sent too much. */
  constructor(stop: (failure: ToolServerFailure) => void) {
    this.#stop = stop;
  }

  /** Requests whose answers the server does not take go on counting, as their connections are still open. */
  reset(): void {
    this.#messages = 0;
    this.#requests = this.#unanswered;
  }

  /** Told of each message, and of each event that is none. Throws when there were too many, so that the SDK does not see a further one. */
  readonly take = (message?: JSONRPCMessage): void => {
    this.#messages++;
    const isOwn = message !== undefined && 'method' in message;
    if (isOwn && 'id' in message) this.#requests++;
    if (this.failure === undefined) {
      if (this.#messages > MAX_MESSAGES)
        this.#end(`it sent more than ${countText(MAX_MESSAGES)} messages in an answer`);
      else if (this.#requests > MAX_REQUESTS) this.#end(`it sent more than ${MAX_REQUESTS} requests in an answer`);
    }
    if (isOwn && this.failure) throw this.failure;
  };

  /** Told how the number of answers to the server's requests that are under way changes. */
  readonly answering = (change: 1 | -1): void => {
    this.#unanswered += change;
  };

  #end(problem: string): void {
    this.failure = new ToolServerFailure(problem);
    this.#stop(this.failure);
  }
}
