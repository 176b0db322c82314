import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { DATA_VERSIONS, DataVersionError } from '#core/base/data-versions.ts';
import { TABLES } from './rows.ts';

/** Migration from one version of the data to the next (`core/base/data-versions.ts`). */
export interface Migration {
  /** Version of the data after the migration: its position in the list, from 1. */
  readonly version: number;
  /** Statements that run in one transaction. They must also work on new, empty data. */
  readonly sql: string;
}

/** Database changes by version; never edited once released. The journal is empty when a migration runs. */
const STATEMENTS: Readonly<Record<number, string>> = { 1: TABLES };

export const MIGRATIONS: readonly Migration[] = DATA_VERSIONS.map(({ version }) => ({
  version,
  sql: STATEMENTS[version] ?? '',
}));

/** Returns the error for data of a newer platform. */
export const newerData = (place: string, version: number, known: number): DataVersionError =>
  new DataVersionError(
    `the data in ${place} has version ${version}, but this platform supports only versions up to ${known}: start the newer platform that wrote it, or restore a backup from before its upgrade`,
  );

export const versionOf = (db: DatabaseSync): number => Number(db.prepare('PRAGMA user_version').get()!.user_version);

/** Whether nothing was ever stored in the database. */
export const isEmpty = (db: DatabaseSync): boolean =>
  db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() === undefined;

/** Path of the copy made before a migration, which stays until the operator deletes it. */
export const copyBefore = (path: string, version: number): string => `${path}.version-${version}`;

/**
 * Migrates the data to the latest version in one transaction: if the process dies, the old data is unchanged. Data that
 * is not empty is copied first. Returns the path of that copy.
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

/** The copy gets its final name once it is complete. */
function copyTo(db: DatabaseSync, file: string): void {
  const unfinished = `${file}.tmp`;
  for (const old of [unfinished, `${unfinished}-journal`]) rmSync(old, { force: true });
  try {
    // SQLite opens an existing file and keeps its mode.
    closeSync(openSync(unfinished, 'wx', 0o600));
    db.prepare('VACUUM INTO ?').run(unfinished);
    sync(unfinished);
    renameSync(unfinished, file);
    sync(dirname(file));
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw new Error(
      `the data has an older version, but the copy before its migration failed: ${(error as Error).message}`,
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
