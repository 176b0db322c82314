import { Batcher } from '#core/base/batcher.ts';
import {
  absent,
  allOf,
  anyOf,
  type Changes,
  type Condition,
  exists,
  type Item,
  type Key,
  lessThan,
  type Table,
} from '#core/ports/table.ts';

/** The slot of a call in a shard, see `admission.ts`. */
export interface LeaseSlot {
  /** Attribute of the lease, and its expiry in epoch seconds. */
  readonly lease: string;
  readonly expiry: number;
  /** Maximum number of leases in the shard. */
  readonly maxLeases: number;
  /** Attribute that counts the call, up to `maxCalls`. */
  readonly counter: string;
  readonly maxCalls: number;
}

export interface HeldLease {
  /** Item of the shard, with the lease. */
  readonly item: Item;
  /** Value of the counter, this call included. */
  readonly used: number;
}

/** All shards of a workspace. */
export interface ShardsOf {
  readonly workspaceId: string;
  readonly shards: number;
  keyOf(shard: number): Key;
}

interface CounterSum {
  readonly counter: string;
  /** Names of the shards. */
  readonly names: ReadonlySet<string>;
  used: number;
}

/** Attributes that the end of a call removes. */
interface EndedLease {
  readonly lease: string;
  /** Counters of past days. */
  readonly stale: readonly string[];
}

/** Minimum lifetime of leases of dead hosts, in case the platform does not sweep for a while. */
const KEPT_SECONDS = 8 * 24 * 3600;
/** Well below DynamoDB's limit on condition size. */
const MAX_BATCH = 20;

/** Maximum number of shards in memory, about a kilobyte each. */
const MAX_KNOWN_SHARDS = 10_000;

const LEASE = /^r[\w-]{10}$/;
export const isLease = (attribute: string): boolean => LEASE.test(attribute);

/**
 * Call leases in the shards of a table. Calls that begin or end in the same tick, such as a burst of schedules,
 * update their shard in one write. If the shard refuses the batch, each call is tried alone.
 */
class ConcurrencyLeases {
  readonly #counters: Table;
  readonly #begun = new Batcher<LeaseSlot, HeldLease | undefined>(MAX_BATCH);
  readonly #ended = new Batcher<EndedLease, void>(MAX_BATCH);
  /** Name of a shard -> its latest item. Used only if no other process writes to the table. */
  readonly #known = new Map<string, Item>();
  /** Workspace -> a counter's sum over all its shards, which are in memory. */
  readonly #sums = new Map<string, CounterSum>();
  /** Workspace -> first shard of its calls in this tick. */
  readonly #homes = new Map<string, { readonly home: number; calls: number }>();

  constructor(counters: Table) {
    this.#counters = counters;
  }

