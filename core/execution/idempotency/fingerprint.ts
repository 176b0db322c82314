import { createHash } from 'node:crypto';
import { targetOf } from '#core/http/message.ts';
import type { CallInput } from '../input/call-input.ts';

/**
 * Hash of a call's request: path, query, input, model and its settings. Equal for equal requests. It excludes the host
 * and
 * the caller's provider key.
 */
export function fingerprintOf(url: string, { document, uploads, isMultipart, llmCredentials }: CallInput): string {
  const { path, query } = targetOf(url)!;
  const { provider, model, settings } = llmCredentials ?? {};
  // The document lists the uploads by name, type and size.
  const text = JSON.stringify([path, query && `?${query}`, isMultipart, document, provider, model, settings]);
  const hash = createHash('sha256').update(text);
  for (const { content } of uploads) hash.update(content);
  return hash.digest('hex');
}
