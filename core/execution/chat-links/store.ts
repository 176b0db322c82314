import { hashKey } from '#core/accounts/keys/key-format.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, equals, type Item, queryAll } from '#core/ports/table.ts';
import type { ChatLink } from './link.ts';

/*
 * Links to chats. Main table, each with the expiry of the link:
 * - `WS#<workspace id>#CHATLINKS / <link id>`: a link;
 * - `CHATLINK#<hash of a token> / META`: the link that a token opens.
 *
 * The token is in the link alone and is not stored. A revoked link is deleted, so a token that is unknown, revoked or
 * expired costs the same single read.
 */

/** Maximum number of valid links of a workspace. */
export const MAX_LINKS = 50;

type StoreDeps = Pick<Deps, 'main' | 'clock' | 'ids'>;

const listOf = (workspaceId: string): string => `WS#${workspaceId}#CHATLINKS`;
const tokenKey = (hash: string) => ({ pk: `CHATLINK#${hash}`, sk: 'META' });

/** The links of one workspace. */
export class ChatLinkStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /** Lists the valid links, newest first. */
  async list(): Promise<ChatLink[]> {
    const items = await Array.fromAsync(
      queryAll(this.#deps.main, { pk: listOf(this.#workspaceId), limit: 2 * MAX_LINKS }),
    );
    return items.map(linkFrom).sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
  }

  async find(id: string): Promise<ChatLink | undefined> {
    const item = await this.#deps.main.get(this.#key(id));
    return item && linkFrom(item);
  }

  /** Creates a link and returns it with its token. Throws CONFLICT if the workspace has {@link MAX_LINKS} valid links. */
  async create(
    settings: Omit<ChatLink, 'id' | 'workspaceId' | 'createdAt'>,
  ): Promise<{ link: ChatLink; token: string }> {
    const { main, ids, clock } = this.#deps;
    if ((await this.list()).length >= MAX_LINKS) {
      throw new PlatformError('CONFLICT', `The workspace has ${MAX_LINKS} valid chat links: revoke one first.`);
    }
    const token = newToken(ids);
    const hash = hashKey(token);
    const link: ChatLink = {
      ...settings,
      id: ids.uuid(),
      workspaceId: this.#workspaceId,
      createdAt: clock.now(),
    };
    await main.transact([
      { op: 'put', item: this.#item(link, hash, 1), condition: absent() },
      { op: 'put', item: this.#tokenItem(link, hash), condition: absent() },
    ]);
    return { link, token };
  }

  /** Changes a link. Returns `undefined` if the workspace has no valid link with this id. */
  async change(
    id: string,
    changes: Partial<Omit<ChatLink, 'id' | 'workspaceId' | 'createdAt'>>,
  ): Promise<ChatLink | undefined> {
    const { main, clock } = this.#deps;
    const changed = await retryOnConflict(clock, `the chat link ${id}`, async () => {
      const item = await main.get(this.#key(id));
      if (item === undefined) return { link: undefined };
      const { hash, revision } = item as Item & { hash: string; revision: number };
      const link = { ...linkFrom(item), ...changes };
      const { ok } = await main.transact([
        { op: 'put', item: this.#item(link, hash, revision + 1), condition: equals('revision', revision) },
        { op: 'put', item: this.#tokenItem(link, hash) },
      ]);
      return ok ? { link } : undefined;
    });
    return changed.link;
  }

  /** Revokes a link. Returns false if the workspace has no valid link with this id. */
  async revoke(id: string): Promise<boolean> {
    const { main, clock } = this.#deps;
    return retryOnConflict(clock, `the chat link ${id}`, async () => {
      const item = await main.get(this.#key(id));
      if (item === undefined) return false;
      const { ok } = await main.transact([
        { op: 'delete', key: this.#key(id), condition: equals('revision', item.revision as number) },
        { op: 'delete', key: tokenKey(item.hash as string) },
      ]);
      return ok || undefined;
    });
  }

  #key(id: string) {
    return { pk: listOf(this.#workspaceId), sk: id };
  }

  #item(link: ChatLink, hash: string, revision: number): Item {
    return {
      ...this.#key(link.id),
      agent: link.agent,
      version: link.version,
      kind: link.kind,
      title: link.title,
      welcome: link.welcome,
      suggestions: [...link.suggestions] as Json,
      messages_per_day: link.messagesPerDay,
      messages_per_visitor: link.messagesPerVisitor,
      budget_cents: link.budgetCents,
      created_by: link.createdBy,
      created_at: link.createdAt,
      workspace_id: this.#workspaceId,
      hash,
      revision,
      ttl: link.expires,
    };
  }

  #tokenItem({ id, expires }: ChatLink, hash: string): Item {
    return { ...tokenKey(hash), workspace_id: this.#workspaceId, link_id: id, ttl: expires };
  }
}

/** Finds the link that a token opens; `undefined` if it never existed, was revoked, or has expired. */
export async function findLinkOf(deps: StoreDeps, token: string): Promise<ChatLink | undefined> {
  const place = await deps.main.get(tokenKey(hashKey(token)));
  if (place === undefined) return undefined;
  return new ChatLinkStore(deps, place.workspace_id as string).find(place.link_id as string);
}

const linkFrom = (item: Item): ChatLink => ({
  id: item.sk,
  workspaceId: item.workspace_id as string,
  agent: item.agent as string,
  version: item.version as string | null,
  kind: item.kind as ChatLink['kind'],
  title: item.title as string | null,
  welcome: item.welcome as string | null,
  suggestions: item.suggestions as string[],
  messagesPerDay: item.messages_per_day as number,
  messagesPerVisitor: item.messages_per_visitor as number,
  budgetCents: item.budget_cents as number,
  createdBy: item.created_by as string,
  createdAt: item.created_at as number,
  expires: item.ttl!,
});
