import type { JSONRPCMessage } from '@modelcontextprotocol/client';
import { countText } from '#core/base/size-text.ts';
import { ToolServerFailure } from '#core/ports/tool-servers.ts';

/**
 * Maximum number of unsolicited messages during one response, such as progress notifications. Each costs far more time
 * than its size suggests.
 */
const MAX_MESSAGES = 10_000;
/**
 * Maximum number of requests among them: each response to one needs a separate connection. Some servers ping every five
 * seconds.
 */
const MAX_REQUESTS = 50;

/** Counts the unsolicited messages of a server since the last {@link reset}. */
export class Unasked {
  readonly #stop: (failure: ToolServerFailure) => void;
  #messages = 0;
  #requests = 0;
  #unanswered = 0;
  /** Reason why the server may send no more messages. */
  failure: ToolServerFailure | undefined;

  /** @param stop Called when the server has sent too many messages. */
  constructor(stop: (failure: ToolServerFailure) => void) {
    this.#stop = stop;
  }

  /** Requests whose responses the server has not accepted remain counted, because their connections are still open. */
  reset(): void {
    this.#messages = 0;
    this.#requests = this.#unanswered;
  }

  /**
   * Called for each message, and each event that is not one. Throws after too many, so that the SDK does not see the
   * next one.
   */
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

  /** Called when the number of responses in flight to the server's requests changes. */
  readonly answering = (change: 1 | -1): void => {
    this.#unanswered += change;
  };

  #end(problem: string): void {
    this.failure = new ToolServerFailure(problem);
    this.#stop(this.failure);
  }
}
