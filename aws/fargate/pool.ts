import type { Clock } from '#core/ports/clock.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Ids } from '#core/ports/ids.ts';
import { absent, allOf, equals, type Item, queryAll, type Table } from '#core/ports/table.ts';

/**
 * What is known of the sandboxes' tasks. Counters table, all under one partition, which one query reads:
 * - `SANDBOXES / SLOT#<number>`: one task, from before it is started until it is known to be gone. As many slots as there
 *   may be tasks: two keepers that want to start one at the same moment start no more than that.
 * - `SANDBOXES / WAIT#<claim>`: a call that waits for a task. It expires when the call no longer asks.
 * - `SANDBOXES / MINUTE#<epoch minute>`: how many sandboxes were asked for in that minute.
 */
const PARTITION = 'SANDBOXES';
const slotKey = (number: number) => ({ pk: PARTITION, sk: `SLOT#${String(number).padStart(4, '0')}` });
const waitKey = (claim: string) => ({ pk: PARTITION, sk: `WAIT#${claim}` });

const MINUTE_MS = 60_000;
/** How long the demand of a minute is remembered. */
export const DEMAND_MINUTES = 5;
/** A call that has not asked again for so long has gone. */
const WAIT_SECONDS = 6;
const MAX_ATTEMPTS = 5;

/** `starting`: asked for, not yet there. `ended`: it was used or is of no use, and its task is not known to be gone yet. */
export type SlotState = 'starting' | 'idle' | 'claimed' | 'ended';

export interface Slot {
  readonly number: number;
  /** Of this use of the slot, 24 hex digits: the task's client token, and part of what it was started by. */
  readonly id: string;
  readonly state: SlotState;
  /** Epoch milliseconds at which the slot was taken. */
  readonly createdAt: number;
  readonly taskDefinition: string;
  /** Once the task is known. */
  readonly taskArn?: string;
  /** Its private address, once it runs. */
  readonly address?: string;
  /** Who uses it: a random id, known to nobody else. */
  readonly claim?: string;
  /** The workspace whose call it is; absent for those that take no turn. */
  readonly owner?: string;
  /** Epoch milliseconds after which nobody has a use for a claimed one. */
  readonly until?: number;
}

export interface Claim {
  /** Names it, and is asked for again with the same id while it waits. */
  readonly id: string;
  /** Takes turns with the other owners; one without is served first: it may be what another one waits for. */
  readonly owner?: string;
  /** Epoch milliseconds at which whoever has the task has no more use for it. */
  readonly until: number;
  /** Epoch milliseconds after which the call does not wait. */
  readonly patience: number;
  /** Epoch milliseconds at which it was asked for first: its place in the row, also when its wait was forgotten. */
  readonly since: number;
  /** Whether it was asked for before, and so counted. @default false */
  readonly isRepeated?: boolean;
}

/** A task of the caller's own, or when there may be one. */
export type ClaimAnswer = { readonly slot: Slot } | { readonly readyInMs: number };

interface Wait {
  readonly claim: string;
  readonly owner?: string;
  readonly since: number;
}

interface Snapshot {
  readonly slots: readonly Slot[];
  readonly waits: readonly Wait[];
  /** Sandboxes that were asked for in the busiest of the last {@link DEMAND_MINUTES} minutes. */
  readonly demand: number;
}

export interface PoolLimits {
  /** Tasks at once, whatever they do. */
  readonly most: number;
  /** How long a task takes from RunTask until it answers. */
  readonly startMs: number;
}

export interface PoolDeps {
  readonly counters: Table;
  readonly clock: Clock;
  readonly ids: Ids;
}

/** The records of the warm pool: who may write which of them is said at each method. All are safe to repeat. */
export class SandboxPool {
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #ids: Ids;
  readonly #limits: PoolLimits;

  constructor({ counters, clock, ids }: PoolDeps, limits: PoolLimits) {
    this.#table = counters;
    this.#clock = clock;
    this.#ids = ids;
    this.#limits = limits;
  }

