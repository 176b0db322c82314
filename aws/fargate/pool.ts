import { hash } from 'node:crypto';
import { nextInQueue } from '#core/execution/fair-queue.ts';
import type { Clock } from '#core/ports/clock.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import { type Ids, randomHex } from '#core/ports/ids.ts';
import { absent, allOf, equals, type Item, queryAll, type Table } from '#core/ports/table.ts';

/**
 * Records of the sandbox tasks. The slots are divided into parts of at most {@link PART_SLOTS}, each with a queue and a
 * demand of its own, so that the work of a claim does not grow with the pool, and no partition is busier than the tasks of
 * one part make it. Counters table, `SANDBOXES#<part>`, which one query reads:
 * - `SLOT#<number>`: one task, from before its start until it is known to have ended. The number of slots
 * is the maximum number of tasks, so two keepers that start tasks concurrently stay within it together.
 * - `WAIT#<claim>`: a call that waits for a task. It expires when the call stops polling.
 * - `MINUTE#<epoch minute>`: number of sandboxes requested in that minute: `claims`, and the
 * `interruptible` ones among them.
 * - `NOSPOT#`: exists, until it expires, while AWS has no spot capacity.
 */
const partitionOf = (part: number): string => `SANDBOXES#${part}`;
const partOf = (number: number): number => Math.floor(number / PART_SLOTS);
const slotKey = (number: number) => ({
  pk: partitionOf(partOf(number)),
  sk: `SLOT#${String(number).padStart(4, '0')}`,
});

/**
 * A claim reads its part: about 9 read units. Tasks whose runs last a second make a hundred claims a second, each of which
 * reads two parts, of the 3,000 units that a partition has.
 */
const PART_SLOTS = 100;

const MINUTE_MS = 60_000;
/** Number of past minutes whose demand counts. */
export const DEMAND_MINUTES = 5;
/**
 * Poll interval of waiting calls: a second for the next ones of each owner, longer the more calls of the same owner are
 * ahead.
 */
const ASK_MS = { first: 1000, last: 5000 };
/** A waiting call that has not polled for this long has left. */
const WAIT_SECONDS = 10;
const MAX_ATTEMPTS = 5;
/** Backoff after AWS had no spot capacity. */
const NO_SPOT_SECONDS = 300;

/** A warm task this close to its end is not claimed: it may have ended. */
const WARM_MARGIN_MS = 2000;

/**
 * `starting`: requested, not yet running. `warm`: used, and available to claims with its key. `ended`: used or useless,
 * although its task may still exist.
 */
export type SlotState = 'starting' | 'idle' | 'claimed' | 'warm' | 'ended';

export interface Slot {
  readonly number: number;
  /** Id of this use of the slot, 24 hex digits: the task's client token, and part of its `startedBy`. */
  readonly id: string;
  readonly state: SlotState;
  /** Epoch milliseconds at which the slot was reserved. */
  readonly createdAt: number;
  readonly taskDefinition: string;
  /** Whether it serves interruptible claims: on spot capacity if AWS had some. */
  readonly isInterruptible?: boolean;
  /** Present once the task is known. */
  readonly taskArn?: string;
  /** Private address of the running task. */
  readonly address?: string;
  /** Random id of the call that uses it, known only to that call. */
  readonly claim?: string;
  /** The call's workspace; absent for work that bypasses the queue. */
  readonly owner?: string;
  readonly isInstall?: boolean;
  /** Reuse key, set by its first claim: only claims with the same key get the task again. */
  readonly key?: string;
  /** Epoch milliseconds at which a claim on the task expires, or a warm task ends by itself. */
  readonly until?: number;
}

/** One use of a slot's task. Late events about it do not affect the next use. */
export type SlotUse = Pick<Slot, 'number' | 'id' | 'claim' | 'key'>;

