import type { Caller } from '#core/base/caller.ts';
import type { Config } from '#core/base/config.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type ApiKey, findKey } from '../keys/store.ts';
import { consumeToken, newSecret } from './one-time-tokens.ts';

/** Codes that sign a browser in once, as the user of the key that made them. */
type CodeDeps = Pick<Deps, 'main' | 'counters' | 'clock' | 'ids' | 'config'>;

const LIFE_MS = 60_000;
/** Of the code that a start of the platform prints: somebody has to read it there first. */
export const START_CODE_LIFE_MS = 10 * 60_000;

export interface SignInCode {
  readonly code: string;
  /** A page that signs in with it. The code is in the fragment, which browsers send to nobody. */
  readonly url: string;
  /** Epoch milliseconds. */
  readonly expires: number;
}

/** What a browser is to see after it has signed in. */
export interface Destination {
  readonly kind: 'agent' | 'run' | 'schedule';
  readonly id: string;
  readonly workspace: Caller['workspace'];
}

/** The one place that knows where things are shown to browsers. Path below the dashboard's address. */
export const pathOf = ({ kind, id, workspace }: Destination): string =>
  `/${workspace.slug}/${kind}s/${encodeURIComponent(id)}`;

export const SIGN_IN_PATH = '/auth/login';
export const CLI_PATH = '/auth/cli';

/** A path of the platform as browsers see it: a stage of API Gateway is part of it. */
export const pathIn = ({ baseUrl }: Pick<Config, 'baseUrl'>, path: string): string =>
  new URL(baseUrl ?? 'http://host').pathname.replace(/\/$/, '') + path;

/** @param to Path below the dashboard's address, to show afterwards. */
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

/** Uses a code up. Returns its key, unless that was revoked since, and the path to show. */
export async function takeCode(deps: CodeDeps, code: string): Promise<{ key: ApiKey; to?: string } | undefined> {
  const content = await consumeToken(deps, 'SIGNINCODE', code);
  const key = content && (await findKey(deps, content.key_hash as string));
  return key && { key, to: content.to as string | undefined };
}
