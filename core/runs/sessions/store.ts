import { createHash } from 'node:crypto';
import { PlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge, putIfLarge } from '#core/ports/large-value.ts';
import { absent, allOf, exists, type Item, queryAll } from '#core/ports/table.ts';
import {
  contentText,
  daysMs,
  isSession,
  itemOf,
  MAX_TURNS,
  nameKey,
  sessionFrom,
  sessionKey,
  sessionPartition,
  touched,
  turnBlobKey,
  turnFrom,
  turnKey,
  turnSk,
} from './items.ts';
import type { Session, Turn, TurnContent } from './session.ts';

/** A session, as one query reads it. */
export interface FoundSession {
  readonly session: Session;
  /** The newest turns, the newest first: as many as were asked for. */
  readonly newest: readonly Turn[];
  /** When its item was last changed by a message, in epoch milliseconds. */
  readonly touchedAt: number;
  /** Bytes that are counted for it (`space.ts`). */
  readonly counted: number;
}

type StoreDeps = Pick<Deps, 'runs' | 'blobs' | 'clock'>;

const DAY_MS = daysMs(1);
/** Turns of a page while many are read. */
const READ_AT_ONCE = 200;

/** The sessions of one workspace. `items.ts` documents their storage. */
export class SessionStore {
  readonly #deps: StoreDeps;
  readonly #workspaceId: string;

  constructor(deps: StoreDeps, workspaceId: string) {
    this.#deps = deps;
    this.#workspaceId = workspaceId;
  }