  /** Returns the first shard to try: arbitrary, but the same for calls that begin in the same tick. */
  homeOf(workspaceId: string, runId: string, shards: number): number {
    if (this.#homes.size === 0) process.nextTick(() => this.#homes.clear());
    let home = this.#homes.get(workspaceId);
    if (home === undefined || home.calls === MAX_BATCH) {
      home = { home: Number.parseInt(runId.slice(-6), 16), calls: 0 };
      this.#homes.set(workspaceId, home);
    }
    home.calls++;
    return home.home % shards;
  }

  /** Sums a counter over the shards of a workspace, all or all but one. Only for a table of one process. */
  async usedIn({ workspaceId, shards, keyOf }: ShardsOf, counter: string, except?: number): Promise<number> {
    const known = this.#sums.get(workspaceId);
    if (known?.counter === counter && known.names.size === shards) {
      return known.used - (except === undefined ? 0 : numberOf(this.#known.get(nameOf(keyOf(except)))!, counter));
    }
    const keys = Array.from({ length: shards }, (_, shard) => keyOf(shard));
    const read = await Promise.all(keys.map((key) => this.#current(key)));
    const names = keys.map(nameOf);
    const counts = names.map((name, shard) => numberOf(this.#known.get(name) ?? read[shard]!, counter));
    const used = counts.reduce((sum, count) => sum + count);
    if (names.every((name) => this.#known.has(name))) {
      this.#sums.set(workspaceId, { counter, names: new Set(names), used });
    }
    return used - (except === undefined ? 0 : counts[except]!);
  }

  /** Must be called after a change of the shard that did not use this object. */
  forget(shard: Key): void {
    this.#known.delete(nameOf(shard));
    this.#sums.delete(workspaceOf(shard));
  }

  /** Counts a call and takes its lease, or does neither and returns `undefined`. */
  take(shard: Key, place: LeaseSlot): Promise<HeldLease | undefined> {
    return this.#begun.ask(nameOf(shard), place, async (places) => {
      const all = await this.#takeAll(shard, places);
      if (all !== undefined || places.length === 1) return all ?? [undefined];
      return Promise.all(places.map(async (each) => (await this.#takeAll(shard, [each]))?.[0]));
    });
  }

  /** Ends the lease of a call; idempotent. */
  leave(shard: Key, ended: EndedLease): Promise<void> {
    return this.#ended.ask(nameOf(shard), ended, async (places) => {
      const all = await this.#leaveAll(shard, places);
      if (!all && places.length > 1) await Promise.all(places.map((each) => this.#leaveAll(shard, [each])));
      return places.map(() => undefined);
    });
  }

  async #takeAll(shard: Key, places: readonly LeaseSlot[]): Promise<HeldLease[] | undefined> {
    // The batch exceeds the limits of any shard, or contains the same call twice.
    const isRefused = places.some(({ maxLeases, counter, maxCalls }) => {
      const calls = places.filter((other) => other.counter === counter).length;
      return calls > maxCalls || places.length > maxLeases;
    });
    if (isRefused || new Set(places.map(({ lease }) => lease)).size < places.length) return undefined;
    const [counting, leasing] = [countingOf(places), leasingOf(places)];
    const changed = await this.#counters.update(
      shard,
      { add: { ...counting.changes.add, ...leasing.changes.add }, set: leasing.changes.set },
      allOf(leasing.condition, counting.condition),
    );
    if (!changed.ok) return undefined;
    const { item } = changed;
    this.#remember(shard, item);
    return places.map(({ counter }, position) => {
      const later = places.filter((other, at) => at > position && other.counter === counter).length;
      return { item, used: (item[counter] as number) - later };
    });
  }

  async #current(shard: Key): Promise<Item> {
    const name = nameOf(shard);
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const read = (await this.#counters.get(shard)) ?? shard;
    // A call that was counted in the meantime has a newer item.
    const newest = this.#known.get(name) ?? read;
    this.#remember(shard, newest);
    return newest;
  }

  #remember(shard: Key, item: Item): void {
    if (!this.#counters.isOfOneProcess) return;
    // Cleared items are read again when needed.
    if (this.#known.size >= MAX_KNOWN_SHARDS) {
      this.#known.clear();
      this.#sums.clear();
    }
    const name = nameOf(shard);
    const sum = this.#sums.get(workspaceOf(shard));
    if (sum?.names.has(name)) sum.used += numberOf(item, sum.counter) - numberOf(this.#known.get(name)!, sum.counter);
    this.#known.set(name, item);
  }

  async #leaveAll({ pk, sk }: Key, places: readonly EndedLease[]): Promise<boolean> {
    const leases = [...new Set(places.map(({ lease }) => lease))];
    const stale = new Set(places.flatMap((each) => each.stale));
    const active = leases.filter(isLease).length;
    const changes: Changes = { add: active > 0 ? { active: -active } : {}, remove: [...leases, ...stale] };
    return (await this.#counters.update({ pk, sk }, changes, allOf(...leases.map((lease) => exists(lease))))).ok;
  }
}

/** Builds the part of the update that counts the calls. */
export function countingOf(places: readonly LeaseSlot[]) {
  const add: { [counter: string]: number } = {};
  for (const { counter } of places) add[counter] = (add[counter] ?? 0) + 1;
  const maxima = Object.fromEntries(places.map(({ counter, maxCalls }) => [counter, maxCalls]));
  const conditions = Object.entries(maxima).map(([counter, max]) => below(counter, max, add[counter]!));
  return { changes: { add }, condition: allOf(...conditions) };
}

/** Builds the part of the update that takes the leases. */
export function leasingOf(places: readonly LeaseSlot[]) {
  // Names of leases are as unique as values: see `copyOf` in `core/ports/table-rules.ts`.
  const set: { [attribute: string]: number } = Object.create(null);
  for (const { lease, expiry } of places) set[lease] = expiry;
  set.ttl = Math.max(...places.map(({ expiry }) => expiry)) + KEPT_SECONDS;
  const max = Math.min(...places.map(({ maxLeases }) => maxLeases));
  return {
    changes: { add: { active: places.length }, set },
    condition: allOf(...places.map(({ lease }) => absent(lease)), below('active', max, places.length)),
  };
}

const nameOf = ({ pk, sk }: Key): string => `${pk}/${sk}`;
/** Returns the id of a shard's workspace. */
export const workspaceOf = ({ sk }: Key): string => sk.slice(0, sk.lastIndexOf('#'));
/** Returns a number of an item; 0 if it is absent. */
export const numberOf = (item: Item, name: string): number => (item[name] as number | undefined) ?? 0;

/** Condition that `more` additions stay within the limit. */
const below = (counter: string, max: number, more: number): Condition =>
  anyOf(absent(counter), lessThan(counter, max - more + 1));

/** A process has one counters table; tests have several. */
const ofTable = new WeakMap<Table, ConcurrencyLeases>();

export function placesIn(counters: Table): ConcurrencyLeases {
  const known = ofTable.get(counters) ?? new ConcurrencyLeases(counters);
  ofTable.set(counters, known);
  return known;
}
