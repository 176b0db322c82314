import { listUsersOf, userEmailItem } from '#core/accounts/workspaces/emails.ts';
import {
  findPersonalWorkspace,
  memberItem,
  newUserOperations,
  userKey,
  workspaceFrom,
  workspaceKey,
  workspaceMembers,
} from '#core/accounts/workspaces/store.ts';
import { batchesOf } from '#core/base/batches.ts';
import { DATA_VERSION } from '#core/base/data-versions.ts';
import { derivedUuid } from '#core/base/derived-uuid.ts';
import type { Role, Workspace, WorkspaceMove } from '#core/base/workspace.ts';
import { isoTime } from '#core/ports/clock.ts';
import { absent, anyOf, type Condition, equals, exists, type Item } from '#core/ports/table.ts';
import { signingVaultOf } from '#core/ports/vault.ts';
import { type Archive, ArchiveError, type Manifest } from './archive.ts';
import type { MoveDeps } from './freeze.ts';
import { kindOf } from './kinds.ts';
import { type MoveRecord, type PersonRecord, readRecords } from './records.ts';

/** Writes at the same time. */
const CONCURRENCY = 25;

/** Something else in this cell has an id or a name of the workspace. */
class MoveConflictError extends Error {
  readonly code = 'MOVE_CONFLICT';
}

/**
 * Writes a workspace from an export into this cell, where it does nothing yet. Reads the whole export and looks for conflicts
 * first, so that nothing is written of one that is damaged or does not fit. Safe to repeat, also after an interruption.
 */
export async function importWorkspace(deps: MoveDeps, archive: Archive): Promise<Workspace> {
  const manifest = await archive.readManifest();
  if (manifest === undefined) throw new ArchiveError('the export is missing or incomplete: repeat the export');
  checkManifest(deps, manifest);
  const { id } = manifest.workspace;
  const meta = await verify(deps, archive, manifest);
  const stored = await deps.main.get(workspaceKey(id));
  const before = stored && workspaceFrom(stored).move;
  const isErased = stored?.forgotten === true;
  if (stored !== undefined && !isErased && before?.id !== manifest.id) {
    const hint = before === undefined ? 'works here' : `is ${before.state} here`;
    throw new MoveConflictError(`The workspace "${manifest.workspace.slug}" ${hint}. Erase what is left of it first.`);
  }
  const move: WorkspaceMove = { state: 'arriving', cell: manifest.from, id: manifest.id };
  const item: Item = { ...meta, move: { ...move } };
  if (stored === undefined || isErased) {
    const slug = { pk: `SLUG#${manifest.workspace.slug}`, sk: 'META' };
    const { ok } = await deps.main.transact([
      { op: 'put', item: { ...slug, workspace_id: id }, condition: anyOf(absent(), equals('workspace_id', id)) },
      { op: 'put', item, condition: isErased ? equals('forgotten', true) : absent() },
    ]);
    if (!ok) throw new MoveConflictError(`The slug "${manifest.workspace.slug}" is taken in this cell.`);
  }
  const workspace = workspaceFrom(item);
  const doing = { deps, archive, manifest, workspace };
  let batch: MoveRecord[] = [];
  const write = async () => {
    for (const some of batchesOf(batch, CONCURRENCY)) await Promise.all(some.map((each) => importRecord(doing, each)));
    batch = [];
  };
  for await (const record of readRecords(archive, manifest)) {
    if (batch.push(record) === 4 * CONCURRENCY) await write();
  }
  await write();
  await archive.note('imported', manifest, isoTime(deps.clock.now()));
  deps.say(`${manifest.records} records and ${manifest.blobs} blobs imported.`);
  return workspace;
}

function checkManifest({ config }: MoveDeps, { format, data_version: version, from, to }: Manifest): void {
  if (format !== 1) throw new ArchiveError(`the export has the format ${format}, which this platform does not know`);
  if (version !== DATA_VERSION) {
    throw new Error(
      `The export has data of version ${version}, and this platform ${DATA_VERSION}: upgrade both cells first.`,
    );
  }
  if (to !== config.cell)
    throw new Error(`The export goes from cell ${from} to ${to}, and this is cell ${config.cell}.`);
}

/** Reads all files, and looks for what is in the way. Returns the record of the workspace. */
async function verify(deps: MoveDeps, archive: Archive, manifest: Manifest): Promise<Item> {
  let meta: Item | undefined;
  let records = 0;
  let blobs = 0;
  for await (const record of readRecords(archive, manifest)) {
    records += 1;
    if (record.is === 'item' && isMeta(manifest, record.item)) meta = record.item;
    if (record.is === 'person') await checkPerson(deps, record);
    if (record.is === 'item') await checkTaken(deps, manifest, record);
    if (record.is !== 'blob') continue;
    blobs += 1;
    for await (const _ of archive.read(manifest.id, record.file));
  }
  if (meta === undefined || records !== manifest.records || blobs !== manifest.blobs) {
    throw new ArchiveError('the export is incomplete');
  }
  return meta;
}

const isMeta = ({ workspace }: Manifest, { pk, sk }: Item): boolean => pk === `WS#${workspace.id}` && sk === 'META';

async function checkPerson(deps: MoveDeps, { user }: PersonRecord): Promise<void> {
  const id = user.pk.slice('USER#'.length);
  const email = user.email as string;
  const here = await deps.main.get(userKey(id));
  const others = (await listUsersOf(deps, email)).filter((each) => each.id !== id);
  if (others.length > 0 || (here !== undefined && (here.email as string).toLowerCase() !== email.toLowerCase())) {
    throw new MoveConflictError(
      `${email} is another user in this cell. Let that person leave the workspace before the move, and invite them again after it.`,
    );
  }
}

