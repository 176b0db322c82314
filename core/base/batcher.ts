/** Handles a batch of requests in one step and returns the answers in the order of the requests. */
type Perform<Asked, Answer> = (asked: readonly Asked[]) => Promise<readonly Answer[]>;

interface Group<Asked, Answer> {
  readonly asked: Asked[];
  readonly answers: Promise<readonly Answer[]>;
  readonly begin: () => void;
}

/**
 * Batches requests that arrive in the same tick of the event loop: calls whose last writes were batched continue
 * together. A single request is not delayed.
 */
export class Batcher<Asked, Answer> {
  readonly #maxBatchSize: number;
  readonly #groups = new Map<string, Group<Asked, Answer>>();

  /** @param maxBatchSize Maximum number of requests in a batch. */
  constructor(maxBatchSize: number) {
    this.#maxBatchSize = maxBatchSize;
  }

  /** @param perform Handles all requests with the same `key`; if it throws, all of them fail. */
  async ask(key: string, asked: Asked, perform: Perform<Asked, Answer>): Promise<Answer> {
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = this.#open(key, perform);
      this.#groups.set(key, group);
    }
    const place = group.asked.push(asked) - 1;
    if (group.asked.length === this.#maxBatchSize) group.begin();
    return (await group.answers)[place]!;
  }

  #open(key: string, perform: Perform<Asked, Answer>): Group<Asked, Answer> {
    const asked: Asked[] = [];
    const { promise, resolve } = Promise.withResolvers<readonly Answer[]>();
    const group: Group<Asked, Answer> = {
      asked,
      answers: promise,
      begin: () => {
        if (this.#groups.get(key) !== group) return;
        this.#groups.delete(key);
        resolve(perform(asked));
      },
    };
    // Runs after all promises that are already settled.
    process.nextTick(group.begin);
    return group;
  }
}
