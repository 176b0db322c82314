import { createHash } from 'node:crypto';
import { listKeys } from '#core/accounts/keys/store.ts';
import { secretNamesOf } from '#core/accounts/secrets/store.ts';
import {
  findUser,
  listMembers,
  memberKey,
  userKey,
  workspaceFrom,
  workspaceKey,
} from '#core/accounts/workspaces/store.ts';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { hasEnded, type RunStatus } from '#core/base/run-kinds.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { SIGNING_NAME } from '#core/outbound/signing.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Item } from '#core/ports/table.ts';
import { signingVaultOf } from '#core/ports/vault.ts';
import { HEADERS_SECRET } from '#core/runs/telemetry/store.ts';
import type { Service } from '#core/services/service.ts';
import type { Archive, Manifest } from './archive.ts';
import type { MoveDeps } from './freeze.ts';
import { type OwnItem, ownBlobPrefixes, ownItems } from './own-items.ts';
import { type MoveRecord, type PersonRecord, writeRecords } from './records.ts';

/** Blobs that are copied at the same time. */
const CONCURRENCY = 25;

/**
 * Writes all of a frozen workspace to the archive. Safe to repeat: an export that was interrupted begins again, with the blobs
 * that it has.
 */
export async function exportWorkspace(deps: MoveDeps, archive: Archive, workspace: Workspace): Promise<Manifest> {
  const { id, slug, move } = workspace;
  if (move?.state !== 'frozen') throw new Error(`The workspace "${slug}" is not frozen.`);
  const before = await archive.readManifest();
  if (before !== undefined && before.id !== move.id) {
    throw new Error('The folder has another export. Take an empty one.');
  }
  if (before !== undefined) return before;
  /** Keys that items name. */
  const named = new Set<string>();
  let blobs = 0;
  async function* records(): AsyncGenerator<MoveRecord> {
    for await (const own of ownItems(deps, id)) {
      const record = await recordOf(deps, id, own);
      if (record === undefined) continue;
      for (const key of await blobsOf(deps, own)) named.add(key);
      yield record;
    }
    yield* peopleOf(deps, workspace);
    yield* secretsOf(deps, id);
    for (const keys of [named, ...ownBlobPrefixes(id).map((prefix) => deps.blobs.list(prefix))]) {
      for await (const record of copyBlobs(deps, archive, move!.id, keys)) {
        blobs += 1;
        yield record;
      }
    }
  }
  const count = await writeRecords(archive, move.id, records());
  const manifest: Manifest = {
    ...{ format: 1, id: move.id, data_version: DATA_VERSION, from: deps.config.cell, to: move.cell },
    workspace: { id, slug },
    ...{ records: count, blobs, exported_at: isoTime(deps.clock.now()) },
  };
  await archive.writeManifest(manifest);
  deps.say(`${count} records and ${blobs} blobs exported.`);
  return manifest;
}

async function recordOf(deps: MoveDeps, workspaceId: string, { table, kind, item }: OwnItem) {
  if (kind.fate === 'drop') return undefined;
  if (kind.fate === 'reseal') {
    const key = await deps.vault.openDataKey(workspaceId, item.sealed_key as string);
    return { is: 'order', table, item, key: Buffer.from(key).toString('base64') } as const;
  }
  return { is: 'item', table, item: movedItem(kind.pk, item) } as const;
}

/** Returns the item as the other cell needs it. */
function movedItem(layout: string, item: Item): Item {
  if (layout === 'WS#<ws>#SERVICES' && item.service !== undefined) {
    return { ...item, service: unhosted(item.service as unknown as Service) as unknown as Item['service'] };
  }
  if (layout === 'WS#<ws>#SERVED#*') return { ...item, address: null };
  if (layout === 'WS#<ws>#RUN#*') return lostRun(withoutMark(item));
  return item;
}

/** The host of the other cell knows nothing of the service. */
const unhosted = (service: Service): Service => ({
  ...service,
  ...{ applied: null, applying: null, tokens: [], instances: {}, address: null },
});

/** A run that began while its workspace was marked has a copy of the mark. */
function withoutMark(item: Item): Item {
  const { workspace, ...context } = (item.context ?? {}) as { workspace?: { move?: unknown } };
  if (workspace?.move === undefined) return item;
  const { move: _, ...rest } = workspace;
  return { ...item, context: { ...context, workspace: rest } as Item['context'] };
}

