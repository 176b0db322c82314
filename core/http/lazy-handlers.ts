import { lazy } from '#core/base/lazy.ts';
import type { Handlers, Route } from './route.ts';

/** Returns handlers that are loaded when one of them is first used: their function starts for other requests, too. */
export function lazyHandlers<const Rows extends readonly Route[]>(
  rows: Rows,
  load: () => Promise<Handlers<Rows>>,
): Handlers<Rows> {
  const loaded = lazy(load) as () => Promise<Readonly<Record<string, (incoming: never) => unknown>>>;
  return Object.fromEntries(
    rows.map(({ operationId }) => [operationId, async (incoming: never) => (await loaded())[operationId]!(incoming)]),
  ) as unknown as Handlers<Rows>;
}
