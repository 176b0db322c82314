import { profileNamed, readProfiles } from '#client/profiles.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import { withoutEnd } from '#core/base/text.ts';
import { VERSION } from '#core/base/version.ts';

const LOCAL_URL = 'http://127.0.0.1:4280';
/** Default timeout of a response. Calls of agents have none, because they respond when the run has ended. */
const TIMEOUT_MS = 60_000;
const MAX_TRIES = 3;
const RETRY_MS = 1_000;

/** Platform, key and workspace of a command. */
export interface Connection {
  readonly url: string;
  readonly key?: string;
  /** ID or slug. */
  readonly workspace?: string;
  /** Origin of the URL and key, for messages. */
  readonly source: string;
  /** Names a URL and a key that were not used together, and how to use each; shown when a request is refused. */
  readonly mismatch?: string;
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
 * Flags take precedence over the environment, and the environment over the profile; the default is the local platform.
 * A key from the environment is sent to a URL from flags or environment, or to the local platform, but never to the URL
 * of a profile, which is another platform, unless it is the key of that profile. Throws UsageError for a variable that
 * looks like a setting but is not one.
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
  // A key is only sent to its own platform: a profile's key is never used with a URL from elsewhere.
  const envKey = flags.profile ? undefined : env.PLATFORM_API_KEY;
  const profileUrl = envKey === undefined || envKey === profile?.key ? profile?.url : undefined;
  const givenUrl = flags.url ?? (flags.profile ? undefined : envUrl);
  const url = givenUrl ?? profileUrl ?? LOCAL_URL;
  const ownKey = profile !== undefined && profile.url === withoutSlash(url);
  const key = envKey ?? (ownKey ? profile.key : undefined);
  // Another user's key may have no access to the workspace of the profile.
  const isOfProfile = ownKey && key === profile.key;
  // A key and a URL that are both from elsewhere belong together.
  const isMixed = profile !== undefined && !ownKey && (envKey === undefined || givenUrl === undefined);
  return {
    url: withoutSlash(url),
    key,
    ...(isMixed && { mismatch: mismatchOf(name!, profile.url, givenUrl, flags.url === undefined) }),
    workspace: flags.workspace ?? env.PLATFORM_WORKSPACE ?? (isOfProfile ? profile.workspaceId : undefined),
    source: isOfProfile ? `profile ${name}` : 'environment',
  };
}

/** Explains why the URL of a profile was not used with a key from elsewhere, or its key with another URL. */
function mismatchOf(name: string, profileUrl: string, url: string | undefined, isUrlOfEnv: boolean): string {
  if (url === undefined) {
    return (
      `PLATFORM_API_KEY is not sent to ${profileUrl}, the address of profile "${name}". ` +
      `Set PLATFORM_API_URL to the address of the key, or use \`--profile ${name}\` with the key of that profile.`
    );
  }
  const fix = isUrlOfEnv ? 'unset PLATFORM_API_URL' : 'leave out --url';
  return (
    `The key of profile "${name}" is only sent to ${profileUrl}. ` +
    `Run \`platform login --url ${url}\`, set PLATFORM_API_KEY, or ${fix}.`
  );
}

const withoutSlash = (url: string): string => withoutEnd(url, '/');

export interface Wire {
  readonly fetch: typeof fetch;
  /** Timeout of a response in milliseconds, also for calls. @default 60 s, no timeout for calls */
  readonly timeoutMs?: number;
  /** Called with one line per request, without headers, which contain the key. */
  readonly trace?: (line: string) => void;
}

/** Creates the client of a connection. Idempotent requests are retried after transient failures. */
export async function clientOf({ url, key }: Connection, workspaceId: string | undefined, wire: Wire): Promise<Client> {
  if (!URL.canParse(url)) throw new UsageError(`Invalid URL "${url}": expected a URL such as ${LOCAL_URL}.`);
  const { createClient } = await import('#core/api/client.ts');
  return createClient({ baseUrl: url, key, workspaceId, fetch: (input, init) => send(wire, input as URL, init ?? {}) });
}

/** An endpoint of an agent, or the messages of a session. */
const CALL_PATH = /^(\/[^/]+){4}$|\/sessions\/[^/]+\/messages$/;

async function send({ fetch, trace, timeoutMs }: Wire, url: URL, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set('x-cli-version', VERSION);
  headers.set('x-platform-client', 'cli');
  const isStream = headers.get('accept') === 'text/event-stream';
  // A call with an idempotency key waits for the answer of the first call with that key.
  const beginsAtOnce = (isStream && !headers.has('idempotency-key')) || headers.get('prefer') === 'respond-async';
  const isCall = init.method === 'POST' && CALL_PATH.test(url.pathname);
  const limitMs = timeoutMs ?? (isCall && !beginsAtOnce ? undefined : TIMEOUT_MS);
  const repeats = init.method === 'GET' || headers.has('idempotency-key');
  for (let attempt = 1; ; attempt++) {
    const limit = timeLimit(limitMs);
    const started = performance.now();
    const answer = await fetch(url, { ...init, headers, signal: limit.signal }).catch((error: Error) => error);
    // The timeout covers only the start of a stream.
    if (isStream) limit.lift();
    const took = Math.round(performance.now() - started);
    const said =
      answer instanceof Error ? answer.message : `${answer.status} ${answer.headers.get('x-request-id') ?? ''}`;
    trace?.(`${init.method} ${url} -> ${said.trimEnd()} in ${took} ms`);
    // Refused connections and timeouts are not retried: the result would be the same.
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

/** Returns a signal that aborts with a TimeoutError unless it is lifted first. */
function timeLimit(ms: number | undefined): { readonly signal: AbortSignal | null; lift(): void } {
  if (ms === undefined) return { signal: null, lift: () => {} };
  const controller = new AbortController();
  const late = new DOMException('The platform did not answer in time.', 'TimeoutError');
  const timer = setTimeout(() => controller.abort(late), ms).unref();
  return { signal: controller.signal, lift: () => clearTimeout(timer) };
}

/** Whether an answer is not JSON, but a stream or file. */
export const isResponse = (answer: unknown): answer is Response =>
  typeof (answer as Response | undefined)?.headers?.get === 'function';
