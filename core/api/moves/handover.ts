import { workspaceFrom, workspaceKey } from '#core/accounts/workspaces/store.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import { type Archive, ArchiveError, type Manifest } from './archive.ts';
import { eraseItem } from './forget.ts';
import { type MoveDeps, settled, unfreeze } from './freeze.ts';
import { markMove } from './mark.ts';
import { ownItems } from './own-items.ts';
import { type MoveRecord, readRecords } from './records.ts';

/**
 * Closes a workspace in the old cell, once it is imported: from now on nothing there reads it, and every request is told the
 * other cell. Its agents are erased at once, so that no other workspace calls them here. Safe to repeat.
 */
export async function closeWorkspace(deps: MoveDeps, archive: Archive): Promise<void> {
  const manifest = await manifestOf(archive);
  const { id, slug } = manifest.workspace;
  if (!(await archive.isDone('imported', manifest))) throw new Error('Import the workspace in the other cell first.');
  const { move } = await workspaceOf(deps, manifest);
  if (move?.id !== manifest.id || (move.state !== 'frozen' && move.state !== 'moved')) {
    throw new Error(`The workspace "${slug}" is not frozen for this move.`);
  }
  await markMove(deps, id, { ...move, state: 'moved' });
  await settled(deps);
  for await (const own of ownItems(deps, id)) {
    if (own.kind.pk === 'WS#<ws>#AGENT#*' || own.kind.pk === 'AGENT#*') await eraseItem(deps, own);
  }
  await archive.note('closed', manifest, isoTime(deps.clock.now()));
  deps.say(`The workspace "${slug}" is closed in cell ${deps.config.cell}.`);
}

/** Lets a workspace work in the new cell, once it is closed in the old one. Safe to repeat. */
export async function openWorkspace(deps: MoveDeps, archive: Archive): Promise<Workspace> {
  const manifest = await manifestOf(archive);
  const { id, slug } = manifest.workspace;
  if (!(await archive.isDone('closed', manifest))) throw new Error('Close the workspace in the old cell first.');
  const { move } = await workspaceOf(deps, manifest);
  if (manifest.to !== deps.config.cell || (move !== undefined && move.id !== manifest.id)) {
    throw new Error(`The workspace "${slug}" did not arrive in cell ${deps.config.cell} with this move.`);
  }
  const opened = await unfreeze(deps, id);
  deps.say(`The workspace "${slug}" works in cell ${deps.config.cell}.`);
  return opened;
}

/** Lets a workspace work in the old cell again. Safe to repeat. Throws once it is closed there. */
export async function cancelMove(deps: MoveDeps, workspace: Workspace): Promise<void> {
  const state = workspace.move?.state;
  if (state === 'moved' || state === 'arriving') {
    throw new Error(`The workspace "${workspace.slug}" is ${state}: only one that is frozen here can stay.`);
  }
  await unfreeze(deps, workspace.id);
  deps.say(`The workspace "${workspace.slug}" stays in cell ${deps.config.cell}, and works.`);
}

async function manifestOf(archive: Archive): Promise<Manifest> {
  const manifest = await archive.readManifest();
  if (manifest === undefined) throw new ArchiveError('the export is missing or incomplete');
  return manifest;
}

async function workspaceOf({ main }: MoveDeps, { workspace }: Manifest): Promise<Workspace> {
  const item = await main.get(workspaceKey(workspace.id));
  if (item === undefined) throw new Error(`The workspace "${workspace.slug}" is not in this cell.`);
  return workspaceFrom(item);
}

/** An entry of the directory of the cells' router. */
interface DirectoryEntry {
  readonly Key: string;
  readonly Value: string;
}

/**
 * Returns what the directory of the router needs: the slug, and the hashes of keys and tokens that have the letter of the old
 * cell.
 */
export async function directoryOf(archive: Archive): Promise<DirectoryEntry[]> {
  const manifest = await manifestOf(archive);
  const entries = [{ Key: manifest.workspace.slug, Value: manifest.to }];
  for await (const record of readRecords(archive, manifest)) {
    for (const Key of hashesIn(record)) entries.push({ Key, Value: manifest.to });
  }
  return entries;
}

const HASHED = /^(?:AGENTKEY|APPROVAL_LINK|EVENT|SHARE)#(.*)$/;

function hashesIn(record: MoveRecord): string[] {
  if (record.is === 'person') return record.keys.map(({ hash }) => hash as string);
  if (record.is !== 'item') return [];
  const { pk, webhook_secret_hash: webhook } = record.item;
  return [HASHED.exec(pk)?.[1], webhook].filter((hash) => typeof hash === 'string');
}
