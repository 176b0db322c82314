const NAMESPACE = 'webhook-chat';
const KEY = 'messages';
/** Number of latest messages to keep: they fit into one document of the smallest plan. */
const MAX_MESSAGES = 200;
const MAX_BYTES = 90_000;

/**
 * @typedef {object} Message
 * @property {string} id Of a webhook: the id that its sender gave it.
 * @property {string} at ISO 8601
 * @property {'person' | 'webhook' | 'bot'} kind
 * @property {string} from
 * @property {string} text
 */

/**
 * The messages, in the platform's storage: they survive restarts, new versions and this machine. Another instance may
 * write, too, such as the one that this instance replaces.
 */
export class Room {
  /** @type {Message[]} */
  messages = [];
  #documents;
  #onMessage;
  /** @type {{ messages: Message[], resolve: () => void, reject: (error: Error) => void }[]} */
  #waiting = [];
  #isWriting = false;
  #reading;

  /**
   * @param {(message: Message) => void} onMessage called with each new message
   * @param {Pick<typeof import('agent-platform-sdk').storage, 'get' | 'update'>} documents
   */
  constructor(onMessage, documents) {
    this.#onMessage = onMessage;
    this.#documents = documents;
  }

  has(id) {
    return this.messages.some((message) => message.id === id);
  }

  /** Reads the stored messages. Concurrent calls share one read. */
  async refresh() {
    this.#reading ??= this.#documents.get(NAMESPACE, KEY).finally(() => {
      this.#reading = undefined;
    });
    this.#show((await this.#reading)?.value.messages ?? []);
  }

  /**
   * Resolves once the messages are stored. Concurrent messages are batched, because each write reads and writes the
   * whole document.
   *
   * @param {Message[]} messages
   * @returns {Promise<void>}
   * @throws {import('agent-platform-sdk').StorageError}
   */
  add(...messages) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ messages, resolve, reject });
      void this.#write();
    });
  }

  async #write() {
    if (this.#isWriting) return;
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0);
      try {
        let kept = [];
        await this.#documents.update(NAMESPACE, KEY, (value) => {
          kept = newest([...(value?.messages ?? []), ...batch.flatMap(({ messages }) => messages)]);
          return { messages: kept };
        });
        this.#show(kept);
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#isWriting = false;
  }

  #show(kept) {
    const unknown = kept.filter(({ id }) => !this.has(id));
    this.messages = kept;
    for (const message of unknown) this.#onMessage(message);
  }
}

/** Removes duplicate IDs, and the oldest messages above the limit. */
function newest(messages) {
  const byId = new Map();
  for (const message of messages) if (!byId.has(message.id)) byId.set(message.id, message);
  const kept = [...byId.values()].slice(-MAX_MESSAGES);
  let bytes = 0;
  const first = kept.findLastIndex((message) => {
    bytes += Buffer.byteLength(JSON.stringify(message)) + 1;
    return bytes > MAX_BYTES;
  });
  return kept.slice(first + 1);
}
