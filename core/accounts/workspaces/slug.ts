import { isReservedSlug } from '#core/base/reserved-slugs.ts';

const MAX_LENGTH = 50;

/** Derives a slug from a name, as clients do; `undefined` if the result is empty or reserved. */
export function slugFrom(name: string): string | undefined {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_LENGTH)
    .replaceAll(/^-|-$/g, '');
  return slug === '' || isReservedSlug(slug) ? undefined : slug;
}