export interface Claim {
  /** Claim id. A waiting call polls with the same id. */
  readonly id: string;
  /** Workspace whose queue the call joins; absent for work that bypasses the queue. */
  readonly owner?: string;
  readonly isInstall?: boolean;
  /** Claims with the same key may use one task in succession. @default - the task is used once */
  readonly key?: string;
  /** Whether it prefers an interruptible task, as long as it can wait. @default false */
  readonly isInterruptible?: boolean;
  /** Epoch milliseconds after which the call does not use the task. */
  readonly until: number;
  /** Epoch milliseconds at which the call stops waiting. */
  readonly patience: number;
  /**
   * Epoch milliseconds of the first request. Keeps the call's position in the queue even if its wait record expired.
   */
  readonly since: number;
  /** Whether the call has asked before, and so is already counted. @default false */
  readonly isRepeated?: boolean;
}

/**
 * A task for this call alone, or when to expect one and when to poll again. `wasWarm`: the task was used before. `part`:
 * number of the part in which the call waits, in a pool of several.
 */
export type ClaimAnswer =
  | { readonly slot: Slot; readonly wasWarm?: boolean }
  | { readonly readyInMs: number; readonly askInMs: number; readonly part?: number };

interface Wait {
  readonly claim: string;
  readonly owner?: string;
  readonly isInstall?: boolean;
  readonly isInterruptible?: boolean;
  readonly since: number;
}

/** Number of sandboxes requested in the busiest of the last {@link DEMAND_MINUTES} minutes, by capacity type. */
interface Demand {
  readonly lasting: number;
  readonly interruptible: number;
}

export interface Snapshot {
  readonly slots: readonly Slot[];
  readonly waits: readonly Wait[];
  readonly demand: Demand;
  /** Whether AWS recently had no spot capacity. */
  readonly lacksSpot: boolean;
}

export interface PoolLimits {
  /** Maximum number of tasks, in any state. */
  readonly max: number;
  /** Time from RunTask until the task responds. */
  readonly startMs: number;
}

export interface PoolDeps {
  readonly counters: Table;
  readonly clock: Clock;
  readonly ids: Ids;
}

/**
 * Records of the pool. Only the keeper calls methods marked with "Keeper". Every method is idempotent.
 *
 * A claim has two parts: the first by its reuse key, so that it finds its warm tasks, the second by chance. It takes a task
 * of either, and waits in the one with less work for its slots, where the keeper starts a task for it.
 */
export class SandboxPool {
  readonly #deps: PoolDeps;
  readonly #limits: PoolLimits;
  readonly parts: readonly PoolPart[];

