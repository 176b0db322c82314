import type { Config } from '#core/base/config.ts';
import type { BodyLimit } from './body.ts';

/** Limit of a request's own body, if the body and its uploads together may have `limit` bytes. */
export function directLimit(config: Pick<Config, 'maxDirectBodyBytes'>, limit: number): BodyLimit {
  const bytes = config.maxDirectBodyBytes ?? limit;
  if (bytes >= limit) return { bytes: limit };
  const max = `${Math.floor(limit / 1024 ** 2)} MB`;
  return {
    bytes,
    hint: `Upload larger data, up to ${max}, with POST /uploads (docs/calls.md, Large files).`,
  };
}
