import { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { hasCode } from '#core/base/errors.ts';
import type { TraceHeaders } from '#core/base/trace-context.ts';
import { isOnHostList } from '#core/outbound/host-list.ts';
import { toolServerUrlProblem } from '#core/outbound/tool-server-url.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { OutboundAnswer } from '#core/ports/outbound.ts';
import { markdownOf } from './markdown.ts';

/** Bounds of one page (`docs/interface/web-tools.md`). */
export const MAX_PAGE_BYTES = 5 * 1024 * 1024;
const PAGE_SECONDS = 20;
const MAX_REDIRECTS = 5;
/** Maximum length of the text that is kept of a page. */
const MAX_TEXT_CHARACTERS = 1024 * 1024;
const REDIRECTS = [301, 302, 303, 307, 308];

const ACCEPT = 'text/html, application/xhtml+xml, text/markdown, text/plain, application/json;q=0.9, */*;q=0.1';

export interface WebDeps extends Pick<Deps, 'exchanges' | 'clock' | 'config'> {
  /** Headers that name the span of the run. @default - nobody traces it */
  readonly traceHeaders?: TraceHeaders | undefined;
}

export interface WebPage {
  /** Address after redirects. */
  readonly url: string;
  readonly title?: string;
  readonly text: string;
  /** Whether the page is longer than `text`. */
  readonly isCut: boolean;
}

/** `problem` is a sentence for the model, and contains nothing that the page said. */
export type Fetched = WebPage | { readonly problem: string };

/**
 * Reads a page of the web as text. Every address, also that of a redirect, follows the rules of outbound requests and of
 * `PLATFORM_SANDBOX_EGRESS`. Throws the reason of `signal` once it is aborted.
 */
export async function fetchPage(deps: WebDeps, address: string, signal: AbortSignal): Promise<Fetched> {
  return timed(deps, signal, PAGE_SECONDS, async (within) => {
    let url = secured(deps, address);
    for (let redirects = 0; ; redirects++) {
      const problem = toolServerUrlProblem(deps.config, url);
      if (problem !== undefined) return { problem: `${nameOf(url)} cannot be fetched: ${problem}.` };
      const answer = await deps.exchanges.exchange({
        method: 'GET',
        url,
        headers: { accept: ACCEPT, 'accept-encoding': 'gzip, deflate, br', ...deps.traceHeaders },
        signal: within,
      });
      const { location } = answer.headers;
      if (!REDIRECTS.includes(answer.status) || location === undefined) return await pageOf(answer, url, within);
      await discard(answer);
      if (redirects === MAX_REDIRECTS)
        return { problem: `${nameOf(url)} redirected more than ${MAX_REDIRECTS} times.` };
      url = secured(deps, URL.parse(location, url)?.href ?? location);
    }
  });
}

/**
 * Does work that ends after `seconds`, and turns failures of requests into a problem. Throws the reason of `signal` once
 * it is aborted.
 */
export async function timed<T>(
  { clock }: Pick<Deps, 'clock'>,
  signal: AbortSignal,
  seconds: number,
  work: (signal: AbortSignal) => Promise<T | { readonly problem: string }>,
): Promise<T | { readonly problem: string }> {
  const over = new AbortController();
  const late = clock.sleep(seconds * 1000, over.signal).then(
    () => over.abort(new Error('late')),
    () => {},
  );
  const within = AbortSignal.any([signal, over.signal]);
  try {
    return await work(within);
  } catch (error) {
    signal.throwIfAborted();
    if (over.signal.aborted) return { problem: `It did not answer within ${seconds} seconds.` };
    if (hasCode(error, 'OUTBOUND_FAILED')) return { problem: `There is no answer: ${(error as Error).message}.` };
    throw error;
  } finally {
    over.abort();
    await late;
  }
}

async function pageOf(answer: OutboundAnswer, url: string, signal: AbortSignal): Promise<Fetched> {
  if (answer.status < 200 || answer.status > 299) {
    await discard(answer);
    return { problem: `${nameOf(url)} answered ${answer.status}.` };
  }
  const given = answer.headers['content-type'] ?? '';
  const mediaType = given.split(';')[0]!.trim().toLowerCase();
  if (mediaType !== '' && !isText(mediaType)) {
    await discard(answer);
    const shown = /^[\w.+/-]{1,60}$/.test(mediaType) ? mediaType : 'something';
    return { problem: `${nameOf(url)} is ${shown}, and web_fetch reads only HTML, text and JSON.` };
  }
  const read = await bytesOf(answer);
  if ('problem' in read) return { problem: `${nameOf(url)} ${read.problem}.` };
  const { bytes, isCut } = read;
  if (bytes.subarray(0, 5).toString('latin1') === '%PDF-' || (mediaType === '' && bytes.includes(0))) {
    return { problem: `${nameOf(url)} is no text, and web_fetch reads only HTML, text and JSON.` };
  }
  const text = decoded(bytes, given);
  const isHtml = mediaType.includes('html') || (mediaType === '' && /^\s*<(?:!doctype html|html)/i.test(text));
  if (!isHtml) {
    const shown = text.slice(0, MAX_TEXT_CHARACTERS).toWellFormed();
    return { url, text: shown, isCut: isCut || text.length > MAX_TEXT_CHARACTERS };
  }
  const page = await markdownOf(text, { base: url, maxCharacters: MAX_TEXT_CHARACTERS, signal });
  return { url, ...(page.title && { title: page.title }), text: page.markdown, isCut: isCut || page.isCut };
}

const isText = (mediaType: string): boolean =>
  /^text\/|^application\/(?:.*\+)?(?:json|xml|xhtml|yaml)$|^application\/(?:x-)?(?:ndjson|javascript|yaml)$/.test(
    mediaType,
  ) || mediaType === 'application/xhtml+xml';

/** Reads at most {@link MAX_PAGE_BYTES} of a body, and of what it is packed from. */
export async function bytesOf(
  { headers, body }: OutboundAnswer,
  maxBytes = MAX_PAGE_BYTES,
): Promise<{ readonly bytes: Buffer; readonly isCut: boolean } | { readonly problem: string }> {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity') return collected(body, maxBytes);
  const unpack = { gzip: createGunzip, 'x-gzip': createGunzip, deflate: createInflate, br: createBrotliDecompress }[
    encoding
  ];
  if (unpack === undefined) return { problem: 'is packed in a way that web_fetch does not know' };
  const unpacked = unpack();
  const source = Readable.from(limited(body, maxBytes));
  source.on('error', (error) => unpacked.destroy(error));
  try {
    return await collected(source.pipe(unpacked), maxBytes);
  } catch (error) {
    if (String((error as { code?: unknown }).code).match(/^(Z_|ERR_BROTLI|ERR__ERROR|ERR_PADDING)/)) {
      return { problem: 'is packed wrongly' };
    }
    throw error;
  } finally {
    source.destroy();
    unpacked.destroy();
  }
}

/** A packed body has at most as many bytes as an unpacked one. */
async function* limited(body: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > maxBytes) return;
    yield chunk;
  }
}

