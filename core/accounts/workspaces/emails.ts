import type { Deps } from '#core/ports/deps.ts';
import { type Item, queryAll } from '#core/ports/table.ts';
import { findUser, type User } from './store.ts';

/**
 * Index by e-mail address. Main table: `EMAIL#<address> / USER#<user id>` for users, `EMAIL#<address> /
 * INVITE#<workspace id>` for pending invitations, with the hash of the token. An entry may outlive the item it refers
 * to, so that item is always looked up.
 */
const partition = (email: string): string => `EMAIL#${email.toLowerCase()}`;

export const userEmailItem = ({ id, email }: Pick<User, 'id' | 'email'>): Item => ({
  pk: partition(email),
  sk: `USER#${id}`,
  user_id: id,
});

export const inviteEmailItem = (email: string, workspaceId: string, hash: string, ttl: number): Item => ({
  pk: partition(email),
  sk: `INVITE#${workspaceId}`,
  hash,
  ttl,
});

/**
 * Lists the users with an address, oldest first. Users of version 0.1.0 are included once they have signed in with a
 * key.
 */
export async function listUsersOf({ main }: Pick<Deps, 'main'>, email: string): Promise<User[]> {
  const entries = queryAll(main, { pk: partition(email), sk: { beginsWith: 'USER#' } });
  const users = await Promise.all(
    (await Array.fromAsync(entries)).map(({ user_id }) => findUser({ main }, user_id as string)),
  );
  return users.filter((user) => user !== undefined).sort((a, b) => a.createdAt.localeCompare(b.createdAt));
}

/** Lists the token hashes of invitations of an address; some may be used or revoked. */
export async function listInviteHashesOf({ main }: Pick<Deps, 'main'>, email: string): Promise<string[]> {
  const entries = queryAll(main, { pk: partition(email), sk: { beginsWith: 'INVITE#' } });
  return (await Array.fromAsync(entries)).map(({ hash }) => hash as string);
}
