import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { hasCode } from '#core/base/errors.ts';
import { threadEnvironment } from '#core/base/thread-environment.ts';
import type { TableName } from '#core/ports/table-rules.ts';
import { isEmpty as isEmptyData, MIGRATIONS, type Migration, migrate, newerData, versionOf } from './data-version.ts';
import { Journal, journalFiles, readJournal } from './journal.ts';
import { type Row, TABLES, WrittenRows } from './rows.ts';
import { type Answer, type Order, PRAGMAS, THREAD, THREAD_URL } from './thread.ts';

const SQLITE_BUSY = 5;

/** Time for which rows are batched: if a key is written several times, only the last state reaches the database. */
const WRITE_MS = 250;
const RETRY_MS = 1_000;
/** Batch size that is written without further delay. */
const WRITE_BYTES = 4 * 1024 ** 2;
/** Writers wait while more than this has not reached the database. */
const MAX_WAITING_BYTES = 32 * 1024 ** 2;
/** Batch size of an in-memory database, which has no journal. Batches let tests see rows in both states. */
const MEMORY_BATCH = 32;

/** The one database file of a local host, owned by one process. */
export interface Database {
  /** For reading, combined with {@link Database.waiting}. */
  readonly db: DatabaseSync;
  /**
   * Writes the rows in one group with all others of this turn of the event loop, and resolves when they are in the
   * journal. Readers see them at once. If one write fails, the whole group fails and is rolled back.
   */
  write(rows: readonly Row[]): Promise<void>;
  /** Returns the latest state of a key if it is not in `db` yet. */
  waiting(table: TableName, name: string): Row | undefined;
  /** Returns those of the rows that {@link Database.waiting} would return that are wanted. */
  allWaiting(table: TableName, isWanted: (row: Row) => boolean): Row[];
  hasWaiting(table: TableName): boolean;
  /** Returns a number that grows whenever the contents of the table change, other than by the removal of expired items. */
  changes(table: TableName): number;
  /** Flushes everything written so far into `db`. Throws if that fails. */
  settle(): Promise<void>;
  /** Removes at most `limit` items that expired by `now` (epoch seconds), and returns their number. */
  purge(table: TableName, now: number, limit: number): Promise<number>;
  /** Returns at most `maxPages` unused pages of the file to the disk, if many are unused, and their number. */
  shrink(maxPages: number): Promise<number>;
  /** Flushes everything into the one file and releases it for other processes. */
  close(): Promise<void>;
}

/**
 * Opens the database file. `:memory:` opens a database that lives as long as its connection.
 *
 * A write is acknowledged when it is in the journal beside the file (`journal.ts`). A thread applies the journal to the
 * database; until then tables read these rows from memory. After a crash the next start applies it.
 *
 * The process holds an operating system lock on a file beside the database until it ends, so a second process is
 * refused, and a crash leaves no lock behind. Since no other process writes, tables may read and then write without
 * further locks. The process id beside the file is only used in the error message.
 *
 * Data of an older version is copied and then migrated. Throws {@link DatabaseInUseError} if another process uses it,
 * `DataVersionError` if a newer platform wrote it. `warn` gets messages for the operator.
 */
export function openDatabase(
  path: string,
  warn: (message: string) => void = () => {},
  migrations: readonly Migration[] = MIGRATIONS,
): Database {
  if (path === ':memory:') return new MemoryDatabase();
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const unlock = lock(path);
  try {
    return new FileDatabase(path, unlock, warn, migrations);
  } catch (error) {
    unlock();
    // A process of an earlier platform version locked the database file itself.
    if (isBusy(error)) throw new DatabaseInUseError(path, readPid(path));
    throw error;
  }
}

type Layer = Record<TableName, Map<string, Row>>;
const emptyLayer = (): Layer => ({ main: new Map(), runs: new Map(), counters: new Map() });
const isEmpty = (layer: Layer): boolean => layer.main.size + layer.runs.size + layer.counters.size === 0;

/** Rows written in one turn of the event loop, and the rows that they replaced. */
interface Group {
  /** `undefined` for a row that was replaced in the same turn. */
  readonly rows: (Row | undefined)[];
  readonly replaced: (Row | undefined)[];
  /** Index of each row in `rows`. */
  readonly places: Map<Row, number>;
  readonly done: PromiseWithResolvers<void>;
}

