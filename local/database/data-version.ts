import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { DATA_VERSIONS, DataVersionError } from '#core/base/data-versions.ts';
import { TABLES } from './rows.ts';

/** A step from one version of the data to the next (`core/base/data-versions.ts`). */
export interface Migration {
  /** Version of the data after it: its place in the list, from 1. */
  readonly version: number;
  /** Statements, run in one transaction. Running them on new, empty data is allowed. */
  readonly sql: string;
}

/** What changes in the database itself, by version; never changed once released. A migration finds the journal empty. */
const STATEMENTS: Readonly<Record<number, string>> = { 1: TABLES };

export const MIGRATIONS: readonly Migration[] = DATA_VERSIONS.map(({ version }) => ({
  version,
  sql: STATEMENTS[version] ?? '',
}));

/** Data of a newer platform. */
export const newerData = (place: string, version: number, known: number): DataVersionError =>
  new DataVersionError(
    `the data in ${place} has version ${version}, and this platform knows versions up to ${known}: start the newer platform that wrote it, or restore a backup from before its upgrade`,
  );

export const versionOf = (db: DatabaseSync): number => Number(db.prepare('PRAGMA user_version').get()!.user_version);

/** Whether nothing was ever stored there. */
export const isEmpty = (db: DatabaseSync): boolean =>
  db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;

/** Where the state before a migration is kept, until the operator deletes it. */
export const copyBefore = (path: string, version: number): string => `${path}.version-${version}`;

/**
 * Brings the data to the newest version, in one transaction: a process that dies leaves the old data as it was. Data that is
 * not empty is copied first. Returns the path of that copy.
 */
export function migrate(db: DatabaseSync, path: string, migrations: readonly Migration[]): string | undefined {
  const version = versionOf(db);
  const due = migrations.filter((migration) => migration.version > version);
  if (due.length === 0) return undefined;
  const copy = isEmpty(db) ? undefined : copyBefore(path, version);
  if (copy !== undefined) copyTo(db, copy);
  db.exec('BEGIN IMMEDIATE');
  try {
    for (const { sql } of due) db.exec(sql);
    db.exec(`PRAGMA user_version = ${due.at(-1)!.version}; COMMIT`);
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
  return copy;
}

/** Under its own name only once it is whole. */
function copyTo(db: DatabaseSync, file: string): void {
  const unfinished = `${file}.tmp`;
  for (const old of [unfinished, `${unfinished}-journal`]) rmSync(old, { force: true });
  try {
    // SQLite opens a file that is there, and keeps its mode.
    closeSync(openSync(unfinished, 'wx', 0o600));
    db.prepare('VACUUM INTO ?').run(unfinished);
    sync(unfinished);
    renameSync(unfinished, file);
    sync(dirname(file));
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw new Error(
      `the data has an older version, and it cannot be copied before it is migrated: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
}

function sync(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
