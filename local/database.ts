import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { hasCode } from '#core/base/errors.ts';

const SQLITE_BUSY = 5;

/** The one database file of a local host, held by one process. */
export interface Database {
  /** For reading. Writes go through {@link Database.write}. */
  readonly db: DatabaseSync;
  /**
   * Runs `work` synchronously, in one transaction with all other writes of this turn of the event loop, and resolves after
   * the commit. A commit costs as much as several writes. If one write fails, all of them fail.
   */
  write(work: () => void): Promise<void>;
  /** Closes the file and lets another process have it. */
  close(): void;
}

/**
 * Opens the database file. `:memory:` opens a database that lives as long as its connection.
 *
 * The process holds the operating system's lock on the file until it ends, so a second process is refused, and a crash
 * leaves no lock behind. Since no other process writes, tables may read and then write without further locks. The process
 * id beside the file serves the error message only.
 *
 * Throws {@link DatabaseInUseError} if another process has it.
 */
export function openDatabase(path: string): Database {
  if (path === ':memory:') {
    const db = new DatabaseSync(path);
    const writes = new GroupedWrites(db);
    return { db, write: (work) => writes.add(work), close: () => writes.close() };
  }
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // SQLite gives its other files the mode of this one.
  closeSync(openSync(path, 'a', 0o600));
  const pidPath = `${path}.pid`;
  const db = new DatabaseSync(path);
  try {
    // NORMAL survives a crash of the process; a power cut may lose the last moments, but corrupts nothing.
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
    // Pages that change often, above all those of indexes, are written to the file once for many commits.
    db.exec('PRAGMA wal_autocheckpoint = 8000; PRAGMA cache_size = -16000');
    // The first transaction takes the lock; it is never released.
    db.exec('BEGIN IMMEDIATE; COMMIT');
  } catch (error) {
    db.close();
    if (isBusy(error)) throw new DatabaseInUseError(path, readPid(pidPath));
    throw error;
  }
  writeFileSync(pidPath, `${process.pid}\n`);
  const writes = new GroupedWrites(db);
  return {
    db,
    write: (work) => writes.add(work),
    close: () => {
      if (!db.isOpen) return;
      rmSync(pidPath, { force: true });
      writes.close();
    },
  };
}

/** See {@link Database.write}. */
class GroupedWrites {
  readonly #db: DatabaseSync;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  #group: PromiseWithResolvers<void> | undefined;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#begin = db.prepare('BEGIN IMMEDIATE');
    this.#commit = db.prepare('COMMIT');
  }

  add(work: () => void): Promise<void> {
    this.#group ??= this.#open();
    const group = this.#group;
    try {
      work();
    } catch (error) {
      this.#giveUp(group, error);
    }
    return group.promise;
  }

  close(): void {
    if (this.#group) this.#end(this.#group);
    this.#db.close();
  }

  #open(): PromiseWithResolvers<void> {
    this.#begin.run();
    const group = Promise.withResolvers<void>();
    setImmediate(() => {
      if (this.#group === group) this.#end(group);
    });
    return group;
  }

  #end(group: PromiseWithResolvers<void>): void {
    try {
      this.#commit.run();
      this.#group = undefined;
      group.resolve();
    } catch (error) {
      this.#giveUp(group, error);
    }
  }

  #giveUp(group: PromiseWithResolvers<void>, error: unknown): void {
    this.#group = undefined;
    // SQLite may have rolled back already, for example when the disk is full.
    if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
    group.reject(error);
  }
}

export class DatabaseInUseError extends Error {
  readonly code = 'DATABASE_IN_USE';
  constructor(path: string, pid: string | undefined) {
    super(
      `the data in ${path} is in use by another process${pid ? ` (pid ${pid})` : ''}: stop that one, or start this one with another data folder`,
    );
    this.name = 'DatabaseInUseError';
  }
}

const isBusy = (error: unknown): boolean =>
  hasCode(error, 'ERR_SQLITE_ERROR') && (error as { errcode?: number }).errcode === SQLITE_BUSY;

function readPid(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}
