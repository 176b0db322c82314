import type { Json } from '#core/base/json.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, exists, type Item, type Key, queryAll, type TransactOperation } from '#core/ports/table.ts';
import { LEVELS } from './routes.ts';

/**
 * Main table, written in one transaction:
 *
 * - `WS#<workspace id>#MESSAGES / <message id>`: the message. gsi1 lists it by level, gsi2 by level and agent, both by
 *   time;
 * - `WS#<workspace id>#MESSAGE_COUNTS / ALL` and `AGENT#<agent name>`: the lengths of these lists, by level.
 */
export interface Message {
  readonly id: string;
  readonly agentName: string | null;
  readonly title: string;
  readonly body: string;
  readonly level: Level;
  readonly metadata: { readonly [member: string]: Json } | null;
  readonly createdAt: string;
}

type Level = (typeof LEVELS)[number];
type NewMessage = Omit<Message, 'id' | 'createdAt'>;

/** Stores the messages of one workspace. */
export class MessageStore {
  readonly #deps: Pick<Deps, 'main' | 'clock' | 'ids'>;
  readonly #partition: string;

  constructor(deps: Pick<Deps, 'main' | 'clock' | 'ids'>, workspaceId: string) {
    this.#deps = deps;
    this.#partition = `WS#${workspaceId}`;
  }

  async send(members: NewMessage): Promise<Message> {
    const message = this.#new(this.#deps.ids.uuid(), members);
    await this.#retry(async () => (await this.#put(message)) || undefined);
    return message;
  }

  /** Sends a message with this id, unless it was sent. */
  async ensure(id: string, members: NewMessage): Promise<void> {
    const message = this.#new(id, members);
    await this.#retry(async () => {
      if ((await this.#deps.main.get(this.#key(id))) !== undefined) return true;
      return (await this.#put(message)) || undefined;
    });
  }

  #new(id: string, members: NewMessage): Message {
    return { ...members, id, createdAt: isoTime(this.#deps.clock.now()) };
  }

  #put(message: Message): Promise<boolean> {
    const place = `${message.createdAt}#${this.#deps.ids.ordinal()}#${message.id}`;
    const { level, agentName } = message;
    const item: Item = {
      ...this.#key(message.id),
      ...attributesOf(message),
      gsi1pk: this.#listPartition(level),
      gsi1sk: place,
      ...(agentName !== null && { gsi2pk: this.#listPartition(level, agentName), gsi2sk: place }),
    };
    return this.#write({ op: 'put', item, condition: absent() }, message, 1);
  }

  /** Deletes a message. Returns false if it does not exist. */
  async delete(id: string): Promise<boolean> {
    return this.#retry(async () => {
      const item = await this.#deps.main.get(this.#key(id));
      if (item === undefined) return false;
      const remove: TransactOperation = { op: 'delete', key: this.#key(id), condition: exists() };
      return (await this.#write(remove, fromItem(item), -1)) || undefined;
    });
  }

  /** Returns a page, newest first, and the total of all pages. */
  async list(
    { level, agentName }: { readonly level?: Level; readonly agentName?: string },
    { limit, offset }: { readonly limit: number; readonly offset: number },
  ): Promise<{ messages: Message[]; total: number }> {
    const counts = await this.#deps.main.get(this.#countsKey(agentName));
    const countOf = (level: Level) => (counts?.[level] as number | undefined) ?? 0;
    const levels = LEVELS.filter((each) => each === (level ?? each) && countOf(each) > 0);
    const newest = await Promise.all(levels.map((each) => this.#newest(each, agentName, offset + limit)));
    const inOrder = newest.flat().sort((a, b) => (a.gsi1sk! < b.gsi1sk! ? 1 : -1));
    return {
      messages: inOrder.slice(offset, offset + limit).map(fromItem),
      total: levels.reduce((sum, each) => sum + countOf(each), 0),
    };
  }

  /** Returns the messages since a time (ISO 8601), at most `max` per level. */
  async since(time: string, max: number): Promise<Message[]> {
    const pages = await Promise.all(
      LEVELS.map((level) =>
        this.#deps.main.query({ index: 'gsi1', pk: this.#listPartition(level), sk: { greaterThan: time }, limit: max }),
      ),
    );
    return pages.flatMap(({ items }) => items).map(fromItem);
  }

  async #newest(level: Level, agentName: string | undefined, max: number): Promise<Item[]> {
    const items: Item[] = [];
    const found = queryAll(this.#deps.main, {
      index: agentName === undefined ? 'gsi1' : 'gsi2',
      pk: this.#listPartition(level, agentName),
      reverse: true,
      limit: Math.min(max, 1000),
    });
    for await (const item of found) {
      if (items.push(item) === max) break;
    }
    return items;
  }

  /** Returns false if another process wrote first. */
  async #write(write: TransactOperation, { level, agentName }: Message, amount: 1 | -1): Promise<boolean> {
    const scopes = agentName === null ? [undefined] : [undefined, agentName];
    const counts = scopes.map(
      (scope): TransactOperation => ({
        op: 'update',
        key: this.#countsKey(scope),
        changes: { add: { [level]: amount } },
      }),
    );
    return (await this.#deps.main.transact([write, ...counts])).ok;
  }

  #key(id: string): Key {
    return { pk: `${this.#partition}#MESSAGES`, sk: id };
  }

  #countsKey(agentName: string | undefined): Key {
    return {
      pk: `${this.#partition}#MESSAGE_COUNTS`,
      sk: agentName === undefined ? 'ALL' : `AGENT#${agentName}`,
    };
  }

  #listPartition(level: Level, agentName?: string): string {
    const pk = `${this.#partition}#MESSAGES#${level}`;
    return agentName === undefined ? pk : `${pk}#${agentName}`;
  }

  #retry<T>(attempt: () => Promise<T | undefined>): Promise<T> {
    return retryOnConflict(this.#deps.clock, `the messages of ${this.#partition}`, attempt);
  }
}

const fromItem = (item: Item): Message => ({
  id: item.id as string,
  agentName: item.agent_name as string | null,
  title: item.title as string,
  body: item.body as string,
  level: item.level as Level,
  metadata: item.metadata as Message['metadata'],
  createdAt: item.created_at as string,
});

const attributesOf = ({ agentName, createdAt, metadata, ...message }: Message) => ({
  ...message,
  agent_name: agentName,
  created_at: createdAt,
  metadata: metadata as Json,
});
