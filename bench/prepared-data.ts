import { join } from 'node:path';
import { type Client, createClient } from '#core/api/client.ts';
import { type Config, parseConfig } from '#core/base/config.ts';
import { type Clock, SystemClock } from '#core/ports/clock.ts';
import { type Ids, SystemIds } from '#core/ports/ids.ts';
import { openDatabase } from '#local/database/database.ts';
import { SqliteTable } from '#local/database/sqlite-table.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { ask, startPlatform } from './harness.ts';

/** Dependencies for stores over the data of a stopped platform, and its first workspace. */
export interface DataStore {
  readonly workspaceId: string;
  readonly config: Config;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly main: SqliteTable;
  readonly runs: SqliteTable;
  readonly blobs: FolderBlobs;
}

/** Returns a function that writes item `n`, counted from 0, of `count`. */
export type MakeOne = (store: DataStore, count: number) => (n: number) => Promise<unknown>;

/** Batch size: the database commits once per batch. */
const LANES = 500;
const TOLD_EACH = 100_000;

/**
 * Creates the data of a platform with `count` items directly, because requests would take too long. `setUp` sends the
 * requests that the items need. Returns the owner's key.
 */
export async function prepareData(
  dataFolder: string,
  count: number,
  makeOne: MakeOne,
  setUp: (client: Client) => Promise<void> = async () => {},
): Promise<string> {
  const empty = await startPlatform(dataFolder);
  const { id } = (await ask(empty, '/org')) as { id: string };
  await setUp(createClient({ baseUrl: empty.url, key: empty.key }));
  await empty.stop();
  const database = openDatabase(join(dataFolder, 'platform.sqlite'));
  const clock = new SystemClock();
  const store: DataStore = {
    workspaceId: id,
    config: parseConfig({}),
    clock,
    ids: new SystemIds(),
    main: new SqliteTable(database, 'main', clock),
    runs: new SqliteTable(database, 'runs', clock),
    blobs: new FolderBlobs(join(dataFolder, 'blobs')),
  };
  const make = makeOne(store, count);
  database.db.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -200000');
  const lane = async (first: number): Promise<void> => {
    for (let n = first; n < count; n += LANES) {
      await make(n);
      if ((n + 1) % TOLD_EACH === 0) process.stderr.write(`${n + 1} of ${count} are made\n`);
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, first) => lane(first)));
  await database.close();
  return empty.key!;
}
