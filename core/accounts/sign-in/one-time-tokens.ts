import type { Json } from '#core/base/json.ts';
import { epochSeconds } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { newToken } from '#core/ports/ids.ts';
import { absent, exists, type TransactOperation } from '#core/ports/table.ts';
import { hashKey } from '../keys/key-format.ts';

/**
 * Short-lived secrets that work once. Counters table: `<kind>#<hash> / META` is the content that the secret stands for.
 * The secret itself is not stored.
 */
type Kind = 'SIGNINCODE' | 'CLIREQUEST' | 'CLITOKEN' | 'OIDCSTATE' | 'CLIENTREQUEST' | 'CONNECTSTATE';
type Content = { readonly [member: string]: Json | undefined };

const itemKey = (kind: Kind, secret: string) => ({ pk: `${kind}#${hashKey(secret)}`, sk: 'META' });

/** Creates a secret, and the write that makes it valid. */
export function newSecret({ clock, ids }: Pick<Deps, 'clock' | 'ids'>, kind: Kind, content: Content, lifeMs: number) {
  const secret = newToken(ids);
  const expires = clock.now() + lifeMs;
  const item = { ...itemKey(kind, secret), ...content, ttl: epochSeconds(expires) };
  return { secret, expires, operation: { op: 'put', item, condition: absent() } satisfies TransactOperation };
}

/** Reads the content of a secret; `undefined` if it was used or has expired. */
export async function readToken(
  { counters }: Pick<Deps, 'counters'>,
  kind: Kind,
  secret: string,
): Promise<Content | undefined> {
  return secret === '' ? undefined : counters.get(itemKey(kind, secret));
}

/**
 * Consumes a secret, together with other writes, and returns its content. Only one of several concurrent callers gets
 * it; the others get `undefined`, as for an unknown secret.
 */
export async function consumeToken(
  deps: Pick<Deps, 'counters'>,
  kind: Kind,
  secret: string,
  others: readonly TransactOperation[] = [],
): Promise<Content | undefined> {
  const content = await readToken(deps, kind, secret);
  if (content === undefined) return undefined;
  const key = itemKey(kind, secret);
  const taken = await deps.counters.transact([{ op: 'delete', key, condition: exists() }, ...others]);
  return taken.ok ? content : undefined;
}
