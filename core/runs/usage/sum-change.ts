import type { Key } from '#core/ports/table.ts';

/** Amounts that are added to an item, and attributes that describe it. */
export interface SumChange {
  readonly key: Key;
  readonly set: { readonly [attribute: string]: string | number };
  readonly add: { readonly [attribute: string]: number };
}
