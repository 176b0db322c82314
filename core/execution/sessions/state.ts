import { hasCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Item } from '#core/ports/table.ts';
import type { NewState } from '#core/runs/sessions/session.ts';
import {
  STATE_PARTS,
  STATE_VERSION,
  type StatePart,
  type StateParts,
  stateBlobKey,
  stateKey,
  statePartsOf,
} from '#core/runs/sessions/state.ts';
import { fromBytesJson, toBytesJson } from '../durable/bytes-json.ts';
import { RunSeal } from '../durable/sealing.ts';
import type { EngineResult } from '../engines/engine.ts';
import type { Said } from '../engines/loop/said.ts';
import { filesError } from '../engines/workspace-files.ts';

type StateDeps = Pick<Deps, 'runs' | 'blobs' | 'vault' | 'clock' | 'log'>;

interface StatePlace {
  readonly workspaceId: string;
  readonly sessionId: string;
}

/** Larger conversations are in a blob: writes to tables are charged by size. */
const MAX_INLINE_BYTES = 8 * 1024;

/** What a session gives to its next run besides its turns (`core/runs/sessions/state.ts`). */
export class SessionState {
  readonly #deps: StateDeps;
  readonly #place: StatePlace;
  readonly #sealedKey: string | undefined;
  /** The session for which the parts are sealed: forks have those of the session that they were forked from. */
  readonly #sealedFor: string;
  readonly #parts: StateParts;

  private constructor(deps: StateDeps, place: StatePlace, item: Item | undefined) {
    this.#deps = deps;
    this.#place = place;
    this.#sealedKey = item?.sealed_key as string | undefined;
    this.#sealedFor = (item?.sealed_for as string | undefined) ?? place.sessionId;
    this.#parts = statePartsOf(item);
  }

  /** Reads the state of a session, which is empty if no run has given one. */
  static async read(deps: StateDeps, place: StatePlace): Promise<SessionState> {
    const item = await deps.runs.get(stateKey(place.workspaceId, place.sessionId));
    return new SessionState(deps, place, item?.version === STATE_VERSION ? item : undefined);
  }

  /** Returns what was said. If it is damaged, a loop begins with the turns of the session, as a prompt does. */
  async conversation(): Promise<(Said & { readonly after: number }) | undefined> {
    const { conversation: part } = this.#parts;
    if (part === undefined) return undefined;
    try {
      const sealed = part.data === undefined ? await this.#blob(part.blob!) : Buffer.from(part.data, 'base64');
      if (sealed !== undefined) {
        const said = fromBytesJson((await this.#seal()).open(`conversation-${part.after}`, sealed)) as Said;
        return { ...said, after: part.after };
      }
    } catch (error) {
      if (!hasCode(error, 'DAMAGED')) throw error;
    }
    this.#deps.log.error('conversation of a session lost', { session_id: this.#place.sessionId });
    return undefined;
  }

  /**
   * Reads the files, as a snapshot; `undefined` if there are none. Throws INTERNAL_ERROR if they are damaged or missing.
   *
   * @param bundle That of the sandbox for which they are read.
   */
  async files(
    bundle: string | undefined,
  ): Promise<{ readonly content: Uint8Array; readonly isOtherBundle: boolean } | undefined> {
    const { files: part } = this.#parts;
    if (part === undefined) return undefined;
    const sealed = await this.#blob(part.blob!);
    if (sealed === undefined) throw filesError('Their snapshot is missing.');
    try {
      const pieces = (await this.#seal()).openPieces(`files-${part.after}`, sealed);
      return { content: Buffer.concat(await Array.fromAsync(pieces)), isOtherBundle: part.bundle !== bundle };
    } catch (error) {
      if (hasCode(error, 'DAMAGED')) throw filesError('Their snapshot is damaged.');
      throw error;
    }
  }

  /**
   * Stores what a run gives to the next one, beside what is stored: it becomes the state with the end of the run. Returns
   * `undefined` if nothing has changed.
   *
   * @param bundle That of the run's sandbox.
   */
  async keep(
    { conversation, files }: Pick<EngineResult, 'conversation' | 'files'>,
    { number: after, bundle }: { readonly number: number; readonly bundle: string | undefined },
  ): Promise<NewState | undefined> {
    if (conversation === undefined && files === undefined) return undefined;
    const { key, sealed: sealed_key } = await this.#key();
    const seal = new RunSeal(key, this.#sealedFor);
    const [said, kept] = await Promise.all([
      conversation && this.#conversationPart(seal.seal(`conversation-${after}`, toBytesJson(conversation)), after),
      files && this.#filesPart(seal.sealPieces(`files-${after}`, files), { after, bundle, bytes: files.byteLength }),
    ]);
    return this.#newState(sealed_key, { ...(said && { conversation: said }), ...(kept && { files: kept }) });
  }

  #newState(sealedKey: string, parts: StateParts): NewState {
    const now = { ...this.#parts, ...parts };
    const replaced = STATE_PARTS.filter((name) => parts[name] !== undefined).map((name) => this.#parts[name]);
    const bytesOf = (each: StateParts) => STATE_PARTS.reduce((sum, name) => sum + (each[name]?.bytes ?? 0), 0);
    const item = {
      version: STATE_VERSION,
      sealed_key: sealedKey,
      sealed_for: this.#sealedFor,
      ...(now as { readonly [name: string]: Json }),
    };
    return {
      item,
      replaces: replaced.flatMap((part) => part?.blob ?? []),
      growth: bytesOf(now) - bytesOf(this.#parts),
    };
  }

  async #conversationPart(sealed: Buffer, after: number): Promise<StatePart> {
    const bytes = sealed.byteLength;
    if (bytes <= MAX_INLINE_BYTES) return { after, bytes, data: sealed.toString('base64') };
    return { after, bytes, blob: await this.#put(`conversation-${after}`, sealed) };
  }

  async #filesPart(
    pieces: AsyncIterable<Uint8Array>,
    { bundle, ...part }: { readonly after: number; readonly bytes: number; readonly bundle: string | undefined },
  ): Promise<StatePart> {
    const blob = await this.#put(`files-${part.after}`, pieces);
    return { ...part, blob, ...(bundle !== undefined && { bundle }) };
  }

  /** Stores a blob under a name that no other run uses, and returns the name. */
  async #put(prefix: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<string> {
    const name = `${prefix}-${this.#deps.clock.now()}`;
    await this.#deps.blobs.put(stateBlobKey(this.#place.workspaceId, this.#place.sessionId, name), content);
    return name;
  }

  #blob(name: string): Promise<Uint8Array | undefined> {
    return this.#deps.blobs.get(stateBlobKey(this.#place.workspaceId, this.#place.sessionId, name));
  }

  async #key(): Promise<{ readonly key: Uint8Array; readonly sealed: string }> {
    const { vault } = this.#deps;
    if (this.#sealedKey === undefined) return vault.newDataKey(this.#place.workspaceId);
    return { key: await vault.openDataKey(this.#place.workspaceId, this.#sealedKey), sealed: this.#sealedKey };
  }

  async #seal(): Promise<RunSeal> {
    return new RunSeal((await this.#key()).key, this.#sealedFor);
  }
}
