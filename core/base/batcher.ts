/** Does at once what was asked for together. Answers in the order of what is asked. */
type Perform<Asked, Answer> = (asked: readonly Asked[]) => Promise<readonly Answer[]>;

interface Group<Asked, Answer> {
  readonly asked: Asked[];
  readonly answers: Promise<readonly Answer[]>;
  readonly begin: () => void;
}

/**
 * Joins what is asked for at the same moment, that is before the event loop goes on: calls whose last writes were kept together
 * go on together. Who asks alone does not wait.
 */
export class Batcher<Asked, Answer> {
  readonly #maxBatchSize: number;
  readonly #groups = new Map<string, Group<Asked, Answer>>();

  /** @param most of them are done at once. */
  constructor(most: number) {
    this.#maxBatchSize = most;
  }

  /** @param perform For what has the same `key`; throws for all of them. */
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
    // After all promises that are settled by now.
    process.nextTick(group.begin);
    return group;
  }
}
