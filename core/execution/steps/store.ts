import { PlatformError } from '#core/base/errors.ts';
import { sizeText } from '#core/base/size-text.ts';
import type { Deps } from '#core/ports/deps.ts';
import { MAX_INLINE_BYTES } from '#core/ports/large-value.ts';
import { absent, type Item, type Key, queryAll } from '#core/ports/table.ts';
import { MAX_WAITING_CALLS } from '#core/runs/approvals/approval.ts';
import { journalBlobKey, journalPartition } from '#core/runs/items.ts';
import { MAX_JOURNAL_BYTES } from '../durable/journal.ts';
import { DamagedError } from '../durable/sealing.ts';
import { type Entry, type EntryEnd, isSameName, type PlacedEntry, type PlacedWait, shownName } from './entry.ts';
import { openSteps, type StepTerms } from './terms.ts';

/** Their positions are the turns in the ids of approvals, which have four digits. */
export const MAX_ENTRIES = 9999;
/** Size of a page of entries. One more may be read, which has at most 1 MB. */
const PAGE_BYTES = 3 * 1024 * 1024;
const PREFIX = 'DONE#';
const VERSION = 1;

type StepDeps = Pick<Deps, 'runs' | 'blobs' | 'vault' | 'clock'>;

/**
 * What the program of a durable run did, in the order in which its values were known. Runs table:
 *
 * - `WS#<workspace id>#JOURNAL#<run id without dashes> / DONE#<position, 6 digits>`: one entry, sealed as the journal is, here
 *   or in a blob, with the size of all entries so far, the number of those that wait, and that of those
 *   that are no marks.
 *
 * Positions have no gaps, and each entry is written only if its position is free. The program writes its steps and waits.
 * Before it is started again, the process that has the run writes what was decided, and that it starts. That is the fence: a
 * program of an earlier start that still works cannot write any more.
 */
export class ProgramSteps {
  readonly #deps: StepDeps;
  readonly #place: { readonly workspaceId: string; readonly runId: string };
  readonly terms: StepTerms;

  private constructor(deps: StepDeps, place: { workspaceId: string; runId: string }, terms: StepTerms) {
    this.#deps = deps;
    this.#place = place;
    this.terms = terms;
  }

  /** Returns `undefined` for a run whose program does no steps. */
  static async open(
    deps: StepDeps,
    { workspaceId, runId }: { readonly workspaceId: string; readonly runId: string },
  ): Promise<ProgramSteps | undefined> {
    const terms = await openSteps(deps, workspaceId, runId);
    return terms && new ProgramSteps(deps, { workspaceId, runId }, terms);
  }

