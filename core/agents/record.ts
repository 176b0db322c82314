import type { Json } from '#core/base/json.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { AgentVersion, Bundle, Gate, Install, Publisher } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { getLarge, MAX_INLINE_BYTES, putIfLarge } from '#core/ports/large-value.ts';
import { absent, type Changes, equals, type Item, type TransactOperation } from '#core/ports/table.ts';
import type { StoredChannels } from './channels/channel.ts';
import { type EvalContents, evalFilesKey } from './eval-files.ts';
import { type GateItem, gateItem, readGate } from './gates/gate-item.ts';
import type { StoredPreviews } from './previews/preview.ts';
import { skillFilesKey, splitContents } from './skills/skill-contents.ts';

/**
 * Main table:
 * - `WS#<workspace id>#AGENT#<name> / HEAD`: the highest version number ever assigned, the current version, the first
 *   version number of the agent, its channels (`channels/channel.ts`) and previews (`previews/preview.ts`), and a revision
 *   that grows whenever a version is added, removed, becomes runnable or its gate is decided, or a channel changes (gsi1
 *   `PREVIEWS`: agents with previews; gsi2 `CANARIES`: agents with a canary that is watched);
 * - `WS#<workspace id>#AGENT#<name> / V#00001`: a version (gsi1: all of a workspace; gsi2: the public ones);
 * - `WS#<workspace id>#AGENT#<name> / GATE#*`: what may open the gate of a version (`gates/gate.ts`);
 * - `AGENT#<version id> / META`: the workspace, name and number of the version with that id, and the user of a `dev`
 * build.
 *
 * Builds of `dev` are stored elsewhere: see `dev/slots.ts`.
 *
 * A version is *live* until it is deleted, *runnable* once its code bundle and dependencies are present, and *current* if it
 * is the newest live one that may be (`mayBeCurrent` in `gates/standing.ts`): `latest` names it, and it supersedes the others.
 */
export const partitionOf = (workspaceId: string, name: string): string => `WS#${workspaceId}#AGENT#${name}`;
export const headKey = (workspaceId: string, name: string) => ({ pk: partitionOf(workspaceId, name), sk: 'HEAD' });
export const devPartition = (workspaceId: string, userId: string): string => `WS#${workspaceId}#DEV#${userId}`;
/** Identifies a build of the version `dev`. */
export type DevBuild = Pick<AgentVersion, 'workspaceId' | 'name' | 'id'> & { readonly devOf: string };
type Numbered = Pick<AgentVersion, 'workspaceId' | 'name' | 'version'> & { readonly devOf?: undefined };
export const versionKey = (version: Numbered | (DevBuild & Pick<AgentVersion, 'version'>) | AgentVersion) => {
  const { workspaceId, name } = version;
  if (version.devOf !== undefined)
    return { pk: devPartition(workspaceId, version.devOf), sk: `BUILD#${name}#${version.id}` };
  return { pk: partitionOf(workspaceId, name), sk: `V#${String(version.version).padStart(5, '0')}` };
};
export const idKey = (id: string) => ({ pk: `AGENT#${id}`, sk: 'META' });
export const definitionKey = (id: string): string => `definitions/${id}.json`;

/** An agent's HEAD item; each number is 0 before its first change, and `first_version` 1. */
export type Head = {
  readonly assigned: number;
  readonly current: number;
  /** Number of the first version since all versions of the agent were last deleted. */
  readonly first_version: number;
  readonly revision: number;
  readonly fork_count: number;
  /** Read with each call of `latest`, so calls of a channel need no further item. */
  readonly channels: StoredChannels;
  /** Likewise for calls of a preview. */
  readonly previews: StoredPreviews;
};

export async function readHead({ main }: Pick<Deps, 'main'>, workspaceId: string, name: string): Promise<Head> {
  const item = await main.get(headKey(workspaceId, name));
  return {
    assigned: 0,
    current: 0,
    first_version: 1,
    revision: 0,
    fork_count: 0,
    channels: {},
    previews: {},
    ...(item as Partial<Head> | undefined),
  };
}

/** Builds the operation that fails if the agent's versions or channels were changed after `head` was read. */
export function changeHead(
  { workspaceId, name }: Pick<AgentVersion, 'workspaceId' | 'name'>,
  { revision }: Pick<Head, 'revision'>,
  set: Partial<Head>,
  further: Changes = {},
): TransactOperation {
  return {
    op: 'update',
    key: headKey(workspaceId, name),
    changes: {
      ...further,
      set: { ...further.set, ...(set as unknown as Changes['set']), revision: revision + 1 },
    },
    condition: revision === 0 ? absent('revision') : equals('revision', revision),
  };
}

