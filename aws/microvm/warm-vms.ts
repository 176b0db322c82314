import { type Clock, epochSeconds } from '#core/ports/clock.ts';
import { equals, type Table } from '#core/ports/table.ts';

export interface Microvm {
  readonly id: string;
  readonly endpoint: string;
}

/** A VM whose runner waits for another session with the same key. */
export interface WarmVm extends Microvm {
  /** Epoch milliseconds at which AWS ends it. */
  readonly endsAt: number;
}

/** A VM this close to its end is not used: it may have ended. */
const MARGIN_MS = 2000;
/** Number of VMs of one key that are looked at. */
const MAX_SEEN = 20;

/**
 * Records of the VMs that wait with a program. Counters table, `WARMVMS#<key>`, `<VM>`: exists while the VM waits, so that
 * who deletes it has the VM.
 */
export class WarmVms {
  readonly #table: Table;
  readonly #clock: Clock;

  constructor({ counters, clock }: { readonly counters: Table; readonly clock: Clock }) {
    this.#table = counters;
    this.#clock = clock;
  }

  /** Returns a VM for a session that lasts until `until`, which no other session gets. */
  async take(key: string, until: number): Promise<WarmVm | undefined> {
    const now = this.#clock.now();
    const { items } = await this.#table.query({ pk: partitionOf(key), limit: MAX_SEEN });
    for (const item of items) {
      const { id, endpoint, endsAt, waitsUntil, mark } = item as unknown as WarmVm & {
        waitsUntil: number;
        mark: string;
      };
      if (waitsUntil < now + MARGIN_MS || endsAt < until) continue;
      const { ok } = await this.#table.delete({ pk: item.pk, sk: item.sk }, equals('mark', mark));
      if (ok) return { id, endpoint, endsAt };
    }
    return undefined;
  }

  /** @param mark Random, so that a request that is sent twice takes no VM from another session. */
  async keep(key: string, { id, endpoint, endsAt }: WarmVm, { warmMs, mark }: { warmMs: number; mark: string }) {
    const waitsUntil = Math.min(this.#clock.now() + warmMs, endsAt);
    await this.#table.put({
      ...{ pk: partitionOf(key), sk: id, id, endpoint, endsAt, waitsUntil, mark },
      ttl: epochSeconds(waitsUntil) + 1,
    });
  }
}

const partitionOf = (key: string): string => `WARMVMS#${key}`;