/** Slugs and names of services are unique in a cell; ids are unique everywhere. */
async function checkTaken(
  { main }: MoveDeps,
  { workspace }: Manifest,
  record: MoveRecord & { is: 'item' },
): Promise<void> {
  const { pk, sk, service_id: serviceId } = record.item;
  if (record.table !== 'main' || !/^(SLUG|SERVICE_LABEL)#/.test(pk)) return;
  const here = await main.get({ pk, sk });
  if (
    here === undefined ||
    here.workspace_id === workspace.id ||
    (serviceId !== undefined && here.service_id === serviceId)
  )
    return;
  const [kind, name] = pk.split('#');
  throw new MoveConflictError(`The ${kind === 'SLUG' ? 'slug' : 'host name'} "${name}" is taken in this cell.`);
}

interface Import {
  readonly deps: MoveDeps;
  readonly archive: Archive;
  readonly manifest: Manifest;
  readonly workspace: Workspace;
}

async function importRecord(doing: Import, record: MoveRecord): Promise<void> {
  const { deps, archive, manifest, workspace } = doing;
  switch (record.is) {
    case 'item':
      if (!isMeta(manifest, record.item)) await put(doing, record.table, record.item);
      return;
    case 'order': {
      const key = Buffer.from(record.key, 'base64');
      return put(doing, record.table ?? 'runs', {
        ...record.item,
        sealed_key: await deps.vault.sealDataKey(workspace.id, key),
      });
    }
    case 'person':
      return importPerson(doing, record);
    case 'secret': {
      const vault = record.vault === 'signing' ? signingVaultOf(workspace.id) : workspace.id;
      return deps.vault.write(vault, record.name, record.value);
    }
    case 'blob': {
      await deps.blobs.put(record.key, archive.read(manifest.id, record.file));
      const { holders } = record;
      if (holders === undefined) return;
      // Workspaces that share a blob may move one after another.
      const mark = `moved_${manifest.id}`;
      const key = { pk: `BLOB#${record.key}`, sk: 'META' };
      await deps.main.update(key, { add: { holders }, set: { [mark]: true } }, absent(mark));
      return;
    }
  }
}

async function put({ deps, workspace }: Import, table: 'main' | 'runs' | 'counters', item: Item): Promise<void> {
  const { ok } = await deps[table].put(item, conditionOf(table, item, workspace.id));
  if (!ok) throw new MoveConflictError(`${table}: ${item.pk} / ${item.sk} is of another workspace in this cell.`);
}

function conditionOf(table: 'main' | 'runs' | 'counters', item: Item, workspaceId: string): Condition | undefined {
  const kind = kindOf(table, item)?.kind;
  if (kind === undefined) throw new ArchiveError(`the export has an item that this platform does not know: ${item.pk}`);
  if (kind.of === 'workspace_id') return anyOf(absent(), equals('workspace_id', workspaceId));
  if (kind.pk === 'SERVICE_LABEL#*') return anyOf(absent(), equals('service_id', item.service_id as string));
  return undefined;
}

async function importPerson(doing: Import, record: PersonRecord): Promise<void> {
  const { deps, workspace } = doing;
  const { main } = deps;
  const id = record.user.pk.slice('USER#'.length);
  const personal = await personalWorkspaceOf(doing, id, record);
  await main.put(userEmailItem({ id, email: record.user.email as string }));
  const { messagesSeenAt: messages_seen_at } = record;
  const member = memberItem(workspace, id, record.role as Role, record.acceptedAt);
  await main.put({ ...member, ...(messages_seen_at !== undefined && { messages_seen_at }) });
  for (const key of record.keys) {
    const item = { ...key, workspace: workspaceMembers(personal) };
    const { ok } = await main.put(item, anyOf(absent(), equals('user_id', id)));
    if (!ok) throw new MoveConflictError(`The API key "${key.prefix}…" is of another user in this cell.`);
    await main.put({ pk: userKey(id).pk, sk: `KEY#${key.id}`, hash: key.hash as string });
  }
}

/** Returns the personal workspace of a user in this cell, and creates the user first if needed. */
async function personalWorkspaceOf(
  doing: Import,
  userId: string,
  { user, personal }: PersonRecord,
): Promise<Workspace> {
  const { deps, workspace, manifest } = doing;
  const { main, clock, config } = deps;
  const isOwn = user.personal_workspace_id === workspace.id;
  const here = await main.get(userKey(userId));
  if (isOwn) {
    if (here === undefined) await main.put(user, absent());
    else await main.update(userKey(userId), { set: { personal_workspace_id: workspace.id } }, exists());
    return workspace;
  }
  if (here !== undefined) return findPersonalWorkspace(deps, userId);
  const id = derivedUuid('personal workspace', manifest.id, userId);
  const about = { email: user.email as string, displayName: user.display_name as string };
  for (const slug of [
    personal.slug,
    `${personal.slug}-${config.cell}`.slice(-50),
    `${config.cell}-${id.slice(0, 8)}`,
  ]) {
    const made: Workspace = { id, slug, name: personal.name, type: 'personal', createdAt: isoTime(clock.now()) };
    const { ok } = await main.transact(newUserOperations(userId, about, made));
    if (ok) return made;
  }
  throw new MoveConflictError(`No slug is free for the personal workspace of ${about.email}.`);
}
