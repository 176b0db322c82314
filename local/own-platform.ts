import { existsSync } from 'node:fs';
import { access, constants, mkdtemp, readdir, rm, stat, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { MakeOwnPlatform, OwnCheck, OwnPlatform, OwnStatus } from '#client/own-platform.ts';
import { UsageError } from '#client/usage-error.ts';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { hasCode } from '#core/base/errors.ts';
import { VERSION } from '#core/base/version.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { lastBackup, writeBackup } from './backup/backup.ts';
import { DATABASE } from './backup/format.ts';
import { restoreBackup, verifyBackup } from './backup/restore.ts';
import { type LocalConfig, parseLocalConfig } from './config.ts';
import { versionOf } from './database/data-version.ts';
import { openDatabase } from './database/database.ts';
import { FileVault } from './files/file-vault.ts';
import { undefinedIfMissing } from './files/files.ts';
import { FolderBlobs } from './files/folder-blobs.ts';
import { FreeSpace } from './files/free-space.ts';
import { askStatus } from './process/status-socket.ts';
import { systemdUnit } from './process/systemd-unit.ts';
import { createLocalSandbox } from './sandbox/local-sandbox.ts';

const START = join(import.meta.dirname, 'start.ts');
/** Larger young generation: requests allocate many short-lived objects. */
const NODE_FLAGS = ['--max-semi-space-size=8'];
const NODE = 24;

/** Controls the platform whose data is on this machine, running or not. */
export const createOwnPlatform: MakeOwnPlatform = ({ env, cwd, data }): OwnPlatform => {
  const config = parseLocalConfig({ ...env, ...(data !== undefined && { PLATFORM_DATA: data }) });
  const dataFolder = resolve(cwd, config.dataFolder);
  const keyFile = config.vaultKeyFile ? resolve(cwd, config.vaultKeyFile) : join(dataFolder, 'vault.key');
  const database = join(dataFolder, DATABASE);
  const program = [process.execPath, ...NODE_FLAGS, START];

  async function needData(): Promise<void> {
    await checkOwner(dataFolder);
    if (existsSync(database)) return;
    throw new UsageError(`There is no platform data in ${dataFolder}.`, {
      hint: '`platform start` creates it; --data selects another folder.',
      exitCode: 4,
    });
  }

  async function status(): Promise<OwnStatus> {
    await checkOwner(dataFolder);
    const found = existsSync(dataFolder) ? dataFolder : dirname(dataFolder);
    const live = existsSync(dataFolder) ? await askStatus(dataFolder) : undefined;
    const { bavail, blocks, bsize } = await statfs(existsSync(found) ? found : '/');
    const problem = await spaceProblem(config, found);
    return {
      running: live !== undefined,
      version: VERSION,
      ...live,
      data_folder: dataFolder,
      data_version: existsSync(database) ? dataVersion(database) : null,
      disk: { free_bytes: bavail * bsize, total_bytes: blocks * bsize, ...(problem && { problem }) },
      ...(existsSync(dataFolder) && { last_backup: await lastBackup(dataFolder) }),
    };
  }

  return {
    program,
    status,
    async backup(file, { withKey }) {
      await needData();
      const name = file ?? `platform-${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}.tar.gz`;
      const path = resolve(cwd, name);
      try {
        return await writeBackup({ dataFolder, keyFile, file: path, withKey, version: VERSION });
      } catch (error) {
        throw explained(error, `${path} was not written`);
      }
    },
    async restore(file, { checkOnly }) {
      const path = resolve(cwd, file);
      try {
        const order = { file: path, dataFolder, keyFile };
        const { created_at, platform, data_version, files, bytes, has_secrets, has_key } = checkOnly
          ? await verifyBackup(path)
          : await restoreBackup(order);
        return {
          ...{
            file: path,
            data_folder: checkOnly ? null : dataFolder,
            created_at,
            platform,
            data_version,
            files,
            bytes,
          },
          ...{ has_secrets, has_key, key_file: keyFile, key_found: !has_secrets || existsSync(keyFile) },
        };
      } catch (error) {
        if (hasCode(error, 'ARCHIVE')) throw new UsageError(`${path} ${(error as Error).message}.`);
        throw explained(error, `${path} was not restored`);
      }
    },
    async upgrade({ checkOnly }) {
      await needData();
      const live = await askStatus(dataFolder);
      const from = dataVersion(database);
      const problems = [
        ...(live ? [`The platform is running (process ${live.pid}): stop it first.`] : []),
        ...(from > DATA_VERSION
          ? [
              `The data has version ${from}, but this platform supports only versions up to ${DATA_VERSION}: install the newer platform.`,
            ]
          : []),
        ...(await upgradeSpace(database)),
      ];
      const result = {
        data_folder: dataFolder,
        platform: VERSION,
        from_version: from,
        to_version: DATA_VERSION,
        problems,
      };
      if (checkOnly || problems.length > 0 || from === DATA_VERSION) return { ...result, done: false };
      const file = join(dirname(dataFolder), `platform-before-version-${DATA_VERSION}.tar.gz`);
      const backup = await writeBackup({ dataFolder, keyFile, file, withKey: false, version: VERSION }).catch(
        (error) => {
          throw explained(error, 'Nothing was changed, because the backup failed');
        },
      );
      await openDatabase(database).close();
      return { ...result, done: true, backup };
    },
    checks: () => checksOf(config, { dataFolder, database, keyFile, status }),
    systemdUnit: () => systemdUnit({ program, root: dirname(import.meta.dirname) }),
  };
};

function dataVersion(database: string): number {
  const db = new DatabaseSync(database);
  try {
    db.exec('PRAGMA busy_timeout = 10000');
    return versionOf(db);
  } finally {
    db.close();
  }
}

/** Throws unless the current user owns the data folder or is root: files of another user are unreadable. */
async function checkOwner(dataFolder: string): Promise<void> {
  const folder = await undefinedIfMissing(stat(dataFolder));
  if (folder === undefined) return;
  if (!folder.isDirectory()) throw new UsageError(`${dataFolder} is not a folder.`);
  const uid = process.geteuid?.() ?? folder.uid;
  if (uid === 0 || folder.uid === uid) return;
  throw new UsageError(`${dataFolder} belongs to user ${folder.uid}, and you are user ${uid}.`, {
    hint: `Do this as that user (\`sudo -u '#${folder.uid}' platform ...\`), or as root.`,
    exitCode: 3,
  });
}

/** Explains a file system error in words. */
function explained(error: unknown, what: string): Error {
  const { message } = error as Error;
  if (hasCode(error, 'ENOSPC') || hasCode(error, 'EDQUOT')) {
    return new UsageError(`${what}: the disk is full.`, {
      hint: 'Free some space, or choose a file on another disk.',
      exitCode: 1,
    });
  }
  return new UsageError(`${what}: ${message}.`, { exitCode: 1 });
}

const spaceProblem = async (config: LocalConfig, folder: string): Promise<string | undefined> =>
  existsSync(folder)
    ? new FreeSpace({
        folder,
        minFreeBytes: config.minFreeBytes,
        clock: new SystemClock(),
        log: { warn: () => {} },
      }).problem()
    : undefined;

/** Reports the disk space for the copy before a migration and for the migration itself. */
async function upgradeSpace(database: string): Promise<string[]> {
  const [{ size }, { bavail, bsize }] = await Promise.all([stat(database), statfs(dirname(database))]);
  const needed = 2 * size;
  return bavail * bsize < needed
    ? [`The disk of ${database} has ${bavail * bsize} bytes free, but the upgrade needs about ${needed}.`]
    : [];
}

interface Places {
  readonly dataFolder: string;
  readonly database: string;
  readonly keyFile: string;
  status(): Promise<OwnStatus>;
}

async function checksOf(config: LocalConfig, { dataFolder, database, keyFile, status }: Places): Promise<OwnCheck[]> {
  const checks: OwnCheck[] = [];
  const check = async (name: string, work: () => Promise<string>, hint?: string) => {
    try {
      checks.push({ name, ok: true, detail: await work() });
    } catch (error) {
      const own = (error as { hint?: string }).hint ?? hint;
      checks.push({ name, ok: false, detail: (error as Error).message, ...(own && { hint: own }) });
    }
  };
  await check(
    'node',
    async () => {
      if (Number(process.versions.node.split('.')[0]) < NODE) throw new Error(`Node ${process.versions.node}`);
      return process.versions.node;
    },
    `The platform needs Node ${NODE}, which npm installs with it unless optional packages are left out.`,
  );
  let live: OwnStatus | undefined;
  await check('data', async () => {
    live = await status();
    if (!existsSync(dataFolder)) return `${dataFolder} (created at the first start)`;
    await access(dataFolder, constants.R_OK | constants.W_OK);
    const { data_version: version } = live;
    if (version !== null && version > DATA_VERSION) {
      throw new UsageError(
        `${dataFolder} has data of version ${version}; this platform supports versions up to ${DATA_VERSION}.`,
        {
          hint: 'Install the newer platform again, or restore a backup.',
        },
      );
    }
    return `${dataFolder}, version ${version ?? 'none'}${live.running ? `, in use by process ${live.pid}` : ''}`;
  });
  await check('disk', async () => {
    const problem = live?.disk.problem;
    if (problem !== undefined) throw new Error(problem);
    return `${Math.floor((live?.disk.free_bytes ?? 0) / 1e6)} MB free`;
  });
  if (existsSync(database)) await check('vault key', () => checkVault(dataFolder, keyFile));
  if (!live?.running) {
    await check(
      'port',
      () => checkPort(config),
      'Another program uses the port: stop it, or set PLATFORM_PORT to a free port.',
    );
  }
  await check('sandbox', async () => {
    if (live?.sandbox) {
      if (live.sandbox.problem) throw new Error(live.sandbox.problem);
      return `${live.sandbox.kind}, limits by ${live.sandbox.limits_by}`;
    }
    return sandboxWorks(config);
  });
  return checks;
}

async function checkVault(dataFolder: string, keyFile: string): Promise<string> {
  const folder = join(dataFolder, 'vault');
  const [vault] = ((await undefinedIfMissing(readdir(folder))) ?? []).filter((name) => name.endsWith('.vault'));
  if (vault === undefined) return 'there are no secrets yet';
  // Throws if the key is wrong.
  await new FileVault(folder, keyFile).read(vault.slice(0, -'.vault'.length), []);
  return keyFile;
}

function checkPort({ host, port }: LocalConfig): Promise<string> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(port, host, () => server.close(() => resolve(`${host}:${port} is free`)));
  });
}

/** Detects a sandbox the same way as the platform's start. */
async function sandboxWorks(config: LocalConfig): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-doctor-'));
  try {
    const blobs = new FolderBlobs(join(folder, 'blobs'));
    const sandbox = await createLocalSandbox({
      cacheFolder: join(folder, 'cache'),
      blobs,
      kind: config.sandboxKind,
      prestart: 0,
    });
    const { kind, problem, limits, interpreters } = await sandbox.status();
    await sandbox.close();
    if (problem) throw new Error(problem);
    const found = Object.entries(interpreters).map(([name, version]) => `${name} ${version}`);
    return [kind, ...(limits ? [`limits by ${limits.by}`] : []), ...found].join(', ');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