  async read(): Promise<Snapshot> {
    const slots: Slot[] = [];
    const waits: Wait[] = [];
    let demand = 0;
    const oldest = minuteOf(this.#clock.now()) - DEMAND_MINUTES;
    for await (const item of queryAll(this.#table, { pk: PARTITION, limit: 1000 })) {
      const [kind, name] = item.sk.split('#') as [string, string];
      if (kind === 'SLOT') slots.push(slotOf(item));
      else if (kind === 'WAIT') waits.push({ claim: name, owner: item.owner as string, since: item.since as number });
      else if (Number(name) >= oldest) demand = Math.max(demand, item.claims as number);
    }
    return { slots, waits, demand };
  }

  /**
   * Claims an idle task for one call, or says how long one may take and notes that the call waits, unless that is longer
   * than it would. Whoever has the fewest tasks comes first; a quarter of the tasks is kept for those that take no turn.
   */
  async claim(claim: Claim): Promise<ClaimAnswer> {
    let snapshot = await this.read();
    const mine = snapshot.slots.find((slot) => slot.claim === claim.id);
    if (mine !== undefined) return { slot: mine };
    const known = snapshot.waits.find((wait) => wait.claim === claim.id);
    const counted = claim.isRepeated ? undefined : this.#count();
    const me: Wait = { claim: claim.id, owner: claim.owner, since: claim.since };
    try {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if (attempt > 0) snapshot = await this.read();
        const { idle, position, spare } = this.#turn(snapshot, me);
        if (position < 0 || position >= idle.length) break;
        // Those that came in the same moment do not all reach for the same one.
        const choice = position + (spare > 0 ? this.#ids.randomBytes(1)[0]! % (spare + 1) : 0);
        const slot = await this.#take(idle[choice]!, claim);
        if (slot === undefined) continue;
        if (known) await this.#table.delete(waitKey(claim.id));
        return { slot };
      }
      const now = this.#clock.now();
      const readyInMs = this.#readyIn(snapshot, me);
      if (now + readyInMs <= claim.patience) {
        const ttl = epochSeconds(now) + WAIT_SECONDS;
        await this.#table.put({ ...waitKey(claim.id), owner: me.owner, since: me.since, ttl });
      } else if (known) await this.#table.delete(waitKey(claim.id));
      return { readyInMs };
    } finally {
      await counted;
    }
  }

  /** The task was used, or has turned out to be of no use: nobody else gets it. */
  async end({ number, id }: Pick<Slot, 'number' | 'id'>): Promise<void> {
    await this.#table.update(
      slotKey(number),
      { set: { state: 'ended' }, remove: ['claim', 'owner', 'until'] },
      equals('id', id),
    );
  }

  /** Takes a free slot for a task that is about to be started; `undefined` when another was faster. Keeper. */
  async reserve(number: number, taskDefinition: string): Promise<Slot | undefined> {
    const slot = {
      id: Buffer.from(this.#ids.randomBytes(12)).toString('hex'),
      state: 'starting',
      createdAt: this.#clock.now(),
      taskDefinition,
    } as const;
    const { ok } = await this.#table.put({ ...slotKey(number), ...slot }, absent());
    return ok ? { number, ...slot } : undefined;
  }

  /** Numbers of slots that no task has. */
  free({ slots }: Pick<Snapshot, 'slots'>): number[] {
    const taken = new Set(slots.map(({ number }) => number));
    return [...Array(this.#limits.most).keys()].filter((number) => !taken.has(number));
  }

  /** The task that was started has this name. Keeper. */
  async started({ number, id }: Pick<Slot, 'number' | 'id'>, taskArn: string): Promise<void> {
    await this.#table.update(slotKey(number), { set: { taskArn } }, equals('id', id));
  }

  /** The task runs, at this address. Changes nothing unless the slot still waits for it. Keeper. */
  async ready({ number, id }: Pick<Slot, 'number' | 'id'>, taskArn: string, address: string): Promise<boolean> {
    const { ok } = await this.#table.update(
      slotKey(number),
      { set: { taskArn, address, state: 'idle' } },
      allOf(equals('id', id), equals('state', 'starting')),
    );
    return ok;
  }

  /** Takes an idle task out of the pool. False when a call was faster. Keeper. */
  async retire({ number, id }: Pick<Slot, 'number' | 'id'>): Promise<boolean> {
    const { ok } = await this.#table.update(
      slotKey(number),
      { set: { state: 'ended' } },
      allOf(equals('id', id), equals('state', 'idle')),
    );
    return ok;
  }

  /** The task is gone, or was never started: its slot is free. Keeper. */
  async release({ number, id }: Pick<Slot, 'number' | 'id'>): Promise<void> {
    await this.#table.delete(slotKey(number), equals('id', id));
  }

  async #count(): Promise<void> {
    const minute = minuteOf(this.#clock.now());
    await this.#table.update(
      { pk: PARTITION, sk: `MINUTE#${minute}` },
      { add: { claims: 1 }, set: { ttl: (minute + DEMAND_MINUTES + 1) * 60 } },
    );
  }

  async #take({ number, id }: Slot, { id: claim, owner, until }: Claim): Promise<Slot | undefined> {
    const written = await this.#table.update(
      slotKey(number),
      { set: { state: 'claimed', claim, owner, until } },
      allOf(equals('id', id), equals('state', 'idle')),
    );
    const item = written.ok ? written.item : await this.#table.get(slotKey(number));
    // A write whose answer was lost is sent again, and then fails for its own success.
    return item?.claim === claim ? slotOf(item) : undefined;
  }

  /** Where a call stands in the row of those that wait; a negative position when it may have no further task now. */
  #turn({ slots, waits }: Snapshot, me: Wait): { idle: Slot[]; position: number; spare: number } {
    const idle = slots.filter(({ state }) => state === 'idle').sort((a, b) => a.createdAt - b.createdAt);
    const row = this.#row(slots, waits, me);
    return { idle, position: row.findIndex(({ claim }) => claim === me.claim), spare: idle.length - row.length };
  }

  #row(slots: readonly Slot[], waits: readonly Wait[], me: Wait): Wait[] {
    const claimed = slots.filter(({ state, owner }) => state === 'claimed' && owner !== undefined);
    const open = new Map<string, number>();
    for (const { owner } of claimed) open.set(owner!, (open.get(owner!) ?? 0) + 1);
    const all = [...waits.filter(({ claim }) => claim !== me.claim), me].sort(
      (a, b) => a.since - b.since || (a.claim < b.claim ? -1 : 1),
    );
    const turns: { wait: Wait; rank: number }[] = [];
    for (const wait of all) {
      if (wait.owner === undefined) {
        turns.push({ wait, rank: -1 });
        continue;
      }
      const rank = open.get(wait.owner) ?? 0;
      open.set(wait.owner, rank + 1);
      turns.push({ wait, rank });
    }
    turns.sort((a, b) => a.rank - b.rank);
    let room = Math.max(1, Math.floor((this.#limits.most * 3) / 4)) - claimed.length;
    return turns.filter(({ rank }) => rank < 0 || room-- > 0).map(({ wait }) => wait);
  }

  #readyIn(snapshot: Snapshot, me: Wait): number {
    const { idle, position } = this.#turn(snapshot, me);
    const starting = snapshot.slots
      .filter(({ state }) => state === 'starting')
      .sort((a, b) => a.createdAt - b.createdAt);
    const mine = position < 0 ? undefined : starting[position - idle.length];
    const { startMs } = this.#limits;
    return mine === undefined ? startMs : Math.max(0, mine.createdAt + startMs - this.#clock.now());
  }
}

const minuteOf = (epochMs: number): number => Math.floor(epochMs / MINUTE_MS);

function slotOf({ pk: _, sk, ...item }: Item): Slot {
  return { number: Number(sk.slice('SLOT#'.length)), ...item } as unknown as Slot;
}
