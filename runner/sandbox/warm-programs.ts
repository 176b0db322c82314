import { availableParallelism, totalmem } from 'node:os';
import {
  type ExecRequest,
  SandboxFileError,
  type SandboxLimits,
  type SandboxReuse,
  type SandboxSession,
  type SandboxSpec,
} from '#core/ports/sandbox.ts';
import { type WarmHost, WarmProgram } from './warm-program.ts';

/** Idle programs cost only their memory. */
const IDLE_PER_PROCESSOR = 16;
const IDLE_BYTES_EACH = 512 * 1024 * 1024;
const MIN_IDLE = 4;

/** A program and the sandbox that it has to itself. */
interface Place {
  readonly owner: string;
  /** What its sessions have in common. */
  readonly key: string;
  /** Values that end the programs of a key when they change. */
  readonly secrets: string;
  readonly session: Promise<WarmHost>;
  readonly reuse: SandboxReuse;
  /** Started by the first input. */
  program?: WarmProgram;
  /** Number of sessions that use it. */
  taken: number;
  /** Runs while no session uses it. */
  idleTimer?: NodeJS.Timeout;
}

type ReusableSpec = SandboxSpec & Required<Pick<SandboxSpec, 'reuse' | 'owner' | 'kind'>>;

/** Whether the host may serve a session with a program of an earlier one. */
export const isReusable = (spec: SandboxSpec): spec is ReusableSpec =>
  spec.reuse !== undefined && spec.owner !== undefined && spec.kind !== undefined;

/**
 * The programs of a host that stay for further inputs ({@link SandboxSpec.reuse}): a session gets one that an earlier
 * session with the same key has left, or starts another.
 */
export class WarmPrograms {
  readonly #maxIdle: number;
  /** Those that were used last come last. */
  readonly #places = new Set<Place>();

  /** @param options.maxIdle Number of programs that stay although no session uses them. @default - by the machine's size */
  constructor({ maxIdle = defaultMaxIdle() }: { maxIdle?: number } = {}) {
    this.#maxIdle = maxIdle;
  }

  /** @param openFresh Opens a session for a further program. */
  async open(spec: ReusableSpec, openFresh: () => Promise<WarmHost>): Promise<SandboxSession> {
    const key = await keyOf(spec);
    for (const place of this.#places) {
      if (place.key === key && place.secrets !== spec.reuse.secrets) this.#retire(place);
    }
    const place =
      [...this.#places].findLast((each) => each.key === key && hasRoom(each)) ?? this.#add(spec, key, openFresh);
    place.taken++;
    clearTimeout(place.idleTimer);
    try {
      await place.session;
    } catch (error) {
      this.#places.delete(place);
      throw error;
    }
    const start = async (command: string) =>
      this.#programOf(place, await place.session, { command, limits: spec.limits });
    return new WarmSession(place, { start, onClose: () => this.#leave(place) });
  }

  /** Number of programs that no session uses. */
  get idle(): number {
    return this.#idlePlaces().length;
  }

  async endIdle(): Promise<void> {
    await Promise.all(this.#idlePlaces().map((place) => this.#end(place)));
  }

  #idlePlaces(): Place[] {
    return [...this.#places].filter(({ taken }) => taken === 0);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#places].map((place) => this.#end(place)));
  }

  #add({ owner, reuse }: ReusableSpec, key: string, openFresh: () => Promise<WarmHost>): Place {
    const place: Place = { owner, key, secrets: reuse.secrets, reuse, session: openFresh(), taken: 0 };
    place.session.catch(() => {});
    this.#places.add(place);
    return place;
  }

  #programOf(place: Place, session: WarmHost, start: { command: string; limits: SandboxLimits }): WarmProgram {
    if (place.program === undefined) {
      place.program = new WarmProgram(session, { ...start, reuse: place.reuse });
      // A session may still read its files.
      void place.program.ended.then(() => (place.taken === 0 ? this.#end(place) : undefined));
    }
    return place.program;
  }

  #leave(place: Place): void {
    place.taken--;
    if (!this.#places.has(place)) return;
    if (place.program === undefined || place.program.isSpent) {
      if (place.taken === 0) void this.#end(place);
      return;
    }
    this.#places.delete(place);
    this.#places.add(place);
    if (place.taken > 0) return;
    place.idleTimer = setTimeout(() => void this.#end(place), place.reuse.idleMs).unref();
    this.#endSurplus();
  }

  /** Ends an idle program if there are too many: of the owner with the most, the one that was used longest ago. */
  #endSurplus(): void {
    const idle = this.#idlePlaces();
    if (idle.length <= this.#maxIdle) return;
    const byOwner = [...Map.groupBy(idle, ({ owner }) => owner).values()];
    const [most] = byOwner.sort((a, b) => b.length - a.length);
    void this.#end(most![0]!);
  }

  /** Lets it end with the inputs that it works on. */
  #retire(place: Place): void {
    if (place.taken === 0) void this.#end(place);
    else place.program?.end();
  }

  async #end(place: Place): Promise<void> {
    clearTimeout(place.idleTimer);
    if (!this.#places.delete(place)) return;
    const session = await place.session.catch(() => undefined);
    await session?.close();
  }
}

const defaultMaxIdle = (): number =>
  Math.max(
    MIN_IDLE,
    Math.min(availableParallelism() * IDLE_PER_PROCESSOR, Math.floor(totalmem() / 4 / IDLE_BYTES_EACH)),
  );

/** Before its first input, a place has room for the session that opens it, and for others if it takes several inputs. */
const hasRoom = ({ program, taken, reuse }: Place): boolean =>
  taken < reuse.concurrency && (program === undefined ? taken > 0 : program.hasRoom);

async function keyOf(spec: ReusableSpec): Promise<string> {
  const { owner, bundle, layer, layerSha256, egress, egressTargets, limits, kind } = spec;
  return JSON.stringify([owner, bundle, layer, layerSha256, egress, egressTargets, limits, await kind()]);
}

/** One input of a warm program. */
class WarmSession implements SandboxSession {
  readonly #place: Place;
  readonly #start: (command: string) => Promise<WarmProgram>;
  readonly #onClose: () => void;
  #isClosed = false;

  constructor(
    place: Place,
    { start, onClose }: { readonly start: (command: string) => Promise<WarmProgram>; readonly onClose: () => void },
  ) {
    this.#place = place;
    this.#start = start;
    this.#onClose = onClose;
  }

  async *exec(request: ExecRequest) {
    const { call, command } = request;
    if (call === undefined) throw new Error('a warm program takes inputs with an id');
    const program = await this.#start(command);
    yield* program.exec({ ...request, call });
  }

  async writeFile(path: string): Promise<void> {
    throw new SandboxFileError(`cannot write ${path}: the files of a warm program are those of all its inputs`);
  }

  async readFile(path: string) {
    return (await this.#place.session).readFile(path);
  }

  async listFiles(path: string, options?: { recursive?: boolean }) {
    return (await this.#place.session).listFiles(path, options);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onClose();
  }
}