/** Index of all versions of a workspace, oldest first. */
export const workspaceIndex = (workspaceId: string): string => `WS#${workspaceId}#AGENTS`;
/** Index of all builds of `dev` of a workspace, for counting their storage. */
export const devIndex = (workspaceId: string): string => `WS#${workspaceId}#DEV`;
/** Index of all public versions, oldest first. */
export const PUBLIC_INDEX = 'PUBLIC';
export const publicIndexKey = (createdAt: string, id: string) => ({
  gsi2pk: PUBLIC_INDEX,
  gsi2sk: `${createdAt}#${id}`,
});

/** A definition as members of its version's item. A large definition is in a blob, and `definition` is `undefined`. */
export interface StoredDefinition {
  readonly definition: Json | undefined;
  readonly definition_bytes: number;
  /** Bytes of the blob with the contents of a skill's files; absent without one. */
  readonly contents_bytes?: number;
  /** Bytes and hash of the blob with its suites; absent without one. */
  readonly evals_bytes?: number;
  readonly evals_sha256?: string;
}

/**
 * Writes a large definition, the contents of a skill's files, and suites, to blobs. Calls `announce` with the key of each
 * before the write.
 */
export async function storeDefinition(
  deps: Pick<Deps, 'blobs'>,
  id: string,
  definition: AgentDefinition,
  announce: (blob: string) => Promise<void> = async () => {},
  evals?: EvalContents,
): Promise<StoredDefinition> {
  const { definition: stored, contents } = splitContents(definition);
  const files = contents === undefined ? undefined : Buffer.from(contents);
  if (files !== undefined) {
    await announce(skillFilesKey(id));
    await deps.blobs.put(skillFilesKey(id), files);
  }
  if (evals !== undefined) {
    await announce(evalFilesKey(id));
    await deps.blobs.put(evalFilesKey(id), evals.content);
  }
  const text = JSON.stringify(stored);
  const definition_bytes = Buffer.byteLength(text);
  if (definition_bytes > MAX_INLINE_BYTES) await announce(definitionKey(id));
  const isLarge = await putIfLarge(deps, definitionKey(id), text);
  return {
    definition: isLarge ? undefined : (stored as unknown as Json),
    definition_bytes,
    ...(files !== undefined && { contents_bytes: files.byteLength }),
    ...(evals !== undefined && { evals_bytes: evals.content.byteLength, evals_sha256: evals.sha256 }),
  };
}

/** Members of a new version that publishing decides, besides its definition. */
export interface VersionState {
  readonly runnable: boolean;
  readonly bundle?: Bundle;
  readonly install?: Install;
  /** Version that this one copies, whose bundle and layer it uses. */
  readonly copyOf?: Pick<AgentVersion, 'id' | 'workspaceId'>;
  /** Its suites. @default - none */
  readonly evals?: EvalContents | undefined;
  /** Who published a version that has to pass its suites before it is current. @default - it has no gate */
  readonly gatedFor?: Publisher | undefined;
  /** Name of the preview that it is. @default - it is a version that stays */
  readonly preview?: string | undefined;
}

/** Builds the item of a new version. `definition` comes from {@link storeDefinition}. */
export function newVersionItem(
  place: Pick<AgentVersion, 'id' | 'name' | 'version' | 'firstVersion' | 'devOf'> & { readonly workspace: Workspace },
  state: Pick<VersionState, 'runnable' | 'bundle' | 'install' | 'copyOf'> & {
    readonly isPublic: boolean;
    readonly definition: StoredDefinition;
    readonly gate?: Gate | undefined;
    readonly preview?: AgentVersion['preview'];
    readonly now: string;
  },
): Item {
  const { id, workspace, name, version, firstVersion, devOf } = place;
  const { now } = state;
  return {
    ...versionKey({
      workspaceId: workspace.id,
      name,
      version,
      ...(devOf !== undefined && { devOf, id }),
    } as AgentVersion),
    ...(devOf !== undefined && { dev_of: devOf }),
    id,
    workspace_id: workspace.id,
    org_slug: workspace.slug,
    org_name: workspace.name,
    name,
    version,
    first_version: firstVersion,
    created_at: now,
    updated_at: now,
    runnable: state.runnable,
    bundle: state.bundle && bundleItem(state.bundle),
    install: state.install && installItem(state.install),
    forked_from: state.copyOf?.id,
    gate: state.gate && gateItem(state.gate),
    preview: state.preview && { name: state.preview.name, ends_at: state.preview.endsAt },
    ...state.definition,
    gsi1pk: devOf === undefined ? workspaceIndex(workspace.id) : devIndex(workspace.id),
    gsi1sk: `${now}#${id}`,
    ...(state.isPublic && publicIndexKey(now, id)),
  };
}