/** Rows in memory that are newer than the database, in groups. */
abstract class WaitingRows {
  protected newest = emptyLayer();
  readonly #changes: Record<TableName, number> = { main: 0, runs: 0, counters: 0 };
  #group: Group | undefined;
  #isClosed = false;

  /** Persists the rows. If it throws, they are rolled back. */
  protected abstract keep(rows: readonly Row[]): void;
  /** Called after rows were persisted. Their writers wait for the returned promise. */
  protected abstract afterKeeping(): Promise<void> | undefined;

  write(rows: readonly Row[]): Promise<void> {
    if (this.#isClosed) return Promise.reject(new Error('the database is closed'));
    this.#group ??= this.#open();
    const group = this.#group;
    for (const row of rows) {
      this.#changes[row.table] += 1;
      const layer = this.newest[row.table];
      const before = layer.get(row.name);
      layer.set(row.name, row);
      const place = before && group.places.get(before);
      if (place !== undefined) {
        group.rows[place] = undefined;
        group.replaced.push(group.replaced[place]);
      } else {
        group.replaced.push(before);
      }
      group.places.set(row, group.rows.length);
      group.rows.push(row);
    }
    return group.done.promise;
  }

  changes(table: TableName): number {
    return this.#changes[table];
  }

  /** Closes this turn's group early. */
  protected endGroup(): void {
    if (this.#group) this.#end(this.#group);
  }

  protected endWrites(): void {
    this.endGroup();
    this.#isClosed = true;
  }

  #open(): Group {
    const group: Group = { rows: [], replaced: [], places: new Map(), done: Promise.withResolvers() };
    setImmediate(() => {
      if (this.#group === group) this.#end(group);
    });
    return group;
  }

  #end(group: Group): void {
    this.#group = undefined;
    try {
      this.keep(group.rows.filter((row) => row !== undefined));
    } catch (error) {
      this.#giveUp(group);
      group.done.reject(error);
      return;
    }
    group.done.resolve(this.afterKeeping());
  }

  #giveUp({ rows, replaced }: Group): void {
    for (const [place, row] of rows.entries()) {
      if (row === undefined) continue;
      this.#changes[row.table] += 1;
      const before = replaced[place];
      if (before) this.newest[row.table].set(row.name, before);
      else this.newest[row.table].delete(row.name);
    }
  }
}

class MemoryDatabase extends WaitingRows implements Database {
  readonly db = new DatabaseSync(':memory:');
  readonly #written: WrittenRows;

  constructor() {
    super();
    this.db.exec(TABLES);
    this.#written = new WrittenRows(this.db);
  }

  protected keep(): void {}

  protected afterKeeping(): undefined {
    const { main, runs, counters } = this.newest;
    if (main.size + runs.size + counters.size >= MEMORY_BATCH) this.#settle();
  }

  waiting(table: TableName, name: string): Row | undefined {
    return this.newest[table].get(name);
  }

  allWaiting(table: TableName, isWanted: (row: Row) => boolean): Row[] {
    return wantedOf(this.newest[table], isWanted);
  }

  hasWaiting(table: TableName): boolean {
    return this.newest[table].size > 0;
  }

  async settle(): Promise<void> {
    this.endGroup();
    this.#settle();
  }

  async purge(table: TableName, now: number, limit: number): Promise<number> {
    await this.settle();
    return this.#written.purge(table, now, limit);
  }

  async shrink(): Promise<number> {
    return 0;
  }

  async close(): Promise<void> {
    this.endWrites();
    if (this.db.isOpen) this.db.close();
  }

  #settle(): void {
    const { main, runs, counters } = this.newest;
    this.#written.apply([...main.values(), ...runs.values(), ...counters.values()]);
    this.newest = emptyLayer();
  }
}

