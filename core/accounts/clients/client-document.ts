import * as z from 'zod';
import type { Config } from '#core/base/config.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import { isLoopbackName } from '#core/http/loopback.ts';
import { asPrintableLine } from '#core/http/printable-line.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import type { OutboundFailure } from '#core/ports/outbound.ts';

/** A client, as its metadata document describes it (draft-ietf-oauth-client-id-metadata-document). */
export interface Client {
  /** Address of the document. */
  readonly id: string;
  /** Unverified, one line. */
  readonly name: string;
  readonly redirectUris: readonly string[];
}

type DocumentDeps = Pick<Deps, 'clock'> & Pick<AllDeps, 'exchanges' | 'config'>;

const MAX_URL = 2000;
const MAX_BYTES = 16 * 1024;
const TIMEOUT_MS = 5_000;
const KEPT_MS = 5 * 60_000;
const MAX_KEPT = 200;

const documentShape = z.object({
  client_id: z.string(),
  client_name: z.string().max(1000).optional(),
  redirect_uris: z.array(z.string().max(MAX_URL)).min(1).max(50),
  token_endpoint_auth_method: z.literal('none').optional(),
  grant_types: z.array(z.string()).max(20).optional(),
  response_types: z.array(z.string()).max(20).optional(),
});

const kept = new WeakMap<object, Map<string, { readonly client: Client; readonly until: number }>>();

/** Reads the metadata document of a client. Throws INVALID_INPUT. */
export async function readClient(deps: DocumentDeps, clientId: string): Promise<Client> {
  const url = checkClientId(deps.config, clientId);
  const cache = kept.get(deps.exchanges) ?? new Map();
  kept.set(deps.exchanges, cache);
  const known = cache.get(clientId);
  if (known !== undefined && known.until > deps.clock.now()) return known.client;
  const client = await fetchClient(deps, clientId, url.host);
  cache.delete(clientId);
  if (cache.size >= MAX_KEPT) cache.delete(cache.keys().next().value!);
  cache.set(clientId, { client, until: deps.clock.now() + KEPT_MS });
  return client;
}

const refusal = (message: string): PlatformError =>
  new PlatformError('INVALID_INPUT', message, {
    hint: 'Use a client that identifies itself by the https address of its metadata document, or send an API key.',
  });

/** Throws INVALID_INPUT. Over plain http, documents of this machine count for a platform on this machine only. */
function checkClientId({ baseUrl }: Pick<Config, 'baseUrl'>, clientId: string): URL {
  const url = clientId.length > MAX_URL || /[\s\\\p{Cc}]/u.test(clientId) ? null : URL.parse(clientId);
  const isHere = isLoopbackName(new URL(baseUrl ?? 'http://host').hostname);
  const isFit =
    url !== null &&
    (url.protocol === 'https:' || (url.protocol === 'http:' && isHere && isLoopbackName(url.hostname))) &&
    url.href === clientId &&
    url.pathname !== '/' &&
    url.username === '' &&
    url.password === '' &&
    !clientId.includes('#');
  if (isFit) return url;
  throw refusal(
    'client_id: must be the https address of a client metadata document; clients cannot be registered here.',
  );
}

async function fetchClient({ exchanges }: DocumentDeps, clientId: string, host: string): Promise<Client> {
  const { status, text } = await fetched(exchanges, clientId, host);
  if (status !== 200) throw refusal(`client_id: ${host} answered ${status} instead of a client metadata document.`);
  let document: z.infer<typeof documentShape>;
  try {
    document = documentShape.parse(JSON.parse(text));
  } catch {
    throw refusal(`client_id: what ${host} answered is not the metadata document of a public client.`);
  }
  if (document.client_id !== clientId) {
    throw refusal(`client_id: the metadata document at ${host} belongs to another client_id.`);
  }
  const name = asPrintableLine(document.client_name ?? '', 100);
  return { id: clientId, name: name === '' ? host : name, redirectUris: document.redirect_uris };
}

/** Returns status and text of the document. Throws INVALID_INPUT if there is no answer, or it is too large. */
async function fetched(exchanges: DocumentDeps['exchanges'], url: string, host: string) {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const answer = await exchanges.exchange({ method: 'GET', url, headers: { accept: 'application/json' }, signal });
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of answer.body) {
      bytes += chunk.byteLength;
      if (bytes > MAX_BYTES) {
        throw refusal(`client_id: the metadata document at ${host} has more than ${MAX_BYTES / 1024} KB.`);
      }
      chunks.push(chunk);
    }
    return { status: answer.status, text: Buffer.concat(chunks).toString() };
  } catch (error) {
    if (hasCode(error, 'OUTBOUND_FAILED')) throw refusal(`client_id: ${host} ${(error as OutboundFailure).message}.`);
    if (signal.aborted) throw refusal(`client_id: ${host} did not answer within ${TIMEOUT_MS / 1000} seconds.`);
    throw error;
  }
}

/** Schemes that browsers run or show, and those of files. */
const REFUSED_SCHEMES = /^(javascript|data|vbscript|file|filesystem|blob|about|view-source|ftp|wss?):/;

/**
 * Returns the redirect URI of a request if the client has it: character by character, and with any port on the machine of
 * the browser (RFC 8252, section 7.3). Throws INVALID_INPUT.
 */
export function checkRedirectUri({ redirectUris, id }: Client, given: string): URL {
  const url = given.length > MAX_URL || /[\s\\\p{Cc}]/u.test(given) ? null : URL.parse(given);
  const isSafe =
    url !== null &&
    !REFUSED_SCHEMES.test(url.protocol) &&
    (url.protocol !== 'http:' || isLoopbackName(url.hostname)) &&
    url.username === '' &&
    url.password === '' &&
    !given.includes('#');
  if (isSafe && redirectUris.some((known) => known === given || isSameLoopback(known, url))) return url;
  throw new PlatformError(
    'INVALID_INPUT',
    `redirect_uri: is not one that the client at ${new URL(id).host} lists, or is not safe: nothing was sent there.`,
  );
}

function isSameLoopback(known: string, given: URL): boolean {
  const url = URL.parse(known);
  if (url === null || url.protocol !== 'http:' || given.protocol !== 'http:' || !isLoopbackName(url.hostname))
    return false;
  return url.hostname === given.hostname && url.pathname === given.pathname && url.search === given.search;
}