  /** Number of steps and waits that have begun or ended. */
  async progress(): Promise<number> {
    return ((await this.#last())?.done as number | undefined) ?? 0;
  }

  /** Returns entries in order, after a position; `hasMore` if others follow. Throws {@link DamagedError}. */
  async page(after: number): Promise<{ readonly entries: PlacedEntry[]; readonly hasMore: boolean }> {
    const entries: PlacedEntry[] = [];
    let bytes = 0;
    for await (const item of this.#after(after)) {
      if (bytes > PAGE_BYTES) return { entries, hasMore: true };
      const { entry, size } = await this.#open(item);
      entries.push(entry);
      bytes += size;
    }
    return { entries, hasMore: false };
  }

  /**
   * Writes an entry at the position that the program gives it. Returns the entry that is kept: if an earlier request wrote
   * it, that one's.
   *
   * Throws CONFLICT if another entry has the position, or if there is none before it; UNPROCESSABLE if there are too many or
   * if they are too large together.
   */
  async put(position: number, entry: Entry): Promise<PlacedEntry> {
    const found = await this.#find(position);
    if (found !== undefined) return this.#kept(found, entry);
    const last = position === 1 ? undefined : await this.#find(position - 1);
    if (position > 1 && last === undefined) {
      throw new PlatformError('CONFLICT', `body.position: the run has fewer than ${position - 1} steps.`);
    }
    if ('wait' in entry && (last?.open as number | undefined) === MAX_WAITING_CALLS) {
      throw new PlatformError('UNPROCESSABLE', `A run waits for at most ${MAX_WAITING_CALLS} things at the same time.`);
    }
    if (await this.#write(last, entry)) return { ...entry, position };
    return this.#kept((await this.#find(position))!, entry);
  }

  /**
   * Writes how waits ended, and that the program starts again. Returns the position of that entry. Safe to repeat: waits that
   * have ended are left out.
   */
  async start(ends: ReadonlyMap<number, EntryEnd>): Promise<number> {
    for (const { position, wait: _, ...name } of await this.waits()) {
      const end = ends.get(position);
      if (end !== undefined) await this.#append({ ...name, ...end }, position);
    }
    return this.#append({ kind: 'start', text: '', number: 1, marks: 'started' });
  }

  /** Writes an entry after all others, whatever a program of an earlier start writes meanwhile. Returns its position. */
  async #append(entry: Entry, of?: number): Promise<number> {
    for (;;) {
      const last = await this.#last();
      if (await this.#write(last, entry, of)) return last === undefined ? 1 : positionOf(last) + 1;
    }
  }

  /** Returns what the program waits for, in order, and has no value yet. */
  async waits(): Promise<PlacedWait[]> {
    const open = new Map<number, Item>();
    for await (const item of this.#after(0)) {
      if (item.type === 'wait') open.set(positionOf(item), item);
      if (item.of !== undefined) open.delete(item.of as number);
    }
    const entries = await Promise.all([...open.values()].map(async (item) => (await this.#open(item)).entry));
    return entries as PlacedWait[];
  }

  /** Whether the last thing that the program did, after an entry of an earlier start, was to end because it waits. */
  async isSuspended(after: number): Promise<boolean> {
    const last = await this.#last();
    return last !== undefined && last.type === 'suspended' && positionOf(last) > after;
  }

  async #kept(item: Item, wanted: Entry): Promise<PlacedEntry> {
    const { entry } = await this.#open(item);
    if (isSameName(entry, wanted)) return entry;
    throw new PlatformError(
      'CONFLICT',
      `Position ${entry.position} of this run has ${shownName(entry)}, not ${shownName(wanted)}.`,
      {
        hint: 'A program does its steps in the same order whenever it is started. Only one process of a run does steps.',
      },
    );
  }

  /** Writes an entry after `last`. Returns false if the position is taken. */
  async #write(last: Item | undefined, entry: Entry, of?: number): Promise<boolean> {
    const position = last === undefined ? 1 : positionOf(last) + 1;
    if (position > MAX_ENTRIES) {
      throw new PlatformError('UNPROCESSABLE', `A run has at most ${MAX_ENTRIES} steps, waits among them.`, {
        hint: 'Do more in each step, or let the run call its own agent for the rest.',
      });
    }
    const key = this.#key(position);
    const sealed = this.terms.seal.seal(key.sk, Buffer.from(JSON.stringify(entry)));
    const bytes = ((last?.bytes as number | undefined) ?? 0) + sealed.byteLength;
    if (bytes > MAX_JOURNAL_BYTES) {
      throw new PlatformError(
        'UNPROCESSABLE',
        `The values of all steps of the run are larger than ${sizeText(MAX_JOURNAL_BYTES)}.`,
        { hint: 'Let the steps return less, or write it to storage and return its key.' },
      );
    }
    const isLarge = sealed.byteLength > MAX_INLINE_BYTES;
    const blob = `${key.sk.replace('#', '-')}-${this.#deps.clock.now()}`;
    if (isLarge) await this.#deps.blobs.put(this.#blobKey(blob), sealed);
    const type = typeOf(entry);
    const open = ((last?.open as number | undefined) ?? 0) + (type === 'wait' ? 1 : of === undefined ? 0 : -1);
    const done = ((last?.done as number | undefined) ?? 0) + ('marks' in entry ? 0 : 1);
    const item: Item = {
      ...key,
      version: VERSION,
      type,
      bytes,
      open,
      done,
      of,
      ...(isLarge ? { blob } : { data: sealed.toString('base64') }),
      ttl: this.terms.ttl,
    };
    return (await this.#deps.runs.put(item, absent())).ok;
  }

  async #open(item: Item): Promise<{ readonly entry: PlacedEntry; readonly size: number }> {
    const { runId } = this.#place;
    const position = positionOf(item);
    if (item.version !== VERSION) {
      throw new DamagedError(`The steps of the run ${runId} were written by another version of the platform.`);
    }
    const sealed =
      item.data === undefined
        ? await this.#deps.blobs.get(this.#blobKey(item.blob as string))
        : Buffer.from(item.data as string, 'base64');
    if (sealed === undefined) throw new DamagedError(`Step ${position} of the run ${runId} is missing.`);
    const content = this.terms.seal.open(item.sk, sealed);
    return { entry: { ...JSON.parse(content.toString()), position }, size: content.byteLength };
  }

  async #find(position: number): Promise<Item | undefined> {
    return this.#deps.runs.get(this.#key(position));
  }

  async #last(): Promise<Item | undefined> {
    const { pk } = this.#key(1);
    const { items } = await this.#deps.runs.query({ pk, sk: { beginsWith: PREFIX }, reverse: true, limit: 1 });
    return items[0];
  }

  #after(position: number) {
    const { pk, sk } = this.#key(position);
    return queryAll(this.#deps.runs, { pk, sk: { between: [`${sk}~`, `${PREFIX}~`] }, limit: 50 });
  }

  #key(position: number): Key {
    const { workspaceId, runId } = this.#place;
    return { pk: journalPartition(workspaceId, runId), sk: `${PREFIX}${String(position).padStart(6, '0')}` };
  }

  #blobKey(name: string): string {
    return journalBlobKey(this.#place.workspaceId, this.#place.runId, name);
  }
}

const typeOf = (entry: Entry): 'end' | 'wait' | 'suspended' | 'started' =>
  'wait' in entry ? 'wait' : 'marks' in entry ? entry.marks : 'end';

const positionOf = ({ sk }: Item): number => Number(sk.slice(PREFIX.length));
