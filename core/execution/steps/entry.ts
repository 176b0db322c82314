import type { Json } from '#core/base/json.ts';

/** What a program says that it did. `suspension`: it ended to wait. */
export const SENT_KINDS = ['step', 'ask_human', 'sleep', 'event_url', 'wait_for_event', 'suspension'] as const;
/** `start`: the platform started it again. */
export const ENTRY_KINDS = [...SENT_KINDS, 'start'] as const;
export type EntryKind = (typeof ENTRY_KINDS)[number];

/** Identifies what a program did: the third call of `step("charge")` has the number 3. */
export interface EntryName {
  readonly kind: EntryKind;
  /** Name of the step or event, or the question. Empty for others. */
  readonly text: string;
  /** From 1, among those of the same kind and text, in the order in which they began. */
  readonly number: number;
}

/** What a program waits for. */
export interface WaitTerms {
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  readonly options?: readonly string[];
  /** JSON Schema of the answer. */
  readonly schema?: { readonly [member: string]: Json };
}

/** How a step or a wait ended. */
export type EntryEnd =
  | { readonly value: Json }
  | { readonly error: { readonly code: 'TIMEOUT'; readonly message: string } };

/** One entry of the list of what a program did, in the order in which its values were known. */
export type Entry = EntryName & (EntryEnd | { readonly wait: WaitTerms } | { readonly marks: 'suspended' | 'started' });

export type PlacedEntry = Entry & { readonly position: number };
export type PlacedWait = EntryName & { readonly position: number; readonly wait: WaitTerms };

export const isSameName = (a: EntryName, b: EntryName): boolean =>
  a.kind === b.kind && a.text === b.text && a.number === b.number;

/** Names an entry in messages. */
export const shownName = ({ kind, text, number }: EntryName): string =>
  `${text === '' ? kind : `${kind} ${JSON.stringify(text.slice(0, 200))}`} (${number})`;