  /**
   * Opens a session. Returns the id of the one that has its external id already, for this agent and tenant, and whether the
   * session is new.
   */
  async open(session: Session): Promise<{ readonly id: string; readonly isNew: boolean }> {
    const { runs } = this.#deps;
    const item = itemOf(session);
    if (session.externalId === undefined) {
      await runs.put(item, absent());
      return { id: session.id, isNew: true };
    }
    const key = nameKey(this.#workspaceId, nameHash(session, session.externalId));
    for (;;) {
      const old = (await runs.get(key))?.session as string | undefined;
      if (old !== undefined && (await this.find(old, 1)) !== undefined) return { id: old, isNew: false };
      // Nobody has the name, or the session that had it has expired or was deleted.
      const { ok } = await runs.transact([
        {
          op: 'put',
          item: { ...key, session: session.id },
          condition: old === undefined ? absent() : { op: 'equals', attribute: 'session', value: old },
        },
        { op: 'put', item, condition: absent() },
      ]);
      if (ok) return { id: session.id, isNew: true };
    }
  }

  /** Returns the id of the session with this external id; `undefined` if there is none, or if it has expired. */
  async findNamed(
    owner: Pick<Session, 'agentWorkspaceId' | 'agentName' | 'tenantId'>,
    externalId: string,
  ): Promise<string | undefined> {
    const named = await this.#deps.runs.get(nameKey(this.#workspaceId, nameHash(owner, externalId)));
    if (named === undefined) return undefined;
    const id = named.session as string;
    return (await this.find(id, 1)) && id;
  }

  /**
   * Finds a session with the newest `turns` of it. Returns `undefined` for one that does not exist, was deleted, or has
   * expired.
   */
  async find(id: string, turns: number): Promise<FoundSession | undefined> {
    const pk = sessionPartition(this.#workspaceId, id);
    const { items } = await this.#deps.runs.query({ pk, reverse: true, limit: turns + 1 });
    const found = this.read(items);
    return found && !this.isExpired(found) ? found : undefined;
  }

  /** Reads a session without its turns, which is cheaper. It may have expired. */
  async findAlone(id: string): Promise<Session | undefined> {
    const item = await this.#deps.runs.get(this.#key(id));
    return item === undefined || item.erased === true ? undefined : sessionFrom(this.#workspaceId, item);
  }

  /** Reads a session from its item and its newest turns. Returns `undefined` if it was deleted. */
  read([item, ...turns]: readonly Item[]): FoundSession | undefined {
    if (item === undefined || !isSession(item) || item.erased === true) return undefined;
    return {
      session: sessionFrom(this.#workspaceId, item),
      newest: turns.filter(({ erased }) => erased !== true).map(turnFrom),
      touchedAt: item.touched_at as number,
      counted: (item.counted as number | undefined) ?? 0,
    };
  }

  /** Whether the time of a session is over. It may still be stored then. */
  isExpired(found: Pick<FoundSession, 'session' | 'newest'>): boolean {
    return expiresAt(found) <= this.#deps.clock.now();
  }

  /** Notes a message, so that the session is not taken for an old one. Writes once a day at most. */
  async touch({ session, touchedAt }: FoundSession): Promise<void> {
    const now = this.#deps.clock.now();
    if (now - touchedAt < DAY_MS) return;
    await this.#deps.runs.update(this.#key(session.id), { set: touched(session.id, session, now) }, IS_KEPT);
  }

  /** Changes what callers may change. Returns false if the session was deleted. */
  async change(
    id: string,
    { title, metadata }: { readonly title?: string | null | undefined; readonly metadata?: Session['metadata'] },
  ): Promise<boolean> {
    const { ok } = await this.#deps.runs.update(
      this.#key(id),
      {
        set: { ...(typeof title === 'string' && { title }), ...(metadata && { metadata: { ...metadata } }) },
        ...(title === null && { remove: ['title'] }),
      },
      IS_KEPT,
    );
    return ok;
  }

  /** Returns turns by number: from `after`, in this direction, at most `limit`. */
  async turns(
    id: string,
    { after, limit, reverse }: { readonly after: number; readonly limit: number; readonly reverse: boolean },
  ): Promise<Turn[]> {
    const [from, to] = reverse ? [1, after - 1] : [after + 1, MAX_TURNS];
    if (from > to) return [];
    const { items } = await this.#deps.runs.query({
      pk: sessionPartition(this.#workspaceId, id),
      sk: { between: [turnSk(from), turnSk(to)] },
      reverse,
      limit,
    });
    return items.filter(({ erased }) => erased !== true).map(turnFrom);
  }

  /** Yields all turns up to `last`, the newest first. */
  async *newestFirst(id: string, last: number): AsyncGenerator<Turn> {
    if (last < 1) return;
    const query = {
      pk: sessionPartition(this.#workspaceId, id),
      sk: { between: [turnSk(1), turnSk(last)] as const },
      reverse: true,
      limit: READ_AT_ONCE,
    };
    for await (const item of queryAll(this.#deps.runs, query)) if (item.erased !== true) yield turnFrom(item);
  }

  async turn(id: string, number: number): Promise<Turn | undefined> {
    const item = await this.#deps.runs.get(turnKey(this.#workspaceId, id, number));
    return item === undefined || item.erased === true ? undefined : turnFrom(item);
  }

  /** Corrects what was known of the turns before, for a turn that began while others were under way. */
  async noteBefore(id: string, { number, runId }: Pick<Turn, 'number' | 'runId'>, before: Turn): Promise<void> {
    const set = { bytes: before.bytes, said: before.said };
    await this.#deps.runs.update(
      turnKey(this.#workspaceId, id, number),
      { set },
      allOf({ op: 'equals', attribute: 'run_id', value: runId }, absent('status')),
    );
  }

  /** Reads what was said in a turn that has ended. Returns `undefined` if it is damaged or lost. */
  async content(id: string, turn: Pick<Turn, 'number' | 'content'>): Promise<TurnContent | undefined> {
    if (turn.content !== undefined) return turn.content;
    const text = await getLarge(this.#deps, turnBlobKey(this.#workspaceId, id, turn.number));
    return text === undefined ? undefined : contentFrom(text);
  }

  /** Copies turns that have ended to another session. */
  async copyTurns(from: string, to: string, turns: readonly Turn[]): Promise<void> {
    await Promise.all(turns.map((turn) => this.#copyTurn(from, to, turn)));
  }

  async #copyTurn(from: string, to: string, turn: Turn): Promise<void> {
    const item = await this.#deps.runs.get(turnKey(this.#workspaceId, from, turn.number));
    const content = await this.content(from, turn);
    if (item === undefined || item.erased === true || content === undefined) throw damaged(from, turn.number);
    if (turn.content === undefined) {
      await putIfLarge(this.#deps, turnBlobKey(this.#workspaceId, to, turn.number), contentText(content), 0);
    }
    await this.#deps.runs.put({ ...item, ...turnKey(this.#workspaceId, to, turn.number), copied: true });
  }

  #key(id: string) {
    return sessionKey(this.#workspaceId, id);
  }
}

const IS_KEPT = allOf(exists(), absent('erased'));

/** When the time of a session is over, in epoch milliseconds. */
export const expiresAt = ({ session, newest }: Pick<FoundSession, 'session' | 'newest'>): number =>
  lastMessageAt({ session, newest }) + daysMs(session.ttlDays);

const lastMessageAt = ({ session, newest }: Pick<FoundSession, 'session' | 'newest'>): number =>
  Math.max(session.createdAt, newest[0]?.end?.at ?? newest[0]?.createdAt ?? 0);

/** External ids are unique for an agent and a tenant. */
export const nameHash = (
  { agentWorkspaceId, agentName, tenantId }: Pick<Session, 'agentWorkspaceId' | 'agentName' | 'tenantId'>,
  externalId: string,
): string =>
  createHash('sha256')
    .update(JSON.stringify([agentWorkspaceId, agentName, tenantId ?? null, externalId]))
    .digest('hex');

function contentFrom(text: string): TurnContent | undefined {
  try {
    const content = JSON.parse(text) as TurnContent;
    return typeof content === 'object' && content !== null && 'output' in content ? content : undefined;
  } catch {
    return undefined;
  }
}

export const damaged = (id: string, number: number): PlatformError =>
  new PlatformError(
    'INTERNAL_ERROR',
    `Message ${number} of the session ${id} is damaged: what was said in it cannot be read.`,
    {
      is_retryable: false,
      hint: `The other messages can be read. To continue without it, fork the session after message ${number - 1}.`,
    },
  );

/** The same answer for sessions that do not exist, have expired, were deleted, or belong to another tenant. */
export const noSession = (name: string): PlatformError =>
  new PlatformError(
    'NOT_FOUND',
    `There is no session "${name.slice(0, 128)}" here: it does not exist, was deleted, has expired, or belongs to another tenant.`,
    { hint: 'Send the tenant with which the session was opened in X-Platform-Tenant, or open a new session.' },
  );