/** A run that a process of the old cell had is found there by its place among the calls. Here the sweep finds it. */
function lostRun(item: Item): Item {
  const isOpen = !hasEnded(item.status as RunStatus) && item.durable !== true && item.status === 'running';
  if (!isOpen || item.gsi1pk !== undefined || item.parked !== undefined) return item;
  const parked = { gsi1pk: `OPEN#${item.sk[0]}`, gsi1sk: isoTime(item.deadline as number) };
  return { ...item, moving: true, parked };
}

/** Returns the keys of blobs that an item names. Some may not exist. */
async function blobsOf(deps: MoveDeps, { kind, item }: OwnItem): Promise<string[]> {
  if (kind.pk === 'AGENT#*') {
    return Array.fromAsync(deps.blobs.list(`definitions/${item.pk.slice('AGENT#'.length)}.`));
  }
  if (kind.pk === 'WS#<ws>#LAYERS') return [item.key as string];
  if (kind.pk === 'WS#<ws>#DELETED') return [item.bundle, item.contents].filter((key) => typeof key === 'string');
  const { key, sha256 } = (item.bundle ?? {}) as { key?: string; sha256?: string };
  const { layer } = (item.install ?? {}) as { layer?: string };
  const bundle = key ?? (sha256 === undefined ? undefined : `bundles/${sha256}.zip`);
  return [bundle, layer].filter((each) => each !== undefined);
}

const fileOf = (moveId: string, key: string): string =>
  `blobs/${moveId}/${createHash('sha256').update(key).digest('hex')}`;

/** Copies blobs, some at the same time. Yields a record for each that exists. */
async function* copyBlobs(
  deps: MoveDeps,
  archive: Archive,
  moveId: string,
  keys: Iterable<string> | AsyncIterable<string>,
) {
  let batch: string[] = [];
  const copy = async () => {
    const copied = await Promise.all(batch.map((key) => copyBlob(deps, archive, moveId, key)));
    batch = [];
    return copied.filter((record) => record !== undefined);
  };
  for await (const key of keys) if (batch.push(key) === CONCURRENCY) yield* await copy();
  yield* await copy();
}

async function copyBlob(deps: MoveDeps, archive: Archive, moveId: string, key: string) {
  const file = fileOf(moveId, key);
  // Nothing has changed since an export that was interrupted.
  if (!(await archive.has(file))) {
    const content = await deps.blobs.stream(key);
    if (content === undefined) return undefined;
    await archive.write(moveId, file, content);
  }
  const holders = (await deps.main.get({ pk: `BLOB#${key}`, sk: 'META' }))?.holders as number | undefined;
  return { is: 'blob', key, file, ...(holders !== undefined && { holders }) } as const;
}

async function* peopleOf(deps: MoveDeps, { id }: Workspace): AsyncGenerator<PersonRecord> {
  const { main } = deps;
  let staying = 0;
  for (const userId of await listMembers(deps, id)) {
    const [user, member] = await Promise.all([main.get(userKey(userId)), main.get(memberKey(userId, id))]);
    if (user === undefined || member === undefined) continue;
    const personalId = (await findUser(deps, userId))!.personalWorkspaceId;
    const keys = await listKeys(deps, userId);
    const moved = keys.filter(({ limits }) => (limits?.workspaceId ?? personalId) === id);
    staying += keys.filter(({ limits }) => limits?.workspaceId === undefined && personalId !== id).length;
    const personal = workspaceFrom((await main.get(workspaceKey(personalId)))!);
    yield {
      is: 'person',
      user,
      role: member.role as string,
      acceptedAt: member.accepted_at as string,
      ...(member.messages_seen_at !== undefined && { messagesSeenAt: member.messages_seen_at as string }),
      personal: { slug: personal.slug, name: personal.name },
      keys: (await Promise.all(moved.map(({ hash }) => main.get({ pk: `KEY#${hash}`, sk: 'META' })))).filter(
        (item) => item !== undefined,
      ),
    };
  }
  if (staying > 0) {
    deps.say(
      `${staying} keys of members stay here, because they are not limited to this workspace: they need new ones.`,
    );
  }
}

async function* secretsOf({ main, vault }: MoveDeps, workspaceId: string): AsyncGenerator<MoveRecord> {
  const names = [...(await secretNamesOf({ main }, workspaceId))];
  const values = {
    secrets: await vault.read(workspaceId, names),
    signing: await vault.read(signingVaultOf(workspaceId), [SIGNING_NAME, HEADERS_SECRET]),
  };
  for (const [place, found] of Object.entries(values)) {
    for (const [name, value] of Object.entries(found)) {
      yield { is: 'secret', vault: place as 'secrets' | 'signing', name, value };
    }
  }
}
