import { profileNamed, readProfiles } from '#client/profiles.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import { withoutEnd } from '#core/base/text.ts';
import { VERSION } from '#core/base/version.ts';

const LOCAL_URL = 'http://127.0.0.1:4280';
/** Until an answer. A call of an agent answers when its run has ended, and takes as long as that takes. */
const TIMEOUT_MS = 60_000;
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

/**
 * Flags win over the environment, the environment over the profile; without all of them, the local platform. A key of the
 * environment goes to an address of the flags or the environment, or to the local platform: never to the address of a
 * profile, which is another platform's. Throws UsageError for a variable that looks like a setting and is none.
 */
export async function findConnection({ env, configFolder, ...flags }: ConnectionOptions): Promise<Connection> {
  if (env.PLATFORM_URL !== undefined) {
    throw new UsageError('PLATFORM_URL is not supported: set PLATFORM_API_URL instead.', {
      hint: 'Unset PLATFORM_URL, so that commands do not reach the wrong platform.',
    });
  }
  const profiles = await readProfiles(configFolder);
  const name = flags.profile ?? env.PLATFORM_PROFILE ?? profiles.current;
  const profile = name === undefined ? undefined : profileNamed(profiles, name);
  const envUrl = env.PLATFORM_API_URL ?? env.PLATFORM_GATEWAY_URL;
  // A key goes to the platform that it was made for: a profile's key never follows an address from elsewhere.
  const envKey = flags.profile ? undefined : env.PLATFORM_API_KEY;
  const profileUrl = envKey === undefined ? profile?.url : undefined;
  const url = flags.url ?? (flags.profile ? undefined : envUrl) ?? profileUrl ?? LOCAL_URL;
  const ownKey = profile !== undefined && profile.url === withoutSlash(url);
  const key = envKey ?? (ownKey ? profile.key : undefined);
  // Another user's key may have no access to the workspace of the profile.
  const isOfProfile = ownKey && key === profile.key;
  return {
    url: withoutSlash(url),
    key,
    workspace: flags.workspace ?? env.PLATFORM_WORKSPACE ?? (isOfProfile ? profile.workspaceId : undefined),
    source: isOfProfile ? `profile ${name}` : 'environment',
  };
}

const withoutSlash = (url: string): string => withoutEnd(url, '/');

export interface Wire {
  readonly fetch: typeof fetch;
  /** How long to wait for an answer, also for that of a call. @default 60 s, calls without an end */
  readonly timeoutMs?: number;
  /** One line for each request, without headers: they hold the key. */
  readonly trace?: (line: string) => void;
}

/** The client of a connection. Requests that are safe to repeat are repeated after failures that may pass. */
export async function clientOf({ url, key }: Connection, workspaceId: string | undefined, wire: Wire): Promise<Client> {
  if (!URL.canParse(url)) throw new UsageError(`Invalid URL "${url}": expected a URL such as ${LOCAL_URL}.`);
  const { createClient } = await import('#core/api/client.ts');
  return createClient({ baseUrl: url, key, workspaceId, fetch: (input, init) => send(wire, input as URL, init ?? {}) });
}

async function send({ fetch, trace, timeoutMs }: Wire, url: URL, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set('x-cli-version', VERSION);
  headers.set('x-platform-client', 'cli');
  const isStream = headers.get('accept') === 'text/event-stream';
  // A call with a key waits for the answer of the first one with it.
  const beginsAtOnce = (isStream && !headers.has('idempotency-key')) || headers.get('prefer') === 'respond-async';
  const isCall = init.method === 'POST' && url.pathname.split('/').length === 5;
  const limitMs = timeoutMs ?? (isCall && !beginsAtOnce ? undefined : TIMEOUT_MS);
  const repeats = init.method === 'GET' || headers.has('idempotency-key');
  for (let attempt = 1; ; attempt++) {
    const limit = timeLimit(limitMs);
    const started = performance.now();
    const answer = await fetch(url, { ...init, headers, signal: limit.signal }).catch((error: Error) => error);
    // Of a stream only the beginning is waited for.
    if (isStream) limit.lift();
    const took = Math.round(performance.now() - started);
    const said =
      answer instanceof Error ? answer.message : `${answer.status} ${answer.headers.get('x-request-id') ?? ''}`;
    trace?.(`${init.method} ${url} -> ${said.trimEnd()} in ${took} ms`);
    // Where nothing listens, a second try says the same; where nothing is said, there was time enough.
    const isFinal =
      answer instanceof Error &&
      (answer.name === 'TimeoutError' || (answer.cause as { code?: string } | undefined)?.code === 'ECONNREFUSED');
    const mayPass = answer instanceof Error ? !isFinal : answer.status === 503 || answer.status === 502;
    if (!mayPass || !repeats || attempt === MAX_TRIES) {
      if (answer instanceof Error) throw answer;
      return answer;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS * attempt));
  }
}

/** A signal that aborts with a TimeoutError, unless it is lifted before. */
function timeLimit(ms: number | undefined): { readonly signal: AbortSignal | null; lift(): void } {
  if (ms === undefined) return { signal: null, lift: () => {} };
  const controller = new AbortController();
  const late = new DOMException('The platform did not answer in time.', 'TimeoutError');
  const timer = setTimeout(() => controller.abort(late), ms).unref();
  return { signal: controller.signal, lift: () => clearTimeout(timer) };
}

/** Answers that are no JSON: streams and files. */
export const isResponse = (answer: unknown): answer is Response =>
  typeof (answer as Response | undefined)?.headers?.get === 'function';
