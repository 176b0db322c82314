import { isReservedSlug } from '#core/base/reserved-slugs.ts';

const MAX_LENGTH = 50;

/** The slug that clients make of a name (`contract.md` 0.5); `undefined` when nothing is left of it or it is reserved. */
export function slugFrom(name: string): string | undefined {
  const slug = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_LENGTH)
    .replaceAll(/^-+|-+$/g, '');
  return slug === '' || isReservedSlug(slug) ? undefined : slug;
}