  constructor(deps: PoolDeps, limits: PoolLimits) {
    this.#deps = deps;
    this.#limits = limits;
    const count = Math.ceil(limits.max / PART_SLOTS);
    this.parts = Array.from({ length: count }, (_, part) => this.#part(part, shareOf(limits.max, part, count)));
  }

  /** Reads all parts. */
  async read(): Promise<Snapshot> {
    const all = await Promise.all(this.parts.map((part) => part.read()));
    return {
      slots: all.flatMap(({ slots }) => slots),
      waits: all.flatMap(({ waits }) => waits),
      demand: {
        lasting: all.reduce((sum, { demand }) => sum + demand.lasting, 0),
        interruptible: all.reduce((sum, { demand }) => sum + demand.interruptible, 0),
      },
      lacksSpot: all.some(({ lacksSpot }) => lacksSpot),
    };
  }

  /** Returns the numbers of free slots. */
  free(snapshot: Pick<Snapshot, 'slots'>): number[] {
    return this.parts.flatMap((part) => part.free(snapshot));
  }

  /** Claims a task for one call, as {@link PoolPart.claim} does in each of the claim's parts. */
  async claim(claim: Claim): Promise<ClaimAnswer> {
    const [home, other] = this.#partsOf(claim);
    if (other === undefined) return home.claim(claim);
    const seen = await Promise.all([home, other].map(async (part) => ({ part, snapshot: await part.read() })));
    const known = seen.find(({ snapshot }) => isKnown(snapshot, claim));
    const order = known === undefined ? seen : [known, ...seen.filter((each) => each !== known)];
    for (const { part, snapshot } of order) {
      const answer = await part.claim(claim, { snapshot, mayWait: false });
      if (!('slot' in answer)) continue;
      if (known !== undefined && known.part !== part) await known.part.leave(claim);
      return answer;
    }
    const load = ({ part, snapshot }: (typeof seen)[number]) => part.loadOf(snapshot);
    const place = known ?? seen.toSorted((a, b) => load(a) - load(b))[0]!;
    const answer = await place.part.claim(claim, { snapshot: place.snapshot });
    return 'slot' in answer ? answer : { ...answer, part: place.part.number };
  }

  end(use: SlotUse): Promise<void> {
    return this.of(use).end(use);
  }

  hasRoom(use: Pick<SlotUse, 'number'>): Promise<boolean> {
    return this.of(use).hasRoom();
  }

  keepWarm(use: SlotUse & { readonly claim: string }, ms: number): Promise<void> {
    return this.of(use).keepWarm(use, ms);
  }

  /** Returns the part of a slot, also of one beyond the pool's size, which may have been larger. */
  of({ number }: Pick<Slot, 'number'>): PoolPart {
    const part = partOf(number);
    return this.parts[part] ?? this.#part(part, 0);
  }

  /** Returns the parts beyond the pool's size that still have slots, because it was larger. Keeper. */
  async former(): Promise<PoolPart[]> {
    const found: PoolPart[] = [];
    for (let number = this.parts.length; ; number++) {
      const part = this.#part(number, 0);
      if ((await part.read()).slots.length === 0) return found;
      found.push(part);
    }
  }

  #part(part: number, max: number): PoolPart {
    return new PoolPart(this.#deps, { ...this.#limits, max }, part);
  }

  #partsOf({ id, key = id }: Claim): [PoolPart, PoolPart?] {
    const { parts } = this;
    const home = numberOf(key) % parts.length;
    if (parts.length === 1) return [parts[home]!];
    const other = (home + 1 + (numberOf(`other ${id}`) % (parts.length - 1))) % parts.length;
    return [parts[home]!, parts[other]!];
  }
}

/** Share of one of `count` parts in a whole. */
export const shareOf = (whole: number, part: number, count: number): number =>
  Math.floor(whole / count) + (part < whole % count ? 1 : 0);

const numberOf = (text: string): number => hash('sha256', text, 'buffer').readUInt32BE();
const isKnown = ({ slots, waits }: Snapshot, { id }: Claim): boolean =>
  slots.some(({ claim }) => claim === id) || waits.some(({ claim }) => claim === id);

/** One part of the pool. */
export class PoolPart {
  readonly number: number;
  readonly #partition: string;
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #ids: Ids;
  readonly #limits: PoolLimits;

  constructor({ counters, clock, ids }: PoolDeps, limits: PoolLimits, number: number) {
    this.number = number;
    this.#partition = partitionOf(number);
    this.#table = counters;
    this.#clock = clock;
    this.#ids = ids;
    this.#limits = limits;
  }