async function collected(body: AsyncIterable<Uint8Array>, maxBytes: number) {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.byteLength;
    if (size > maxBytes) break;
  }
  return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), isCut: size > maxBytes };
}

/** Ends the connection without reading the body. */
async function discard({ body }: OutboundAnswer): Promise<void> {
  await body[Symbol.asyncIterator]()
    .return?.()
    .catch(() => {});
}

/** Decodes by the header, a mark at the beginning, or what the page says of itself; a wrong name means UTF-8. */
function decoded(bytes: Buffer, contentType: string): string {
  const named = /charset\s*=\s*"?([\w:.-]{1,40})/i;
  const beginning = bytes.subarray(0, 2048).toString('latin1');
  const label =
    named.exec(contentType)?.[1] ?? named.exec(/<meta[^>]{1,300}>/gi.exec(beginning)?.[0] ?? '')?.[1] ?? 'utf-8';
  const marked =
    bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le' : bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : label;
  try {
    return new TextDecoder(marked).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes);
  }
}

/** Uses https where an address says http, except on the operator's own hosts. */
function secured({ config }: Pick<Deps, 'config'>, address: string): string {
  const url = URL.parse(address);
  if (url?.protocol !== 'http:' || url.port !== '' || isOnHostList(url.hostname, config.outboundHosts)) return address;
  url.protocol = 'https:';
  return url.href;
}

/** The host of an address: the rest may be long, and secret. */
const nameOf = (address: string): string => URL.parse(address)?.host.slice(0, 100) || 'The address';
