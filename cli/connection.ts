import type { Client } from '#core/api/client.ts';
import { UsageError } from './failure.ts';
import { profileNamed, readProfiles } from './profiles.ts';
import { VERSION } from './version.ts';

const LOCAL_URL = 'http://127.0.0.1:4280';
/** Of the requests that only manage. Calls of agents and streams take as long as they take. */
const MANAGE_TIMEOUT_MS = 60_000;
const MAX_TRIES = 3;
const RETRY_MS = 1_000;

/** Which platform, as whom, in which workspace. */
export interface Connection {
  readonly url: string;
  readonly key?: string;
  /** Id or slug. */
  readonly workspace?: string;
  /** Where the address and the key come from, for people. */
  readonly source: string;
}

export interface ConnectionOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly configFolder: string;
  /** Values of the flags. */
  readonly profile?: string;
  readonly url?: string;
  readonly workspace?: string;
}

/** Flags win over the environment, the environment over the profile; without all of them, the local platform. */
export async function findConnection({ env, configFolder, ...flags }: ConnectionOptions): Promise<Connection> {
  const profiles = await readProfiles(configFolder);
  const name = flags.profile ?? env.PLATFORM_PROFILE ?? profiles.current;
  const profile = name === undefined ? undefined : profileNamed(profiles, name);
  const envUrl = env.PLATFORM_API_URL ?? env.PLATFORM_GATEWAY_URL;
  // A key goes to the platform that it was made for: a profile's key never follows an address from elsewhere.
  const url = flags.url ?? (flags.profile ? undefined : envUrl) ?? profile?.url ?? LOCAL_URL;
  const ownKey = profile !== undefined && profile.url === withoutSlash(url);
  const key = (flags.profile ? undefined : env.PLATFORM_API_KEY) ?? (ownKey ? profile.key : undefined);
  return {
    url: withoutSlash(url),
    key,
    workspace: flags.workspace ?? env.PLATFORM_WORKSPACE ?? (ownKey ? profile.workspaceId : undefined),
    source: ownKey && key === profile.key ? `profile ${name}` : 'environment',
  };
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, '');

export interface Wire {
  readonly fetch: typeof fetch;
  /** One line for each request, without headers: they hold the key. */
  readonly trace?: (line: string) => void;
}

/** The client of a connection. Requests that are safe to repeat are repeated after failures that may pass. */
export async function clientOf({ url, key }: Connection, workspaceId: string | undefined, wire: Wire): Promise<Client> {
  if (!URL.canParse(url)) throw new UsageError(`"${url}" is not an address, such as ${LOCAL_URL}.`);
  const { createClient } = await import('#core/api/client.ts');
  return createClient({ baseUrl: url, key, workspaceId, fetch: (input, init) => send(wire, input as URL, init ?? {}) });
}

async function send({ fetch, trace }: Wire, url: URL, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set('x-cli-version', VERSION);
  headers.set('x-platform-client', 'cli');
  const isCall = init.method === 'POST' && url.pathname.split('/').length === 5;
  const repeats = init.method === 'GET' || headers.has('idempotency-key');
  for (let attempt = 1; ; attempt++) {
    const isStream = headers.get('accept') === 'text/event-stream';
    const signal = isCall || isStream ? null : AbortSignal.timeout(MANAGE_TIMEOUT_MS);
    const started = performance.now();
    const answer = await fetch(url, { ...init, headers, signal }).catch((error: Error) => error);
    const took = Math.round(performance.now() - started);
    const said =
      answer instanceof Error ? answer.message : `${answer.status} ${answer.headers.get('x-request-id') ?? ''}`;
    trace?.(`${init.method} ${url} -> ${said.trimEnd()} in ${took} ms`);
    // Where nothing listens, a second try says the same.
    const isRefused =
      answer instanceof Error && (answer.cause as { code?: string } | undefined)?.code === 'ECONNREFUSED';
    const mayPass = answer instanceof Error ? !isRefused : answer.status === 503 || answer.status === 502;
    if (!mayPass || !repeats || attempt === MAX_TRIES) {
      if (answer instanceof Error) throw answer;
      return answer;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS * attempt));
  }
}

/** Answers that are no JSON: streams and files. */
export const isResponse = (answer: unknown): answer is Response =>
  typeof (answer as Response | undefined)?.headers?.get === 'function';