  async read(): Promise<Snapshot> {
    const slots: Slot[] = [];
    const waits: Wait[] = [];
    let demand: Demand = { lasting: 0, interruptible: 0 };
    let lacksSpot = false;
    const oldest = minuteOf(this.#clock.now()) - DEMAND_MINUTES;
    for await (const item of queryAll(this.#table, { pk: this.#partition, limit: 1000 })) {
      const [kind, name] = item.sk.split('#') as [string, string];
      if (kind === 'SLOT') slots.push(slotOf(item));
      else if (kind === 'WAIT') {
        const { owner, isInstall, isInterruptible, since } = item as unknown as Omit<Wait, 'claim'>;
        waits.push({ claim: name, owner, isInstall, isInterruptible, since });
      } else if (kind === 'NOSPOT') lacksSpot = true;
      else if (Number(name) >= oldest) {
        const { claims, interruptible = 0 } = item as unknown as { claims: number; interruptible?: number };
        demand = {
          lasting: Math.max(demand.lasting, claims - interruptible),
          interruptible: Math.max(demand.interruptible, interruptible),
        };
      }
    }
    return { slots, waits, demand, lacksSpot };
  }

  /**
   * Claims a task for one call when the fair queue selects it (`core/execution/fair-queue.ts`): a warm one with the
   * call's key, or else an idle one. An interruptible call takes an idle interruptible task; any other call takes one
   * only if it cannot wait for a regular task to start. Otherwise returns when to expect a task, and records that the
   * call waits if its patience suffices. Calls that get a warm task do not count as demand: it needs no replacement.
   *
   * @param options.snapshot The state as it was just read. @default - it is read
   * @param options.mayWait Whether the call joins the queue, and counts as demand though it gets no task. @default true
   */
  async claim(
    claim: Claim,
    { snapshot: read, mayWait = true }: { readonly snapshot?: Snapshot; readonly mayWait?: boolean } = {},
  ): Promise<ClaimAnswer> {
    let snapshot = read ?? (await this.read());
    const mine = snapshot.slots.find((slot) => slot.claim === claim.id);
    if (mine !== undefined) return { slot: mine };
    const known = snapshot.waits.find((wait) => wait.claim === claim.id);
    const { owner, isInstall, isInterruptible, since } = claim;
    const me: Wait = { claim: claim.id, owner, isInstall, isInterruptible, since };
    let counted: Promise<void> | undefined;
    try {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if (attempt > 0) snapshot = await this.read();
        const ownKind = this.#standing(snapshot, me);
        const canWait = this.#clock.now() + this.#readyIn(snapshot, me) < claim.patience;
        const isPressed = isInterruptible === true && !ownKind.isNext && !canWait;
        const { idle, position, isNext, spare, mayBeWarm } = isPressed ? this.#standing(snapshot, me, true) : ownKind;
        // Random, so that concurrent calls do not all try to claim the same task.
        const oneOf = (count: number) => this.#ids.randomBytes(1)[0]! % count;
        const warm = mayBeWarm ? this.#warmFor(snapshot, claim) : [];
        if (warm.length === 0 && !claim.isRepeated && mayWait) counted ??= this.#count(claim);
        if (warm.length === 0 && !isNext) break;
        const choice =
          warm[attempt === 0 ? 0 : oneOf(warm.length)] ?? idle[position + (spare > 0 ? oneOf(spare + 1) : 0)]!;
        const slot = await this.#take(choice, claim);
        if (slot === undefined) continue;
        if (choice.state === 'idle' && !claim.isRepeated) counted ??= this.#count(claim);
        if (known) await this.leave(claim);
        return { slot, ...(choice.state === 'warm' && { wasWarm: true }) };
      }
      const now = this.#clock.now();
      const readyInMs = this.#readyIn(snapshot, me);
      if (!mayWait) return { readyInMs, askInMs: this.#askIn(snapshot, me) };
      if (now + readyInMs < claim.patience) {
        const ttl = epochSeconds(now) + WAIT_SECONDS;
        await this.#table.put({ ...this.#waitKey(claim.id), owner, isInstall, isInterruptible, since, ttl });
      } else if (known) await this.leave(claim);
      return { readyInMs, askInMs: this.#askIn(snapshot, me) };
    } finally {
      await counted;
    }
  }

  /** Forgets that a call waits. */
  async leave({ id }: Pick<Claim, 'id'>): Promise<void> {
    await this.#table.delete(this.#waitKey(id));
  }

  /** Number of calls for each slot: those that have a task, and those that wait. */
  loadOf({ slots, waits }: Snapshot): number {
    return (slots.filter(({ state }) => state === 'claimed').length + waits.length) / this.#limits.max;
  }

  /** Marks the task as used or useless, so that no other call gets it. No-op if a given `claim` no longer has it. */
  async end({ number, id, claim }: SlotUse): Promise<void> {
    await this.#table.update(
      slotKey(number),
      { set: { state: 'ended' }, remove: ['claim', 'owner', 'isInstall', 'until'] },
      claim === undefined ? equals('id', id) : allOf(equals('id', id), equals('claim', claim)),
    );
  }

  /** Whether a task in use may be kept afterwards: not while calls wait for which no slot is left. */
  async hasRoom(): Promise<boolean> {
    const snapshot = await this.read();
    return snapshot.waits.length <= this.#placesBeside(snapshot);
  }

  /** Keeps the used task warm for `ms` milliseconds for claims with its key. No-op if its use has ended otherwise. */
  async keepWarm({ number, id, claim }: SlotUse & { readonly claim: string }, ms: number): Promise<void> {
    await this.#table.update(
      slotKey(number),
      { set: { state: 'warm', until: this.#clock.now() + ms }, remove: ['claim', 'owner', 'isInstall'] },
      allOf(equals('id', id), equals('claim', claim), equals('state', 'claimed')),
    );
  }

  /** Reserves a slot for a task that is about to start. Returns `undefined` if another keeper was faster. Keeper. */
  async reserve(number: number, taskDefinition: string, isInterruptible = false): Promise<Slot | undefined> {
    const slot = {
      id: randomHex(this.#ids, 12),
      state: 'starting',
      createdAt: this.#clock.now(),
      taskDefinition,
      ...(isInterruptible && { isInterruptible }),
    } as const;
    const { ok } = await this.#table.put({ ...slotKey(number), ...slot }, absent());
    return ok ? { number, ...slot } : undefined;
  }

  /** Returns the numbers of free slots. */
  free({ slots }: Pick<Snapshot, 'slots'>): number[] {
    const taken = new Set(slots.map(({ number }) => number));
    const first = this.number * PART_SLOTS;
    return Array.from({ length: this.#limits.max }, (_, n) => first + n).filter((number) => !taken.has(number));
  }

  /** Records the ARN of the started task. Keeper. */
  async started({ number, id }: Pick<Slot, 'number' | 'id'>, taskArn: string): Promise<void> {
    await this.#table.update(slotKey(number), { set: { taskArn } }, equals('id', id));
  }

  /** Records that the task runs at this address. No-op unless the slot is still starting. Keeper. */
  async ready({ number, id }: Pick<Slot, 'number' | 'id'>, taskArn: string, address: string): Promise<boolean> {
    const { ok } = await this.#table.update(
      slotKey(number),
      { set: { taskArn, address, state: 'idle' } },
      allOf(equals('id', id), equals('state', 'starting')),
    );
    return ok;
  }

  /** Removes an idle or warm task from the pool. Returns false if a call was faster. Keeper. */
  async retire({ number, id, state }: Pick<Slot, 'number' | 'id' | 'state'>): Promise<boolean> {
    const { ok } = await this.#table.update(
      slotKey(number),
      { set: { state: 'ended' } },
      allOf(equals('id', id), equals('state', state)),
    );
    return ok;
  }

  /** Frees the slot of a task that has ended or was never started. Keeper. */
  async release({ number, id }: Pick<Slot, 'number' | 'id'>): Promise<void> {
    await this.#table.delete(slotKey(number), equals('id', id));
  }

  /** Records that AWS has no spot capacity now. Keeper. */
  async noteNoSpot(): Promise<void> {
    await this.#table.put({
      pk: this.#partition,
      sk: 'NOSPOT#',
      ttl: epochSeconds(this.#clock.now()) + NO_SPOT_SECONDS,
    });
  }

  #waitKey(claim: string) {
    return { pk: this.#partition, sk: `WAIT#${claim}` };
  }

  async #count({ isInterruptible }: Claim): Promise<void> {
    const minute = minuteOf(this.#clock.now());
    await this.#table.update(
      { pk: this.#partition, sk: `MINUTE#${minute}` },
      {
        add: { claims: 1, ...(isInterruptible && { interruptible: 1 }) },
        set: { ttl: (minute + DEMAND_MINUTES + 1) * 60 },
      },
    );
  }

  async #take(
    { number, id, state }: Slot,
    { id: claim, owner, isInstall, key, until }: Claim,
  ): Promise<Slot | undefined> {
    const written = await this.#table.update(
      slotKey(number),
      { set: { state: 'claimed', claim, owner, isInstall, key, until } },
      allOf(equals('id', id), equals('state', state)),
    );
    const item = written.ok ? written.item : await this.#table.get(slotKey(number));
    // If the response to a write is lost, its retry fails because the first one succeeded.
    return item?.claim === claim ? slotOf(item) : undefined;
  }

  /** Returns the warm tasks for a claim, longest waiting first. */
  #warmFor({ slots }: Snapshot, { key, isInterruptible = false }: Claim): Slot[] {
    const now = this.#clock.now();
    return slots
      .filter(
        (slot) =>
          slot.state === 'warm' &&
          slot.key === key &&
          slot.until! - WARM_MARGIN_MS > now &&
          key !== undefined &&
          (isInterruptible || !slot.isInterruptible),
      )
      .sort((a, b) => b.until! - a.until!);
  }