class FileDatabase extends WaitingRows implements Database {
  readonly db: DatabaseSync;
  readonly #path: string;
  readonly #unlock: () => void;
  readonly #warn: (message: string) => void;
  readonly #journal: Journal;
  readonly #thread: WriterThread;
  /** Rows that the thread is writing. A row of the same name in `newest` takes precedence. */
  #older = emptyLayer();
  /** Journal file that contains `older`. */
  #file: string | undefined;
  #writing: Promise<void> | undefined;
  #problem: Error | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(path: string, unlock: () => void, warn: (message: string) => void, migrations: readonly Migration[]) {
    super();
    this.#path = path;
    this.#unlock = unlock;
    this.#warn = warn;
    // SQLite creates its side files with the mode of this one.
    closeSync(openSync(path, 'a', 0o600));
    this.db = new DatabaseSync(path);
    try {
      this.#journal = new Journal(path, this.#prepare(migrations) + 1);
    } catch (error) {
      this.db.close();
      throw error;
    }
    writeFileSync(pidFile(path), `${process.pid}\n`);
    this.#thread = new WriterThread(path);
  }

  /** Returns the number of the journal's last file. */
  #prepare(migrations: readonly Migration[]): number {
    const known = migrations.at(-1)!.version;
    const version = versionOf(this.db);
    if (version > known) throw newerData(this.#path, version, known);
    this.db.exec(PRAGMAS);
    if (isEmptyData(this.db)) migrate(this.db, this.#path, migrations);
    // Rows in the journal have the format of the version that wrote them.
    const last = this.#recover();
    const copy = migrate(this.db, this.#path, migrations);
    if (copy !== undefined) {
      this.#warn(`the data was migrated from version ${version} to ${known}; a copy of the old data is in ${copy}`);
    }
    return last;
  }

  protected keep(rows: readonly Row[]): void {
    if (this.#problem && this.#journal.bytes > MAX_WAITING_BYTES) throw this.#problem;
    this.#journal.append(rows);
  }

  protected afterKeeping(): Promise<void> | undefined {
    const { bytes } = this.#journal;
    if (bytes > WRITE_BYTES && !this.#problem) this.#startWriting();
    else this.#timer ??= setTimeout(() => this.#startWriting(), WRITE_MS).unref();
    return bytes > MAX_WAITING_BYTES ? this.#writing : undefined;
  }

  waiting(table: TableName, name: string): Row | undefined {
    return this.newest[table].get(name) ?? this.#older[table].get(name);
  }

  allWaiting(table: TableName, isWanted: (row: Row) => boolean): Row[] {
    const newest = this.newest[table];
    const older = wantedOf(this.#older[table], (row) => !newest.has(row.name) && isWanted(row));
    return [...wantedOf(newest, isWanted), ...older];
  }

  hasWaiting(table: TableName): boolean {
    return this.newest[table].size + this.#older[table].size > 0;
  }

  async settle(): Promise<void> {
    this.endGroup();
    while (this.#writing || !isEmpty(this.newest) || !isEmpty(this.#older)) {
      this.#startWriting();
      await this.#writing;
      if (this.#problem) throw this.#problem;
    }
  }

  purge(table: TableName, now: number, limit: number): Promise<number> {
    return this.#thread.perform({ do: 'purge', table, now, limit });
  }

  shrink(maxPages: number): Promise<number> {
    return this.#thread.perform({ do: 'shrink', maxPages });
  }

  async close(): Promise<void> {
    if (!this.db.isOpen) return;
    this.endWrites();
    await this.#writing;
    // Rows of a broken thread are written here or at the next start.
    await this.#thread.end().catch((error) => this.#warn(String(error)));
    clearTimeout(this.#timer);
    this.#journal.close();
    try {
      this.#recover();
    } finally {
      rmSync(pidFile(this.#path), { force: true });
      this.db.close();
      this.#unlock();
    }
  }

  /** Only one write runs at a time, because the journal's files are ordered. */
  #startWriting(): void {
    this.endGroup();
    if (this.#writing) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#write().finally(() => {
      this.#writing = undefined;
      if (isEmpty(this.newest) && !this.#problem) return;
      this.#timer ??= setTimeout(() => this.#startWriting(), this.#problem ? RETRY_MS : WRITE_MS).unref();
    });
  }

  async #write(): Promise<void> {
    if (isEmpty(this.#older)) {
      this.#file = this.#journal.next();
      this.#older = this.newest;
      this.newest = emptyLayer();
    }
    if (this.#file === undefined) return;
    try {
      await this.#thread.perform({ do: 'write', file: this.#file });
      this.#older = emptyLayer();
      this.#problem = undefined;
    } catch (error) {
      this.#problem = error as Error;
      this.#warn(`the database cannot be written, records stay in its journal: ${this.#problem.message}`);
    }
  }

  /** Applies the journal's files to the database. Returns the number of the last one. */
  #recover(): number {
    const rows = new WrittenRows(this.db);
    const files = journalFiles(this.#path);
    for (const [position, { file }] of files.entries()) {
      const { rows: found, end } = readJournal(file);
      rows.apply(found);
      if (end === 'whole' || (end === 'cut' && position === files.length - 1)) {
        rmSync(file);
        continue;
      }
      // Only a power failure or a faulty disk causes this. Later files may depend on the lost rows.
      for (const each of files.slice(position)) renameSync(each.file, `${each.file}.damaged-${Date.now()}`);
      this.#warn(`the journal ${file} is damaged: the last writes before the crash are lost`);
      break;
    }
    return files.at(-1)?.number ?? 0;
  }
}

/** The thread of `thread.ts`, started on demand. */
class WriterThread {
  readonly #path: string;
  #worker: Worker | undefined;
  readonly #waiting: PromiseWithResolvers<number>[] = [];

  constructor(path: string) {
    this.#path = path;
  }

  /** Runs orders one after the other. */
  perform(order: Order): Promise<number> {
    this.#worker ??= this.#start();
    // Keep the process alive until the order is done.
    this.#worker.ref();
    const answer = Promise.withResolvers<number>();
    this.#waiting.push(answer);
    this.#worker.postMessage(order);
    return answer.promise;
  }

  async end(): Promise<void> {
    if (this.#worker) await this.perform({ do: 'end' });
  }

  #start(): Worker {
    const worker = new Worker(new URL(THREAD_URL), {
      workerData: { thread: THREAD, path: this.#path },
      name: THREAD,
      // Do not inherit flags of test runners or inspectors.
      env: threadEnvironment(),
      execArgv: [],
      resourceLimits: { maxYoungGenerationSizeMb: 4 },
    });
    worker.on('message', (answer: Answer) => {
      const waiting = this.#waiting.shift()!;
      if (this.#waiting.length === 0) worker.unref();
      if ('error' in answer) waiting.reject(new Error(answer.error));
      else waiting.resolve(answer.count);
    });
    worker.on('error', (error) => this.#lost(worker, error));
    worker.on('exit', () => this.#lost(worker, new Error('the thread of the database ended')));
    return worker;
  }

  #lost(worker: Worker, error: unknown): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    for (const waiting of this.#waiting.splice(0)) waiting.reject(error);
  }
}

/**
 * Takes the operating system lock and returns a function that releases it. SQLite's lock on the database itself would
 * block the writer thread.
 */
function lock(path: string): () => void {
  const file = `${path}.lock`;
  // Opening and closing the file again would release a lock of this process.
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600));
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
  } catch (error) {
    db.close();
    if (isBusy(error)) throw new DatabaseInUseError(path, readPid(path));
    throw error;
  }
  return () => db.close();
}

export class DatabaseInUseError extends Error {
  readonly code = 'DATABASE_IN_USE';
  constructor(path: string, pid: string | undefined) {
    super(
      `the data in ${path} is in use by another process${pid ? ` (pid ${pid})` : ''}: stop it, or start this one with another data folder`,
    );
    this.name = 'DatabaseInUseError';
  }
}

/** A copy of all rows would cost each query more than the rows that it wants. */
function wantedOf(rows: ReadonlyMap<string, Row>, isWanted: (row: Row) => boolean): Row[] {
  const wanted: Row[] = [];
  for (const row of rows.values()) if (isWanted(row)) wanted.push(row);
  return wanted;
}

const isBusy = (error: unknown): boolean =>
  hasCode(error, 'ERR_SQLITE_ERROR') && (error as { errcode?: number }).errcode === SQLITE_BUSY;

const pidFile = (path: string): string => `${path}.pid`;

function readPid(path: string): string | undefined {
  try {
    return readFileSync(pidFile(path), 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}
