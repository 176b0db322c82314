import type { Caller } from '#core/base/caller.ts';
import type { Config } from '#core/base/config.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type ApiKey, findKey } from '../keys/store.ts';
import { consumeToken, newSecret } from './one-time-tokens.ts';

/** One-time codes that sign a browser in as the user of the key that created them. */
type CodeDeps = Pick<Deps, 'main' | 'counters' | 'clock' | 'ids' | 'config'>;

const LIFE_MS = 60_000;
/** Lifetime of the code that the platform prints at its start, which a person must first read. */
export const START_CODE_LIFE_MS = 10 * 60_000;

export interface SignInCode {
  readonly code: string;
  /** Page that signs in with the code. The code is in the fragment, which browsers do not send. */
  readonly url: string;
  /** Epoch milliseconds. */
  readonly expires: number;
}

/** Object that the browser shows after the sign-in. */
export interface Destination {
  readonly kind: 'agent' | 'run' | 'schedule';
  readonly id: string;
  readonly workspace: Caller['workspace'];
}

/** Returns the path of an object, relative to the dashboard's address. No other code builds these paths. */
export const pathOf = ({ kind, id, workspace }: Destination): string =>
  `/${workspace.slug}/${kind}s/${encodeURIComponent(id)}`;

export const SIGN_IN_PATH = '/auth/login';
export const CLI_PATH = '/auth/cli';

/** Returns a path of the platform as browsers see it, which includes the stage of API Gateway. */
export const pathIn = ({ baseUrl }: Pick<Config, 'baseUrl'>, path: string): string =>
  new URL(baseUrl ?? 'http://host').pathname.replace(/\/$/, '') + path;

/** @param to Path to show afterwards, relative to the dashboard's address. */
export async function createCode(
  deps: CodeDeps,
  { id: keyId, hash, userId }: Pick<ApiKey, 'id' | 'hash' | 'userId'>,
  { to, lifeMs = LIFE_MS }: { readonly to?: string; readonly lifeMs?: number } = {},
): Promise<SignInCode> {
  const content = { user_id: userId, key_id: keyId, key_hash: hash, ...(to !== undefined && { to }) };
  const { secret: code, expires, operation } = newSecret(deps, 'SIGNINCODE', content, lifeMs);
  await deps.counters.transact([operation]);
  const { baseUrl = '', dashboardUrl } = deps.config;
  const page = dashboardUrl === undefined ? `${baseUrl}${SIGN_IN_PATH}` : `${dashboardUrl}/login`;
  return { code, url: `${page}#code=${code}`, expires };
}

/** Consumes a code. Returns its key, unless that has been revoked, and the path to show. */
export async function takeCode(deps: CodeDeps, code: string): Promise<{ key: ApiKey; to?: string } | undefined> {
  const content = await consumeToken(deps, 'SIGNINCODE', code);
  const key = content && (await findKey(deps, content.key_hash as string));
  return key && { key, to: content.to as string | undefined };
}