  /**
   * Returns a call's position in the queue; the end of the queue if it may not get a task before another run ends. A
   * warm task is reused by its next call only if there are slots for all calls ahead of this one: otherwise it must be
   * stopped for them (`PoolKeeper.refill`).
   *
   * @param takesAny Whether it takes an idle task of either type, after the calls that wait for that type.
   */
  #standing({ slots, waits }: Snapshot, me: Wait, takesAny = false) {
    const fits = (other: Pick<Slot, 'isInterruptible'>) => takesAny || isOfKind(other, me);
    const idle = slots.filter((slot) => slot.state === 'idle' && fits(slot)).sort(byAge);
    const claimed = slots.filter(({ state }) => state === 'claimed');
    const all = [...waits.filter(({ claim }) => claim !== me.claim), me].sort(
      (a, b) => a.since - b.since || (a.claim < b.claim ? -1 : 1),
    );
    const queue = nextInQueue(all, claimed, this.#limits.max);
    const found = queue.findIndex(({ claim }) => claim === me.claim);
    const before = found < 0 ? queue : queue.slice(0, found);
    const position = before.filter(fits).length;
    return {
      idle,
      position,
      hasTurn: found >= 0,
      isNext: found >= 0 && position < idle.length,
      spare: idle.length - queue.filter(fits).length,
      mayBeWarm: found >= 0 && before.length <= this.#placesBeside({ slots }),
    };
  }