/**
 * Parsed versions by their items, which a table shares between readers. Items are frozen: a change creates a new item.
 */
const versions = new WeakMap<Item, AgentVersion>();

export async function readVersion(deps: Pick<Deps, 'blobs' | 'clock'>, item: Item): Promise<AgentVersion> {
  const known = versions.get(item);
  if (known) return known;
  const version = await newVersion(deps, item);
  // Not cacheable by item: a definition in a blob changes before its item, and an installation can time out without a
  // write.
  const isWhole = item.definition !== undefined && version.install?.status !== 'building';
  if (isWhole && Object.isFrozen(item)) versions.set(item, Object.freeze(version));
  return version;
}

async function newVersion(deps: Pick<Deps, 'blobs' | 'clock'>, item: Item): Promise<AgentVersion> {
  let definition = item.definition as unknown as AgentDefinition | undefined;
  if (definition === undefined) {
    const text = await getLarge(deps, definitionKey(item.id as string));
    if (text === undefined) throw new Error(`the definition of agent version ${item.id} is missing`);
    definition = JSON.parse(text) as AgentDefinition;
  }
  return {
    id: item.id as string,
    workspaceId: item.workspace_id as string,
    orgSlug: item.org_slug as string,
    orgName: item.org_name as string,
    name: item.name as string,
    version: item.version as number,
    devOf: item.dev_of as string | undefined,
    firstVersion: (item.first_version as number | undefined) ?? 1,
    definition,
    createdAt: item.created_at as string,
    updatedAt: item.updated_at as string,
    runnable: item.runnable as boolean,
    bundle: item.bundle === undefined ? undefined : readBundle(item.bundle as BundleItem),
    install: item.install === undefined ? undefined : readInstall(item.install as InstallItem, deps.clock.now()),
    supersededAt: item.superseded_at as string | undefined,
    forkedFrom: item.forked_from as string | undefined,
    contentsBytes: item.contents_bytes as number | undefined,
    ...(item.evals_sha256 !== undefined && {
      evalFiles: { bytes: item.evals_bytes as number, sha256: item.evals_sha256 as string },
    }),
    ...(item.gate !== undefined && { gate: readGate(item.gate as unknown as GateItem) }),
    ...(item.preview !== undefined && { preview: readPreview(item.preview as unknown as PreviewItem) }),
  };
}

type PreviewItem = { readonly name: string; readonly ends_at: string };

const readPreview = ({ name, ends_at }: PreviewItem) => ({ name, endsAt: ends_at });

export type BundleItem = ReturnType<typeof bundleItem>;
export type InstallItem = ReturnType<typeof installItem>;

export const bundleItem = ({ sha256, key, sizeBytes, entrypoint, uploadedAt }: Bundle) => ({
  sha256,
  ...(key !== undefined && { key }),
  size_bytes: sizeBytes,
  entrypoint,
  uploaded_at: uploadedAt,
});

const readBundle = ({ sha256, key, size_bytes, entrypoint, uploaded_at }: BundleItem): Bundle => ({
  sha256,
  key,
  sizeBytes: size_bytes,
  entrypoint,
  uploadedAt: uploaded_at,
});

export const installItem = ({ runId, heldLayer, layerSha256, ...install }: Install) => ({
  ...install,
  run_id: runId,
  ...(heldLayer !== undefined && { held_layer: heldLayer }),
  ...(layerSha256 !== undefined && { layer_sha256: layerSha256 }),
});

/** Error of an installation whose process died. */
const INTERRUPTED =
  'The installation was interrupted: its process on the platform ended unexpectedly. Upload the bundle again.';

const readInstall = ({ run_id, held_layer, layer_sha256, ...install }: InstallItem, now: number): Install => ({
  ...install,
  ...(install.status === 'building' && install.deadline <= now && { status: 'failed', error: INTERRUPTED }),
  runId: run_id,
  heldLayer: held_layer,
  layerSha256: layer_sha256,
});
