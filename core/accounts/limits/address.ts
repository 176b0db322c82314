import { isIPv6 } from 'node:net';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { absent, anyOf, lessThan } from '#core/ports/table.ts';
import { limitError, type RateLimit, rateLimitOf } from './rate-limit.ts';

const WINDOW_MS = 60_000;
const MAX_EXHAUSTED = 10_000;

type AddressDeps = Pick<Deps, 'config' | 'counters' | 'clock'>;

/**
 * Limits requests without a valid key, by client address. Counters table: `ADDRESS#<address> / <epoch seconds>` counts
 * the requests of the minute that starts then. On AWS a retried write may count a request twice, which is harmless: the
 * limit bounds load, not money.
 */
export class AddressLimits {
  readonly #deps: AddressDeps;
  /** Clients without remaining requests, with the end of their window: further rejections write nothing. */
  readonly #exhausted = new Map<string, number>();

  constructor(deps: AddressDeps) {
    this.#deps = deps;
  }

  /** Counts a request. Throws RATE_LIMITED if the address has none left. */
  async count(address: string): Promise<RateLimit> {
    const { config, counters, clock } = this.#deps;
    const limit = config.addressRequestsPerMinute;
    const now = clock.now();
    const resetAt = endOfWindow(now);
    const client = clientOf(address);
    if (this.#exhausted.get(client) !== resetAt) {
      const counted = await counters.update(
        windowKey(client, now),
        { add: { requests: 1 }, set: { ttl: epochSeconds(resetAt) + 60 } },
        anyOf(absent('requests'), lessThan('requests', limit)),
      );
      if (counted.ok) return rateLimitOf(limit, counted.item.requests as number, resetAt);
      if (this.#exhausted.size >= MAX_EXHAUSTED) this.#exhausted.clear();
      this.#exhausted.set(client, resetAt);
    }
    throw limitError(
      `Your address has reached the limit of ${limit} requests per minute without a valid API key.`,
      rateLimitOf(limit, limit, resetAt),
      now,
    );
  }

  /** Reads the limit of an address without counting a request. */
  async left(address: string): Promise<RateLimit> {
    const now = this.#deps.clock.now();
    const item = await this.#deps.counters.get(windowKey(clientOf(address), now));
    const used = (item?.requests as number | undefined) ?? 0;
    return rateLimitOf(this.#deps.config.addressRequestsPerMinute, used, endOfWindow(now));
  }

  /** Returns the full limit, for a request that counts against no address. */
  all(): RateLimit {
    return rateLimitOf(this.#deps.config.addressRequestsPerMinute, 0, endOfWindow(this.#deps.clock.now()));
  }
}

const endOfWindow = (now: number): number => (Math.floor(now / WINDOW_MS) + 1) * WINDOW_MS;

const windowKey = (client: string, now: number) => ({
  pk: `ADDRESS#${client}`,
  sk: String(epochSeconds(endOfWindow(now) - WINDOW_MS)),
});

/** Returns the client of an address. A client may have 2^64 IPv6 addresses, so the first half identifies it. */
export function clientOf(address: string): string {
  if (!isIPv6(address)) return address.slice(0, 64);
  // The shortest notation, without a zone.
  const shortest = new URL(`http://[${address.split('%', 1)[0]}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(shortest);
  if (mapped) {
    return mapped
      .slice(1)
      .map((group) => Number.parseInt(group, 16))
      .flatMap((group) => [group >> 8, group & 255])
      .join('.');
  }
  const [front, back] = shortest.split('::').map((half) => half.split(':').filter((group) => group !== ''));
  const zeros = back === undefined ? [] : Array<string>(8 - front!.length - back.length).fill('0');
  return `${[...front!, ...zeros, ...(back ?? [])].slice(0, 4).join(':')}::/64`;
}
