import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Archive, newKey } from '#core/api/moves/archive.ts';
import { exportWorkspace } from '#core/api/moves/export.ts';
import { forgetWorkspace } from '#core/api/moves/forget.ts';
import { freeze, type MoveDeps } from '#core/api/moves/freeze.ts';
import { cancelMove, closeWorkspace, directoryOf, openWorkspace } from '#core/api/moves/handover.ts';
import { importWorkspace } from '#core/api/moves/import.ts';
import { batchesOf } from '#core/base/batches.ts';
import { findNamed } from '#core/billing/operator/operate.ts';
import { FolderBlobs } from './files/folder-blobs.ts';

/** CloudFront accepts 50 changes of a KeyValueStore in a request. */
const CHANGES_A_REQUEST = 50;
const DEFAULT_WAIT_SECONDS = 900;

/** Steps of a move, and ways out of one. */
const MOVE_ACTIONS = ['export', 'import', 'close', 'open', 'cancel', 'forget'] as const;
type MoveAction = (typeof MOVE_ACTIONS)[number];

export const isMoveAction = (text: string | undefined): text is MoveAction =>
  MOVE_ACTIONS.some((action) => action === text);

/** Options of the commands that move workspaces, for `parseArgs`. */
export const MOVE_OPTIONS = {
  folder: { type: 'string' },
  'key-file': { type: 'string' },
  to: { type: 'string' },
  address: { type: 'string' },
  wait: { type: 'string' },
  'lose-runs': { type: 'boolean' },
} as const;

interface MoveArguments {
  readonly folder?: string | undefined;
  readonly 'key-file'?: string | undefined;
  readonly to?: string | undefined;
  readonly address?: string | undefined;
  readonly wait?: string | undefined;
  readonly 'lose-runs'?: boolean | undefined;
}

export const MOVE_OPTIONS_HELP = `  --folder <folder>   where the export is; with all actions but cancel and forget
  --key-file <file>   key of the encrypted files; default: <folder>.key
  --to <letter>       the other cell; with export
  --address <url>     the other cell's address, for the answers of the old one
  --wait <seconds>    how long runs may go on; default: ${DEFAULT_WAIT_SECONDS}
  --lose-runs         gives up runs that have not ended by then`;

/** Returns whether an action has the arguments that it needs, and no other. */
export function isComplete(action: MoveAction, workspace: string | undefined, given: MoveArguments): boolean {
  const hasWorkspace = ['export', 'cancel', 'forget'].includes(action);
  const hasFolder = !['cancel', 'forget'].includes(action);
  return (
    (workspace !== undefined) === hasWorkspace &&
    (given.folder !== undefined) === hasFolder &&
    (given.to !== undefined) === (action === 'export') &&
    /^\d{1,6}$/.test(given.wait ?? '0')
  );
}

/** Does one step of a move, whose export is in a folder of this machine. Call {@link isComplete} before. */
export async function moveWorkspace(
  deps: MoveDeps,
  action: MoveAction,
  workspace: string | undefined,
  given: MoveArguments,
): Promise<void> {
  if (action === 'cancel') return cancelMove(deps, await findNamed(deps, workspace!));
  if (action === 'forget') return forgetWorkspace(deps, (await findNamed(deps, workspace!)).id);
  const folder = resolve(given.folder!);
  const archive = archiveIn(folder, given['key-file'] ?? `${folder}.key`, action === 'export');
  switch (action) {
    case 'export': {
      const waitMs = Number(given.wait ?? DEFAULT_WAIT_SECONDS) * 1000;
      const options = { to: given.to!, address: given.address, waitMs, loseRuns: given['lose-runs'] === true };
      await exportWorkspace(deps, archive, await freeze(deps, workspace!, options));
      return;
    }
    case 'import':
      await importWorkspace(deps, archive);
      return;
    case 'close':
      await closeWorkspace(deps, archive);
      return writeDirectory(deps, archive, folder);
    case 'open':
      await openWorkspace(deps, archive);
  }
}

function archiveIn(folder: string, keyFile: string, mayMakeKey: boolean): Archive {
  if (resolve(keyFile).startsWith(`${folder}/`)) {
    throw new Error('Keep the key outside of the folder: it opens everything in there.');
  }
  if (mayMakeKey && !existsSync(keyFile)) writeFileSync(keyFile, `${newKey()}\n`, { mode: 0o600, flag: 'wx' });
  if (!existsSync(keyFile)) throw new Error(`There is no key file ${keyFile}: bring that of the export.`);
  return new Archive(new FolderBlobs(folder), readFileSync(keyFile, 'utf8'));
}

async function writeDirectory({ say }: MoveDeps, archive: Archive, folder: string): Promise<void> {
  const files = batchesOf(await directoryOf(archive), CHANGES_A_REQUEST).map((entries, index) => {
    const file = `${folder}-directory-${index + 1}.json`;
    writeFileSync(file, `${JSON.stringify(entries, null, 2)}\n`);
    return file;
  });
  say(`For the directory of the router: ${files.join(', ')}.`);
}