  /** Number of slots, with or without a task, that are unused and available to any call. */
  #placesBeside({ slots }: Pick<Snapshot, 'slots'>): number {
    return this.#limits.max - slots.filter(({ state }) => state === 'claimed' || state === 'warm').length;
  }

  /** Returns when the task for this call's position is ready. The remaining time of runs is unknown and counts as 0. */
  #readyIn(snapshot: Snapshot, me: Wait): number {
    const { idle, position } = this.#standing(snapshot, me);
    if (position < idle.length) return 0;
    const starting = snapshot.slots.filter((slot) => slot.state === 'starting' && isOfKind(slot, me)).sort(byAge);
    const mine = starting[position - idle.length];
    const { startMs } = this.#limits;
    return mine === undefined ? startMs : Math.max(0, mine.createdAt + startMs - this.#clock.now());
  }

  /**
   * Returns the poll interval: every poll reads all wait records. The first call of each owner may be next at any time.
   */
  #askIn(snapshot: Snapshot, me: Wait): number {
    if (this.#standing(snapshot, me).hasTurn) return ASK_MS.first;
    const isBefore = ({ owner, isInstall, since }: Wait) =>
      owner === me.owner && isInstall === me.isInstall && since < me.since;
    const before = snapshot.waits.filter(isBefore).length;
    return Math.min(ASK_MS.last, ASK_MS.first * (1 + Math.floor(before / this.#limits.max)));
  }
}

type OfKind = Pick<Slot, 'isInterruptible'>;
export const isOfKind = (a: OfKind, b: OfKind): boolean =>
  (a.isInterruptible ?? false) === (b.isInterruptible ?? false);

const byAge = (a: Slot, b: Slot): number => a.createdAt - b.createdAt;
const minuteOf = (epochMs: number): number => Math.floor(epochMs / MINUTE_MS);

function slotOf({ pk: _, sk, ...item }: Item): Slot {
  return { number: Number(sk.slice('SLOT#'.length)), ...item } as unknown as Slot;
}
