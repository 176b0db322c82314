import { chmodSync, closeSync, openSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { hasCode } from '#core/base/errors.ts';

const NAME = 'platform.sock';
const PATIENCE_MS = 5_000;

/**
 * Serves the platform's status as JSON to each process that may open the data folder, on a read-only socket in that
 * folder. Returns a function that closes it.
 */
export async function serveStatus(dataFolder: string, status: () => Promise<unknown>): Promise<() => Promise<void>> {
  const server = createServer(async (socket) => {
    socket.on('error', () => {});
    socket.end(JSON.stringify(await status().catch((error) => ({ error: String(error) }))));
  });
  rmSync(join(dataFolder, NAME), { force: true });
  const { path, close } = shortPath(dataFolder);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  chmodSync(path, 0o600);
  return () =>
    new Promise((resolve) => {
      server.close(() => {
        close();
        resolve();
      });
    });
}

/** Asks the platform that runs on this folder for its status. Returns `undefined` if none is running. */
export async function askStatus(dataFolder: string): Promise<Record<string, unknown> | undefined> {
  let folder: ReturnType<typeof shortPath> | undefined;
  try {
    folder = shortPath(dataFolder);
    const socket = connect(folder.path);
    socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error(`the platform on ${dataFolder} does not answer`)));
    return JSON.parse(await text(socket)) as Record<string, unknown>;
  } catch (error) {
    // The socket was left by a process that died.
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ECONNREFUSED')) return undefined;
    throw error;
  } finally {
    folder?.close();
  }
}

/** Socket paths have at most 107 bytes (unix(7)), so the path uses the folder's descriptor. */
function shortPath(dataFolder: string) {
  const folder = openSync(dataFolder, 'r');
  return { path: `/proc/self/fd/${folder}/${NAME}`, close: () => closeSync(folder) };
}
