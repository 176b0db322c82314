import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { hasCode } from '#core/base/errors.ts';
import { versionOf } from '../database/data-version.ts';
import { journalFiles, readJournal } from '../database/journal.ts';
import { WrittenRows } from '../database/rows.ts';

const SQLITE_FULL = 13;
const TRIES = 100;
const RETRY_MS = 20;

/**
 * Copies the database at `path` to `copy`, consistent at one moment, even while its platform writes. The copy has every
 * write that was acknowledged before the call. `folder` takes temporary files. Returns the version of the data.
 *
 * The journal's files are applied to the database one after the other, and each is deleted afterwards. The database
 * copy plus the remaining journal files are therefore consistent if no file was deleted while copying.
 */
export async function snapshot(path: string, copy: string, folder: string): Promise<number> {
  const db = new DatabaseSync(path);
  try {
    db.exec('PRAGMA query_only = ON; PRAGMA busy_timeout = 10000');
    const journal = await readTogether(db, path, folder);
    await backup(db, copy);
    // While this state is being read, the platform's changes cannot go into its file, and their log grows.
    db.close();
    return complete(copy, journal);
  } catch (error) {
    const isFull = (error as { errcode?: number }).errcode === SQLITE_FULL;
    throw isFull ? Object.assign(new Error('no space left for a copy of the database'), { code: 'ENOSPC' }) : error;
  } finally {
    if (db.isOpen) db.close();
  }
}

/** Opens a read transaction and copies the journal files that belong to it. */
async function readTogether(db: DatabaseSync, path: string, folder: string): Promise<string[]> {
  for (let tries = 1; ; tries += 1) {
    const before = journalFiles(path);
    db.exec('BEGIN');
    // SQLite fixes the transaction's snapshot at its first statement.
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
    const files = journalFiles(path);
    const copies = files.flatMap(({ file, number }) => copied(file, join(folder, `journal-${number}`)) ?? []);
    // If there was no file before, the first one now may already be preceded by deleted ones.
    const isTogether = before.length > 0 ? before.every(({ file }) => existsSync(file)) : files.length === 0;
    if (isTogether && copies.length === files.length) return copies;
    db.exec('ROLLBACK');
    for (const each of copies) rmSync(each);
    if (tries === TRIES) throw new Error('the platform writes too much to be copied: try again when it is less busy');
    await setTimeout(RETRY_MS);
  }
}

/** Returns `undefined` if the file was applied to the database and deleted in the meantime. */
function copied(file: string, copy: string): string | undefined {
  try {
    copyFileSync(file, copy);
    return copy;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Applies the journal to the copy and checks its integrity. */
function complete(copy: string, journal: readonly string[]): number {
  const db = new DatabaseSync(copy);
  try {
    // Keep everything in one file, without SQLite's side files.
    db.exec('PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL');
    if (journal.length > 0) {
      const rows = new WrittenRows(db);
      for (const [index, file] of journal.entries()) {
        const { rows: found, end } = readJournal(file);
        // The platform may be writing the last file.
        if (end === 'damaged' || (end === 'cut' && index < journal.length - 1)) {
          throw new Error(`the journal ${file} is ${end}: stop the platform and start it again, which repairs it`);
        }
        rows.apply(found);
        rmSync(file);
      }
    }
    const problem = db.prepare('PRAGMA quick_check(1)').get()!.quick_check;
    if (problem !== 'ok') throw new Error(`the database is damaged: ${problem}`);
    return versionOf(db);
  } finally {
    db.close();
  }
}
